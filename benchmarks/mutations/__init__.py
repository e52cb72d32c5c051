"""Remove or weaken one synchronisation of a correct kernel at a time: ``python -m benchmarks.mutations``."""
