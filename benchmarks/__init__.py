"""Side-by-side measurements: `python -m benchmarks [--quick] [--json FILE]`."""
