"""The memory accesses of tcgen05 operations as byte ranges, for observers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab.isa import context
from ptxlab.isa.operations import MemoryAccess, PlacedRanges
from ptxlab.layout import PlacedOperand

__all__ = ["CELL_BYTES", "COLUMN_BYTES", "block", "cells", "operand", "placed"]

COLUMN_BYTES, CELL_BYTES = 512, 4


def operand(cta: context.Cta, placed: PlacedOperand, used: int = 16) -> MemoryAccess:
    """A read of a matrix operand in a CTA's shared memory: of the first ``used`` bytes of each slot of 16, the others being padding."""
    starts, sizes = placed.runs_of(used)
    return MemoryAccess(starts + np.uint64(cta.shared_address), sizes, False)


@lru_cache(maxsize=4096)
def _lane_runs(lanes: bytes) -> tuple[tuple[int, int], ...]:
    """First lane and count of each run of consecutive lanes; ``lanes`` are the bytes of an int64 array."""
    found = distinct(np.frombuffer(lanes, np.int64))
    cuts = np.flatnonzero(np.diff(found) != 1) + 1
    return tuple((int(part[0]), len(part)) for part in np.split(found, cuts) if len(part))


def block(
    cta: context.Cta, column: int, columns: int, lanes: slice | NDArray[np.int64], write: bool, reads: bool = False
) -> Iterator[MemoryAccess]:
    """An access to lanes of consecutive columns of a CTA's tensor memory, one range for each run of lanes."""
    if isinstance(lanes, slice):
        runs: tuple[tuple[int, int], ...] = ((lanes.start or 0, (128 if lanes.stop is None else lanes.stop) - (lanes.start or 0)),)
    else:
        runs = _lane_runs(np.ascontiguousarray(lanes, np.int64).tobytes())
    base = cta.tensor_address
    for lane, count in runs:
        starts = np.arange(column, column + columns, dtype=np.uint64) * np.uint64(COLUMN_BYTES) + np.uint64(base + 4 * lane)
        yield MemoryAccess(starts, np.array([4 * count], np.uint32), write, reads=reads)


def placed(access: MemoryAccess, places: Sequence[int]) -> PlacedRanges:
    """The unique object for these ranges in the memories of a CTA group, which begin at these places.

    Observers detect by it that two operations access the same bytes.
    """
    bases = np.array(places, np.uint64)
    order = np.argsort(bases)
    memories = order[np.searchsorted(bases[order], access.starts, side="right") - 1]
    starts = access.starts - bases[memories]
    return _placed(memories.astype(np.int64).tobytes(), starts.tobytes(), access.sizes.tobytes(), access.write, access.reads)


@lru_cache(maxsize=1024)
def _placed(memories: bytes, starts: bytes, sizes: bytes, write: bool, reads: bool) -> PlacedRanges:
    arrays = np.frombuffer(memories, np.int64), np.frombuffer(starts, np.uint64), np.frombuffer(sizes, np.uint32)
    return PlacedRanges(*arrays, write, reads)


def cells(cta: context.Cta, column: int, places: NDArray[np.int64], lanes: NDArray[np.int64]) -> MemoryAccess:
    """A read of single 32-bit cells: columns relative to ``column``, and lanes; the two arrays broadcast."""
    offsets = distinct((column + places) * COLUMN_BYTES + 4 * lanes).astype(np.uint64)
    return MemoryAccess(offsets + np.uint64(cta.tensor_address), np.array([4], np.uint32), False)
