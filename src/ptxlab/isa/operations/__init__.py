"""Asynchronous operations between issue and completion, the bytes that operations read and write, and the data that they move.

What copies place in shared memory stands in `ptxlab.isa.operations.tiles`, the matrices of products in
`ptxlab.isa.operations.matrices`, and products in numbers in `ptxlab.isa.operations.products`.
"""

from __future__ import annotations

from ptxlab.isa.operations._accesses import AccessMarks, MemoryAccess, PlacedRanges
from ptxlab.isa.operations._asynchronous import AsyncOperation, UndefinedBits

__all__ = ["AccessMarks", "AsyncOperation", "MemoryAccess", "PlacedRanges", "UndefinedBits"]
