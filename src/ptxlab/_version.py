"""The version of ptxlab, where every package may ask for it."""

__version__ = "0.1.0"
