"""Which elements the registers of a warp hold: sections "Matrix Fragments for mma.m16n8k16 ..." and those of the other shapes.

They follow one rule. Thread t belongs to group t/4. A register holds neighbouring elements along K, as many as fill its 32 bits (one f64
has a register of 64); the four threads of a group stand side by side along K. The stored elements of a sparse A stand as those of a dense
one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["gather_a", "gather_b", "gather_d", "scatter_d", "unpack"]

Registers = NDArray[Any]
"""uint32[count, 32], or uint64 of f64."""
Codes = NDArray[np.unsignedinteger]


def unpack(words: Registers, bits: int) -> Codes:
    """Elements of words, low bits first: ``[..., elements of a word]``."""
    if bits >= 8:
        found: Codes = np.ascontiguousarray(words)[..., None].view(f"u{bits // 8}")
        return found
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    small: Codes = (words[..., None] >> shifts & np.uint32((1 << bits) - 1)).astype(np.uint8)
    return small


def gather_a(registers: Registers, m: int, bits: int) -> Codes:
    """Matrix A [m, K]: by turns row t/4 and row t/4 + 8, then the next part of K."""
    parts = unpack(registers.reshape(-1, m // 8, 8, 4), bits)  # part of K, half of M, group, thread, element
    return parts.transpose(1, 2, 0, 3, 4).reshape(m, -1)


def gather_b(registers: Registers, bits: int) -> Codes:
    """Matrix B as [8, K]."""
    return unpack(registers.reshape(-1, 8, 4), bits).transpose(1, 0, 2, 3).reshape(8, -1)


def gather_d(registers: Registers, m: int, half: bool) -> Codes:
    """Matrix C or D [m, 8]: a thread holds columns 2(t%4) and the next, of 16 bits in one register or of more in two."""
    if half:
        return unpack(registers.reshape(m // 8, 8, 4), 16).reshape(m, 8)
    found: Codes = registers.reshape(m // 8, 2, 8, 4).transpose(0, 2, 3, 1).reshape(m, 8)
    return found


def scatter_d(matrix: Codes, half: bool) -> Registers:
    """The registers of a matrix D [m, 8]."""
    m = len(matrix)
    if half:
        return np.ascontiguousarray(matrix, np.uint16).view(np.uint32).reshape(m // 8, 32)
    return np.ascontiguousarray(matrix.reshape(m // 8, 8, 4, 2).transpose(0, 3, 1, 2)).reshape(-1, 32)
