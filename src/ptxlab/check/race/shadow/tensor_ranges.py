"""Bytes of tensor memory that tcgen05.ld and st access: section "Data Movement Shape"."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.native_ops import TensorAccess

__all__ = ["tensor_ranges"]

_COLUMN_BYTES = 512
_COLUMNS = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 1}


@lru_cache(maxsize=4096)
def tensor_ranges(access: TensorAccess, half: int, address: int, quadrant: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Offsets in an SM's tensor memory and the size of each range, for the warp that reaches lanes 32 * ``quadrant`` on."""
    columns = access.repeat * _COLUMNS[access.shape] * (2 if access.pack else 1)
    first = address & 0xFFFF
    lane = (quadrant << 5) + (address >> 16 & 31)
    if access.shape == "16x32bx2":
        one = np.arange(first, first + columns)
        starts = np.concatenate([one * _COLUMN_BYTES + 4 * lane, (one + half) * _COLUMN_BYTES + 4 * lane])
    else:
        starts = np.arange(first, first + columns) * _COLUMN_BYTES + 4 * lane
    lanes = 32 if access.shape == "32x32b" else 16
    return starts.astype(np.uint64), np.array([4 * lanes], np.uint32)
