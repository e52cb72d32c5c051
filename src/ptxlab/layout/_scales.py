"""Scale factors of block-scaled products, in tensor memory and in tiles of memory: sections "Scale Factor A ID" and "Scale Factor B ID"."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["SCALE_TILE_BYTES", "ScaleLocation", "scale_factor_location", "scale_factor_offset"]

Array = NDArray[np.int64]

SCALE_TILE_BYTES = 512
"""A tile in memory: 128 rows of 4 scale factors, which one tcgen05.cp.32x128b.warpx4 copies into 4 columns."""


class ScaleLocation(NamedTuple):
    """Lane ``[copies, rows, scales]``; column relative to the address, and byte in the 32-bit cell, ``[rows, scales]``."""

    lane: Array
    column: Array
    byte: Array


def scale_factor_location(rows: int, scales: int, scale_id: int = 0, split: bool = False) -> ScaleLocation:
    """Location of the scale factors of one instruction in tensor memory.

    Parameters
    ----------
    rows : for matrix A the rows of M that the CTA keeps, for B all of N (each CTA of a pair keeps them all)
    scales : scale factors of a row: 1, 2 or 4; 3 or 6 for K = 96
    scale_id : the scale factor ID: the first byte
    split : for B with M = 128 and cta_group::2: the halves of N take two of the four groups of 32 lanes each

    Examples
    --------
    >>> at = scale_factor_location(rows=256, scales=1, scale_id=2)
    >>> at.lane[:, 200, 0].tolist(), int(at.column[200, 0]), int(at.byte[200, 0])
    ([8, 40, 72, 104], 6, 2)
    """
    row = np.arange(rows, dtype=np.int64)[:, None]
    byte = scale_id + np.arange(scales, dtype=np.int64)[None, :]
    part = rows // 2 if split else rows
    inside = row % part
    groups = np.arange(2 if split else 4, dtype=np.int64)[:, None, None] + row // part * 2
    shape = (rows, scales)
    column = byte // 4 * (4 * -(-part // 128)) + inside // 32
    return ScaleLocation(np.broadcast_to(inside % 32 + 32 * groups, (len(groups), *shape)), column, np.broadcast_to(byte % 4, shape))


def scale_factor_offset(rows: int, scales: int) -> Array:
    """Byte offset of each scale factor in global or shared memory, ``int64[rows, scales]``.

    Tiles of 128 rows x 4 scale factors; the tiles of a row block follow each other along K.

    Examples
    --------
    >>> scale_factor_offset(256, 8)[[1, 33, 1, 129], [0, 0, 5, 0]].tolist()
    [16, 20, 529, 1040]
    """
    row = np.arange(rows, dtype=np.int64)[:, None]
    scale = np.arange(scales, dtype=np.int64)[None, :]
    tile = row // 128 * -(-scales // 4) + scale // 4
    found: Array = tile * SCALE_TILE_BYTES + row % 32 * 16 + row % 128 // 32 * 4 + scale % 4
    return found
