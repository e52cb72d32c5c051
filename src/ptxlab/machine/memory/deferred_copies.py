"""Deferred non-bulk copies from global to shared memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxlab.machine.memory.global_memory import DeviceMemory

__all__ = ["perform_copies"]


def perform_copies(memory: DeviceMemory, shared: NDArray[np.uint8], rows: NDArray[np.uint64]) -> None:
    """Copy in order of issue; rows hold shared offset, global address, and size | source size << 8 | lane << 16.

    Bytes behind the source size become zero.
    """
    start = 0
    while start < len(rows):
        # Rows of equal size from one allocation are copied at once; the last of several to one place wins, as in order.
        size, source = int(rows[start, 2]) & 0xFF, int(rows[start, 2]) >> 8 & 0xFF
        same = (rows[start:, 2] & np.uint64(0xFFFF)) == (size | source << 8)
        if source:
            found = memory.allocation(int(rows[start, 1]), source)
            base = found.base
            same &= (rows[start:, 1] >= base) & (rows[start:, 1] + np.uint64(source) <= base + found.size)
        stop = start + (int(np.argmin(same)) if not same.all() else len(same))
        into = rows[start:stop, 0].astype(np.intp)[:, None] + np.arange(size)
        data = np.zeros((stop - start, size), np.uint8)
        if source:
            data[:, :source] = found.data[(rows[start:stop, 1].astype(np.int64) - base)[:, None] + np.arange(source)]
        shared[into] = data
        start = stop
