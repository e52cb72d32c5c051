"""mma.sync and mma.sp. Importing the package enters them into the catalogue."""

from ptxlab.isa.mma import _products, _quads

__all__ = ["_products", "_quads"]
