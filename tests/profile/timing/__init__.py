"""Kernels whose times and counters a GPU has been asked for: their sources, their cases, and the program that records them."""
