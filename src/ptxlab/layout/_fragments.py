"""Registers of a warp or warpgroup against tensor memory and matrices.

Section "Data Movement Shape" (matrix fragments of tcgen05.ld and .st), and the wgmma sections on register fragments.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.layout.cute import Layout, LayoutError, parse_layout
from ptxlab.tables import MATRIX_FRAGMENTS, TENSOR_FRAGMENTS

__all__ = [
    "Fragment",
    "MatrixFragment",
    "fragment",
    "matrix_fragment",
    "matrix_fragment_layout",
    "tensor_fragment_layout",
    "wgmma_a_fragment",
    "wgmma_fragment",
]

Array = NDArray[np.int64]


class Fragment(NamedTuple):
    """Lane and column, relative to the address, of every (thread, register)."""

    lane: Array
    column: Array


class MatrixFragment(NamedTuple):
    """Row and column in the matrix of every (thread, register)."""

    row: Array
    column: Array


@cache
def _parsed(text: str) -> Layout:
    found = parse_layout(text)
    assert isinstance(found, Layout)
    return found


def tensor_fragment_layout(shape: str) -> Layout:
    """The layout from (thread, register) of tcgen05.ld or tcgen05.st to multiples of L, C and H: `ptxlab.tables.TENSOR_FRAGMENTS`."""
    if shape not in TENSOR_FRAGMENTS:
        raise LayoutError(f"tcgen05.ld has no shape .{shape}; the shapes are {', '.join(TENSOR_FRAGMENTS)}")
    return _parsed(TENSOR_FRAGMENTS[shape])


def matrix_fragment_layout(name: str) -> Layout:
    """The layout from (thread, value) of a matrix fragment to multiples of R and C: `ptxlab.tables.MATRIX_FRAGMENTS`."""
    return _parsed(MATRIX_FRAGMENTS[name])


@lru_cache(maxsize=128)
def fragment(shape: str, num: int = 1, pack: bool = False, split: int = 0) -> Fragment:
    """The cell of tensor memory that each register of tcgen05.ld or .st is transferred from or to.

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
    cells = tensor_fragment_layout(shape)
    lane, column, second_half = (cells.coefficients(symbol, n=num).offsets() for symbol in "LCH")
    return Fragment(lane, column * (2 if pack else 1) + second_half * split)


@cache
def matrix_fragment(name: str, **sizes: int) -> MatrixFragment:
    """Row and column of each value of a matrix fragment; ``sizes`` are the values of the symbols in its shape.

    Returns
    -------
    two arrays int64[threads, values]

    Examples
    --------
    >>> d = matrix_fragment("mma cd", h=2)
    >>> d.row[5].tolist(), d.column[5].tolist()
    ([1, 1, 9, 9], [2, 3, 2, 3])
    """
    values = matrix_fragment_layout(name)
    return MatrixFragment(*(values.coefficients(symbol, **sizes).offsets() for symbol in "RC"))


def wgmma_fragment(n: int) -> MatrixFragment:
    """The element of the 64 x n matrix D that each register value of a warpgroup holds.

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
    return matrix_fragment("wgmma d", n=n // 8)


def wgmma_a_fragment(bits: int) -> MatrixFragment:
    """The element of the 64 x (256 / bits) matrix A that each value in the registers of a warpgroup is.

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
    registers, together = matrix_fragment("wgmma a"), 32 // bits
    columns = registers.column[:, :, None] * together + np.arange(together)
    return MatrixFragment(np.repeat(registers.row, together, axis=1), columns.reshape(128, -1))
