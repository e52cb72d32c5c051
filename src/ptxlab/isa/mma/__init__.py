"""mma.sync, mma.sp and movmatrix. Importing the package enters them into the catalogue."""

from ptxlab.isa.mma import _codes, _products, _quads, _transpose

__all__ = ["_codes", "_products", "_quads", "_transpose"]
