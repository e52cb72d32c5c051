"""The tensor memory that tcgen05.ld and tcgen05.st access."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.native_ops import TensorAccess
from ptxlab.isa.operands import Const, Op
from ptxlab.layout import fragment

__all__ = ["COLUMN_BYTES", "transferred_ranges"]

COLUMN_BYTES = 512
"""Of the tensor memory of an SM."""

_Ranges = tuple[NDArray[np.uint64], NDArray[np.uint32]]


def transferred_ranges(op: Op, native: TensorAccess, address: int, warp_id: int) -> _Ranges:
    """The offsets in an SM's tensor memory, and the size of each range, that a warp accesses."""
    split = op.operands[native.split] if native.split >= 0 else Const(0)
    half = split.value if isinstance(split, Const) else 0
    return _ranges(native, half, address & 0xFFFFFFFF, warp_id % 4)


@lru_cache(maxsize=4096)
def _ranges(access: TensorAccess, half: int, address: int, quadrant: int) -> _Ranges:
    """For the warp that reaches lanes 32 * ``quadrant`` to + 31.

    Section "Data Movement Shape".
    """
    cells = fragment(access.shape, access.repeat, access.pack, half)
    columns = np.unique(cells.column if not access.pack else np.stack([cells.column, cells.column + 1]))
    lane = (quadrant << 5) + (address >> 16 & 31)
    starts = ((address & 0xFFFF) + columns) * COLUMN_BYTES + 4 * lane
    return starts.astype(np.uint64), np.array([4 * (int(cells.lane.max()) + 1)], np.uint32)
