"""Asynchronous operations between issue and completion, the bytes that operations read and write, and the data that they move.

The tiles and products of matrices stand in `ptxlab.isa.operations.tiles`.
"""

from __future__ import annotations

from ptxlab.isa.operations._accesses import AccessMarks, MemoryAccess
from ptxlab.isa.operations._asynchronous import AsyncOperation, UndefinedBits

__all__ = ["AccessMarks", "AsyncOperation", "MemoryAccess", "UndefinedBits"]
