"""mma.sync, mma.sp and movmatrix. Importing the package enters them into the catalogue."""

from ptxlab.isa.mma import _products, _quads, _transpose

__all__ = ["_products", "_quads", "_transpose"]
