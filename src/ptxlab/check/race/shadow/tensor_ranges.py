"""Bytes of tensor memory that tcgen05.ld and st access: section "Data Movement Shape"."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.native_ops import TensorAccess
from ptxlab.layout import fragment

__all__ = ["tensor_ranges"]

_COLUMN_BYTES = 512


@lru_cache(maxsize=4096)
def tensor_ranges(access: TensorAccess, half: int, address: int, quadrant: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Offsets in an SM's tensor memory and the size of each range, for the warp that reaches lanes 32 * ``quadrant`` on."""
    cells = fragment(access.shape, access.repeat, access.pack, half)
    columns = np.unique(cells.column if not access.pack else np.stack([cells.column, cells.column + 1]))
    lane = (quadrant << 5) + (address >> 16 & 31)
    starts = ((address & 0xFFFF) + columns) * _COLUMN_BYTES + 4 * lane
    return starts.astype(np.uint64), np.array([4 * (int(cells.lane.max()) + 1)], np.uint32)
