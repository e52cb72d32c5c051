"""mma.sync and mma.sp. Importing the package registers them in the catalogue."""

from ptxlab.isa.mma import _products  # noqa: F401  (declare the rows)
