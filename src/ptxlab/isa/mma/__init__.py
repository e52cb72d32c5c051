"""mma.sync and mma.sp. Importing the package registers them in the catalogue."""

from ptxlab.isa.mma import _products, _quads

__all__ = ["_products", "_quads"]
