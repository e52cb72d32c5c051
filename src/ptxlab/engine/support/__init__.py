"""Compiled functions that regions call: memory accesses, atomics, copies, lane exchanges."""
