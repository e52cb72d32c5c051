"""Whole programs and kernels, by source."""
