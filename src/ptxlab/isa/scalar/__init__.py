"""Scalar instructions: integers, bits, floats, comparison, conversion, moves. Importing the package enters them into the catalogue."""

from ptxlab.isa.scalar import _approx, _bits, _compare, _convert, _float, _half, _integer, _narrow, _reciprocals, _small  # noqa: F401  (declare the rows)
