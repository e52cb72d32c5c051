"""Exchanges between the lanes of a warp. Importing the package registers them in the catalogue."""

from ptxlab.isa.warp import _lanes  # noqa: F401  (declare the rows)
