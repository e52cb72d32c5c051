"""Sparsity metadata in tensor memory and in registers.

Sections "Sparsity selector" (tcgen05), "Matrix fragments for multiply-accumulate operation with sparse matrix A" (mma.sp) and "Register
Fragments and Shared Memory Matrix Layouts" (wgmma.mma_async.sp).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.layout._tensor_memory import data_path_lanes, path_of
from ptxlab.layout.cute import LayoutError
from ptxlab.tables import SPARSE_GRANULARITY

__all__ = [
    "MetadataFragment",
    "MetadataLocation",
    "metadata_chunks",
    "metadata_fragment",
    "metadata_location",
    "metadata_positions",
]

Array = NDArray[np.int64]

_SELECTED = ("f16", "tf32")
"""Kinds whose metadata takes half of the bits of a cell for each row, and whose selector chooses a column."""


class MetadataLocation(NamedTuple):
    """Location of the 4 bits of each chunk, for every (copy, m, chunk): CTA rank, lane, column from the address, lowest bit of the cell."""

    cta: Array
    lane: Array
    column: Array
    bit: Array


class MetadataFragment(NamedTuple):
    """Location of the 4 bits of each chunk, for every (row, chunk) of 16 rows: lane, lowest bit of its register."""

    lane: Array
    bit: Array


@cache
def metadata_fragment(bits: int, chunks: int, selector: int = 0) -> MetadataFragment:
    """Which bits of which thread's metadata register belong to each chunk of A in mma.sp; in wgmma.mma_async.sp each warp has its 16 rows.

    Parameters
    ----------
    bits : of an element
    chunks : of a row: 4, 8 or 16
    selector : the sparsity selector: which of four threads, or which pair of them, provides the metadata

    Examples
    --------
    >>> at = metadata_fragment(16, 8, selector=1)
    >>> int(at.lane[9, 5]), int(at.bit[9, 5])
    (7, 20)
    >>> at = metadata_fragment(8, 16)
    >>> int(at.lane[9, 12]), int(at.bit[9, 12])
    (7, 16)
    """
    row, chunk = np.arange(16, dtype=np.int64)[:, None], np.arange(chunks, dtype=np.int64)[None]
    half = row // 8
    if bits >= 16:
        # A register holds 16 bits of row g and 16 of row g + 8.
        contributor = selector * (chunks // 4) + chunk // 4
        bit = 16 * half + 4 * (chunk % 4)
    else:
        contributor = 2 * selector + half + 2 * (chunk // 8)
        bit = 4 * (chunk % 8)
    lane, bit = np.broadcast_arrays(4 * (row % 8) + contributor, bit)
    return MetadataFragment(lane, bit)


def metadata_chunks(kind: str) -> int:
    """Chunks of a row of A in one instruction.

    Examples
    --------
    >>> metadata_chunks("f16"), metadata_chunks("mxf4")
    (8, 16)
    """
    if kind not in SPARSE_GRANULARITY:
        raise LayoutError(f"there is no sparse .kind::{kind}; the kinds are {', '.join(SPARSE_GRANULARITY)}")
    return 8 if kind in _SELECTED else 16


def metadata_location(kind: str, m: int, cta_group: int = 1, ws: bool = False, selector: int = 0, lane: int = 0) -> MetadataLocation:
    """Location of the sparsity metadata of matrix A.

    Parameters
    ----------
    kind : of the instruction
    m, cta_group, ws : as of the instruction
    selector : the sparsity selector; 0 for the kinds of 8 bits and fewer
    lane : lane of the metadata address, as of D

    Returns
    -------
    four arrays int64[copies, m, chunks]

    Examples
    --------
    >>> at = metadata_location("f16", 128)
    >>> int(at.lane[0, 9, 5]), int(at.column[0, 9, 5]), int(at.bit[0, 9, 5])
    (9, 0, 20)
    >>> int(metadata_location("i8", 128).column[0, 0, 9])
    1
    """
    path = path_of(m, cta_group, ws, True)
    rows = np.arange(m, dtype=np.int64)
    at = (data_path_lanes(m, cta_group, ws, True)[:, rows % path.rows] + lane)[:, :, None]
    chunk = np.arange(metadata_chunks(kind), dtype=np.int64)
    shape = (path.banks, m, len(chunk))
    if kind in _SELECTED:
        lanes = at // 32 * 32 + at % 8 + at % 32 // 16 * 16 + chunk // 4 * 8
        column = np.full(1, selector, np.int64)
        bit = at % 16 // 8 * 16 + chunk % 4 * 4
    else:
        lanes, column, bit = at, chunk // 8, chunk % 8 * 4
    return MetadataLocation(
        np.broadcast_to((rows // path.rows)[None, :, None], shape),
        np.broadcast_to(lanes, shape),
        np.broadcast_to(column, shape),
        np.broadcast_to(bit, shape),
    )


_PAIRS = {0b0100: (0, 1), 0b1000: (0, 2), 0b1100: (0, 3), 0b1001: (1, 2), 0b1101: (1, 3), 0b0110: (2, 1), 0b1110: (2, 3)}
_SINGLE = {0b0100: (0,), 0b1110: (1,)}


def metadata_positions(kind: str, code: int) -> tuple[int, ...] | None:
    """Positions in the chunk of the elements that are stored, in the order in which they are stored; None for an undefined code.

    Examples
    --------
    >>> metadata_positions("f16", 0b1001), metadata_positions("mxf4", 0b1100), metadata_positions("tf32", 0b1110)
    ((1, 2), (0, 1, 6, 7), (1,))
    """
    if kind == "tf32":
        return _SINGLE.get(code)
    pairs = _PAIRS.get(code)
    together = SPARSE_GRANULARITY[kind][2]
    return None if pairs is None else tuple(p * together + i for p in pairs for i in range(together))
