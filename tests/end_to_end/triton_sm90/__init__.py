"""Kernels compiled by Triton for sm_90a; their sources and cases are those of `tests.end_to_end.triton`."""
