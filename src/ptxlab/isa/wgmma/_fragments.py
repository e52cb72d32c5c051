"""Conversion between the registers of a warpgroup and matrices: section "Register Fragments and Shared Memory Matrix Layouts"."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import numerics
from ptxlab.isa.warpgroup_words import WARPS, Base
from ptxlab.layout import wgmma_a_fragment, wgmma_fragment

__all__ = ["AccumulatorIndex", "a_index", "a_matrix", "accumulator_index"]

U32 = NDArray[np.uint32]
_LANES = 32
_ROWS = 64


class AccumulatorIndex(NamedTuple):
    """Flat indices that convert between registers [warp, register, lane, value] and the elements [column, row] of D.

    ``values`` is the number of elements in a register: two if D is f16.
    """

    from_registers: NDArray[np.intp]
    from_cells: NDArray[np.intp]
    registers: int
    values: int

    def cells(self, registers: U32) -> U32:
        """Return elements uint32[column, row] of registers uint32[warp, register, lane]; an f16 is in the low half of its uint32."""
        if self.values == 1:
            return registers.take(self.from_registers)
        return registers.view(np.uint16).take(self.from_registers).astype(np.uint32)

    def of_cells(self, cells: U32) -> U32:
        """The inverse of `cells`."""
        if self.values == 1:
            return cells.take(self.from_cells)
        return cells.astype(np.uint16).take(self.from_cells).view(np.uint32)

    def moves(self, rows: NDArray[np.intp], number: int) -> tuple[numerics.MmaProgram, numerics.MmaProgram]:
        """Programs that move the accumulator with a number from its registers, which are in these rows, to its cells, and back.

        The high halves of cells of f16 are 0 and stay so.
        """
        values = self.values
        lanes = np.arange(_LANES * values)
        registers = (rows[:, None] * _LANES * values + lanes).reshape(-1).astype(np.int64)
        cells = [np.ascontiguousarray(of_warp.reshape(-1) * values, np.int64) for of_warp in self.from_cells]
        places = [((Base.FRAMES + warp, registers), (Base.CELLS + number, cells[warp])) for warp in range(WARPS)]
        unit = 4 // values
        return numerics.move_program(unit, places), numerics.move_program(unit, [(to, of) for of, to in places])


@cache
def accumulator_index(n: int, halves: bool) -> AccumulatorIndex:
    """Return the indices for a matrix D of 64 x n."""
    fragment = wgmma_fragment(n)
    values = 2 if halves else 1
    count = n // 2 // values
    cell = (fragment.column * _ROWS + fragment.row).reshape(WARPS, _LANES, count, values).transpose(0, 2, 1, 3)
    from_cells = np.ascontiguousarray(cell).reshape(WARPS, count, _LANES * values).astype(np.intp)
    from_registers = np.empty((n, _ROWS), np.intp)
    from_registers.reshape(-1)[from_cells.reshape(-1)] = np.arange(from_cells.size)
    return AccumulatorIndex(from_registers, from_cells, count, values)


@cache
def a_index() -> NDArray[np.intp]:
    """For each 32-bit word of each row of A, its index in the registers [warp, register, lane]; the same for all types."""
    fragment = wgmma_a_fragment(32)
    place = (fragment.row * 8 + fragment.column).reshape(WARPS, _LANES, 4).transpose(0, 2, 1)
    found = np.empty((_ROWS, 8), np.intp)
    found.reshape(-1)[place.reshape(-1)] = np.arange(place.size)
    return found


def a_matrix(registers: U32, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the elements [64, k] of a matrix A that is in registers uint32[warp, register, lane]."""
    return registers.take(a_index()).view(dtype)
