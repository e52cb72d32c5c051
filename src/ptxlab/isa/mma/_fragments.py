"""Conversion between matrices and the registers of a warp, with the layouts "mma ab" and "mma cd" of `ptxlab.tables.MATRIX_FRAGMENTS`.

A register of A or B holds as many consecutive elements along K as fit into its 32 bits (an f64 has a 64-bit register). The stored
elements of a sparse A have the layout of a dense A.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.layout import matrix_fragment

__all__ = ["gather_ab", "gather_cd", "scatter_d"]

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
