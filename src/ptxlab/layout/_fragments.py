"""Registers of a warp or warpgroup against tensor memory and matrices.

Section "Data Movement Shape" (matrix fragments of tcgen05.ld and .st), and the wgmma sections on register fragments.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.layout.cute import LayoutError

__all__ = ["FRAGMENT_REGISTERS", "Fragment", "MatrixFragment", "fragment", "wgmma_a_fragment", "wgmma_fragment"]

Array = NDArray[np.int64]

FRAGMENT_REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
"""Registers of a thread at ``.x1``."""


class Fragment(NamedTuple):
    """Lane and column, relative to the address, of every (thread, register)."""

    lane: Array
    column: Array


class MatrixFragment(NamedTuple):
    """Row and column in the matrix of every (thread, register)."""

    row: Array
    column: Array


@lru_cache(maxsize=128)
def fragment(shape: str, num: int = 1, pack: bool = False, split: int = 0) -> Fragment:
    """Which cell of tensor memory each register of tcgen05.ld or .st stands for.

    Parameters
    ----------
    shape : ``32x32b``, ``16x64b``, ``16x128b``, ``16x256b`` or ``16x32bx2``
    num : the repetition ``.xN``
    pack : ``.pack::16b`` or ``.unpack::16b``: a register holds the low halves of two cells; the column given is that of bits 15:0, the next
        column is that of bits 31:16
    split : the immediate of ``16x32bx2``: columns from the first to the second half of the threads

    Returns
    -------
    two arrays int64[32, registers]

    Examples
    --------
    >>> f = fragment("16x256b", num=4)
    >>> f.lane[5].tolist()[:4], f.column[5].tolist()[:6]
    ([1, 1, 9, 9], [2, 3, 2, 3, 10, 11])
    """
    if shape not in FRAGMENT_REGISTERS:
        raise LayoutError(f"tcgen05.ld has no shape .{shape}; the shapes are {', '.join(FRAGMENT_REGISTERS)}")
    t = np.arange(32, dtype=np.int64)[:, None]
    r = np.arange(num * FRAGMENT_REGISTERS[shape], dtype=np.int64)[None, :]
    half = np.zeros_like(t)
    match shape:
        case "32x32b":
            lane, column = t, r
        case "16x64b":
            lane, column = (t >> 2) + 8 * (t & 1), 2 * r + (t >> 1 & 1)
        case "16x128b":
            lane, column = (t >> 2) + 8 * (r & 1), 4 * (r >> 1) + (t & 3)
        case "16x256b":
            lane, column = (t >> 2) + 8 * (r >> 1 & 1), 8 * (r >> 2) + 2 * (t & 3) + (r & 1)
        case _:
            lane, column, half = t & 15, r, (t >> 4) * split
    lane, column = np.broadcast_arrays(lane, column * (2 if pack else 1) + half)
    return Fragment(lane, column)


@lru_cache(maxsize=64)
def wgmma_fragment(n: int) -> MatrixFragment:
    """Which element of the 64 x n matrix D each register value of a warpgroup stands for.

    Returns
    -------
    two arrays int64[128, n/2]: thread of the warpgroup, value

    Examples
    --------
    >>> d = wgmma_fragment(16)
    >>> d.row[37].tolist()[:4], d.column[37].tolist()[:6]
    ([17, 17, 25, 25], [2, 3, 2, 3, 10, 11])
    """
    if n % 8 or not 8 <= n <= 256:
        raise LayoutError(f"wgmma has no shape with N = {n}; N is a multiple of 8 up to 256")
    t = np.arange(128, dtype=np.int64)[:, None]
    r = np.arange(n // 2, dtype=np.int64)[None, :]
    row, column = np.broadcast_arrays(16 * (t >> 5) + (t >> 2 & 7) + 8 * (r >> 1 & 1), 8 * (r >> 2) + 2 * (t & 3) + (r & 1))
    return MatrixFragment(row, column)


@lru_cache(maxsize=8)
def wgmma_a_fragment(bits: int) -> MatrixFragment:
    """Which element of the 64 x (256 / bits) matrix A each value in the registers of a warpgroup stands for.

    Parameters
    ----------
    bits : of an element: 8, 16 or 32; a register holds 32 // bits values, the first in its low bits

    Returns
    -------
    two arrays int64[128, 128 // bits]: thread of the warpgroup, value

    Examples
    --------
    >>> a = wgmma_a_fragment(16)
    >>> a.row[37].tolist(), a.column[37].tolist()
    ([17, 17, 25, 25, 17, 17, 25, 25], [2, 3, 2, 3, 10, 11, 10, 11])
    """
    if bits not in (8, 16, 32):
        raise LayoutError(f"wgmma has no matrix A of {bits}-bit elements in registers; they have 8, 16 or 32 bits")
    together = 32 // bits
    t = np.arange(128, dtype=np.int64)[:, None]
    value = np.arange(4 * together, dtype=np.int64)[None, :]
    register = value // together
    row = 16 * (t >> 5) + (t >> 2 & 7) + 8 * (register & 1)
    column = together * (t & 3) + value % together + 4 * together * (register >> 1)
    return MatrixFragment(row, column)
