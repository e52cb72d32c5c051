"""Exchanges between the lanes of a warp. Importing the package enters them into the catalogue."""

from ptxlab.isa.warp import _lanes, _matrix

__all__ = ["_lanes", "_matrix"]
