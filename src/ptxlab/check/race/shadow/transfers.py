"""The tensor memory that tcgen05.ld and tcgen05.st access, and what compiled code keeps of them."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab.isa.native_ops import TensorAccess
from ptxlab.isa.operands import Const, Op
from ptxlab.layout import fragment

__all__ = ["COLUMN_BYTES", "LoadState", "TransferWord", "columns_of", "first_lane", "transferred_ranges"]

COLUMN_BYTES = 512
"""Of the tensor memory of an SM."""

_LANE_BYTES = 4

_Ranges = tuple[NDArray[np.uint64], NDArray[np.uint32]]


class TransferWord(IntEnum):
    """The words of the transfers of one warp between registers and tensor memory."""

    LOAD_SLOT = 0
    """the name of the slot of loads, or 0"""
    LOAD_CLOCK = 1
    STORE_SLOT = 2
    STORE_CLOCK = 3
    BASE = 4
    """the host address of the first lane that the warp reaches, in column 0"""
    HELD = 5
    """how many loads whose registers may not have been read Python holds, which are older than the others"""
    LOADS = 6
    """further such loads: how many, then the op index and the clock of each"""
    MOST = 8
    READ_BEFORE = 23
    """the address of an address for each op, which for a load is that of a `LoadState` for each op, a byte"""
    END = 24


class LoadState(IntEnum):
    """Whether the registers of a load have been read when an op takes effect, whatever path is executed."""

    UNKNOWN = 0
    """it depends on the path, or nobody has asked"""
    READ = 1
    UNREAD = 2


def transferred_ranges(op: Op, native: TensorAccess, address: int, warp_id: int) -> _Ranges:
    """The offsets in an SM's tensor memory, and the size of each range, that a warp accesses."""
    size, offsets = _columns(native, _half(op, native))
    first = (address & 0xFFFF) * COLUMN_BYTES + _LANE_BYTES * (address >> 16 & 31) + first_lane(warp_id)
    return offsets + np.uint64(first), np.array([size], np.uint32)


def first_lane(warp_id: int) -> int:
    """The offset of the first lane that a warp reaches: lanes 32 * n to + 31."""
    return 32 * _LANE_BYTES * (warp_id % 4)


def columns_of(op: Op, native: TensorAccess) -> NDArray[np.uint64]:
    """The number of columns that a warp accesses, the bytes of each, and their distances from the first one in bytes."""
    size, offsets = _columns(native, _half(op, native))
    return np.concatenate([np.array([len(offsets), size], np.uint64), offsets])


def _half(op: Op, native: TensorAccess) -> int:
    split = op.operands[native.split] if native.split >= 0 else Const(0)
    return split.value if isinstance(split, Const) else 0


@lru_cache(maxsize=4096)
def _columns(access: TensorAccess, half: int) -> tuple[int, NDArray[np.uint64]]:
    """The bytes of each column, and the distances of the columns from the first one in bytes.

    Section "Data Movement Shape".
    """
    cells = fragment(access.shape, access.repeat, access.pack, half)
    columns = distinct(cells.column if not access.pack else np.stack([cells.column, cells.column + 1]))
    return _LANE_BYTES * (int(cells.lane.max()) + 1), (columns * COLUMN_BYTES).astype(np.uint64)
