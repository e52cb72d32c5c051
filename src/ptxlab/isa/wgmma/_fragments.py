"""Registers of a warpgroup against matrices: section "Register Fragments and Shared Memory Matrix Layouts"."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.layout import wgmma_a_fragment, wgmma_fragment

__all__ = ["WARPS", "AccumulatorIndex", "a_matrix", "accumulator_index"]

U32 = NDArray[np.uint32]
WARPS = 4
_LANES = 32
_ROWS = 64


class AccumulatorIndex(NamedTuple):
    """Between the values of registers [warp, register, lane, value] and cells [column, row] of D, both as flat indices.

    ``values`` are those in a register: two halves if D is f16.
    """

    from_registers: NDArray[np.intp]
    from_cells: NDArray[np.intp]
    registers: int
    values: int

    def cells(self, registers: U32) -> U32:
        """Cells uint32[column, row] of registers uint32[warp, register, lane]; halves stand in the low half of their cell."""
        if self.values == 1:
            return registers.take(self.from_registers)
        return registers.view(np.uint16).take(self.from_registers).astype(np.uint32)

    def of_cells(self, cells: U32) -> U32:
        """The inverse of `cells`."""
        if self.values == 1:
            return cells.take(self.from_cells)
        return cells.astype(np.uint16).take(self.from_cells).view(np.uint32)


@cache
def accumulator_index(n: int, halves: bool) -> AccumulatorIndex:
    """For a D of 64 x n."""
    fragment = wgmma_fragment(n)
    values = 2 if halves else 1
    count = n // 2 // values
    cell = (fragment.column * _ROWS + fragment.row).reshape(WARPS, _LANES, count, values).transpose(0, 2, 1, 3)
    from_cells = np.ascontiguousarray(cell).reshape(WARPS, count, _LANES * values).astype(np.intp)
    from_registers = np.empty((n, _ROWS), np.intp)
    from_registers.reshape(-1)[from_cells.reshape(-1)] = np.arange(from_cells.size)
    return AccumulatorIndex(from_registers, from_cells, count, values)


@cache
def _a_index() -> NDArray[np.intp]:
    """Which of the words [warp, register, lane] each word of a row of A is: the same for all types."""
    fragment = wgmma_a_fragment(32)
    place = (fragment.row * 8 + fragment.column).reshape(WARPS, _LANES, 4).transpose(0, 2, 1)
    found = np.empty((_ROWS, 8), np.intp)
    found.reshape(-1)[place.reshape(-1)] = np.arange(place.size)
    return found


def a_matrix(registers: U32, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Elements [64, k] of A in registers uint32[warp, register, lane]."""
    return registers.take(_a_index()).view(dtype)
