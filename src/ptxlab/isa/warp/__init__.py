"""Exchanges between the lanes of a warp. Importing the package registers them in the catalogue."""

from ptxlab.isa.warp import _lanes, _matrix

__all__ = ["_lanes", "_matrix"]
