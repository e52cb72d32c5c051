"""The NumPy back end: the reference that compiled code is tested against."""
