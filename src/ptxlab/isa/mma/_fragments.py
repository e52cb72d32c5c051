"""The operands of mma: access by their names in the row, and conversion between matrices and the registers of a warp.

The layouts are "mma ab" and "mma cd" of `ptxlab.tables.MATRIX_FRAGMENTS`. A register of A or B holds as many consecutive elements along K
as fit into its 32 bits (an f64 has a 64-bit register). The stored elements of a sparse A have the layout of a dense A.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa import context
from ptxlab.isa.catalogue import Row
from ptxlab.isa.operands import Const, Group, Resolved
from ptxlab.isa.operations.matrices import RegisterMatrix
from ptxlab.layout import matrix_fragment

__all__ = ["gather_ab", "gather_cd", "immediate", "read", "register_matrix", "scatter_d", "selectors", "write"]

Registers = NDArray[Any]
"""uint32[count, 32], or uint64 of f64."""
Codes = NDArray[np.unsignedinteger]


def _unpack(words: Registers, bits: int) -> Codes:
    """The elements of words, lowest bits first: ``[..., elements of a word]``."""
    if bits >= 8:
        found: Codes = np.ascontiguousarray(words)[..., None].view(f"u{bits // 8}")
        return found
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    small: Codes = (words[..., None] >> shifts & np.uint32((1 << bits) - 1)).astype(np.uint8)
    return small


@cache
def _index(name: str, **sizes: int) -> NDArray[np.intp]:
    """For each element of a matrix [row, column], its flat index in the values [value, thread]."""
    at = matrix_fragment(name, **sizes)
    threads, values = at.row.shape
    found = np.empty((at.row.max() + 1, at.column.max() + 1), np.intp)
    found[at.row, at.column] = np.arange(threads)[:, None] + np.arange(values) * threads
    return found


def gather_ab(registers: Registers, rows: int, bits: int) -> Codes:
    """Matrix A as [M, K], or matrix B as [N, K]."""
    halves = rows // 8
    return _unpack(registers.take(_index("mma ab", h=halves, n=len(registers) // halves)), bits).reshape(rows, -1)


@cache
def register_matrix(name: str, element: str, bits: int, rows: int, columns: int, stored: int) -> RegisterMatrix:
    """Matrix A or B in the registers of a warp, with so many elements in a row."""
    halves, registers = rows // 8, columns * bits // max(bits, 32) // 4
    return RegisterMatrix(name, name.lower(), element, bits, stored, _index("mma ab", h=halves, n=registers))


def gather_cd(registers: Registers, m: int, half: bool) -> Codes:
    """Matrix C or D [m, 8]; a register holds one value, or two of 16 bits."""
    values = _unpack(registers, 16).swapaxes(1, 2).reshape(-1, 32) if half else registers
    found: Codes = values.take(_index("mma cd", h=m // 8))
    return found


@cache
def _elements(m: int, half: bool) -> NDArray[np.intp]:
    """For each value, its flat index in a matrix D [m, 8]: [value, thread], or [thread, value] for f16."""
    at = matrix_fragment("mma cd", h=m // 8)
    found = 8 * at.row + at.column
    return found if half else np.ascontiguousarray(found.T)


def scatter_d(matrix: Codes, half: bool) -> Registers:
    """The registers of a matrix D [m, 8]."""
    values: Registers = matrix.take(_elements(len(matrix), half))
    return np.ascontiguousarray(values.astype(np.uint16).view(np.uint32).T) if half else values


@cache
def position(row: Row, name: str) -> int:
    """The position of an operand."""
    return [operand for operand, _ in row.operands].index(name)


def _items(operand: Resolved) -> tuple[Resolved, ...]:
    return operand.items if isinstance(operand, Group) else (operand,)


def read(warp: context.WarpContext, name: str, bits: int = 32) -> NDArray[Any]:
    """The registers of an operand, [count, 32]."""
    return np.stack([warp.values(item, bits) for item in _items(warp.op.operands[position(warp.op.row, name)])])


def write(warp: context.WarpContext, registers: NDArray[Any], bits: int = 32) -> None:
    """Write D."""
    for item, row in zip(_items(warp.op.operands[0]), registers, strict=True):
        warp.write(item, row, bits)


def immediate(warp: context.WarpContext, name: str, says: str, allowed: tuple[int, ...]) -> int:
    """A constant operand; a fault unless it is one of those allowed."""
    operand = warp.op.operands[position(warp.op.row, name)]
    if not isinstance(operand, Const) or operand.value not in allowed:
        warp.fault("W911", f"{says} must be a constant, {_list(allowed)}")
    return operand.value


def selectors(warp: context.WarpContext, name: str, allowed: tuple[tuple[str, tuple[int, ...]], ...]) -> tuple[int, ...]:
    """A group of selectors, each the same in all threads; a fault unless they are allowed."""
    found = []
    for item, (says, values) in zip(_items(warp.op.operands[position(warp.op.row, name)]), allowed, strict=True):
        value = warp.uniform(item, 16)
        if value not in values:
            warp.fault("W911", f"{says} is {value}; it must be {_list(values)}")
        found.append(value)
    return tuple(found)


def _list(values: tuple[int, ...]) -> str:
    return " or ".join(map(str, values)) if len(values) < 3 else f"{values[0]} to {values[-1]}"
