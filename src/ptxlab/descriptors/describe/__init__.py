"""Descriptors in words."""
