"""Copies that compiled code repeats: boxes, rows and pixels of tensor maps, and contiguous bytes."""
