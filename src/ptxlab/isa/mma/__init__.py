"""mma.sync and mma.sp. Importing the package registers them in the catalogue."""

from ptxlab.isa.mma import _products

__all__ = ["_products"]
