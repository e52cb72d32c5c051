"""What tcgen05 operations read and write, as ranges of bytes for observers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa import context as machine
from ptxlab.isa.context import Touch
from ptxlab.layout import PlacedOperand

__all__ = ["CELL_BYTES", "COLUMN_BYTES", "block", "cells", "common", "operand"]

COLUMN_BYTES, CELL_BYTES = 512, 4


def operand(cta: machine.Cta, placed: PlacedOperand) -> Touch:
    """A matrix operand in a CTA's shared memory, read."""
    starts, sizes = placed.runs
    return Touch(starts + np.uint64(cta.shared_address), sizes, False)


@lru_cache(maxsize=4096)
def _lane_runs(lanes: bytes) -> tuple[tuple[int, int], ...]:
    """First lane and count of each run of neighbouring lanes; int64 lanes as bytes."""
    found = np.unique(np.frombuffer(lanes, np.int64))
    cuts = np.flatnonzero(np.diff(found) != 1) + 1
    return tuple((int(part[0]), len(part)) for part in np.split(found, cuts) if len(part))


def block(
    cta: machine.Cta, column: int, columns: int, lanes: slice | NDArray[np.int64], write: bool, reads: bool = False
) -> Iterator[Touch]:
    """Lanes of neighbouring columns of a CTA's tensor memory."""
    if isinstance(lanes, slice):
        runs: tuple[tuple[int, int], ...] = ((lanes.start or 0, (128 if lanes.stop is None else lanes.stop) - (lanes.start or 0)),)
    else:
        runs = _lane_runs(np.ascontiguousarray(lanes, np.int64).tobytes())
    base = cta.tensor_address
    for lane, count in runs:
        starts = np.arange(column, column + columns, dtype=np.uint64) * np.uint64(COLUMN_BYTES) + np.uint64(base + 4 * lane)
        yield Touch(starts, np.array([4 * count], np.uint32), write, reads=reads)


def common(touch: Touch) -> Touch:
    """The one object for these ranges, so that observers see at a glance that two operations reach the same."""
    return _common(touch.starts.tobytes(), touch.sizes.tobytes(), touch.write, touch.reads)


@lru_cache(maxsize=1024)
def _common(starts: bytes, sizes: bytes, write: bool, reads: bool) -> Touch:
    return Touch(np.frombuffer(starts, np.uint64), np.frombuffer(sizes, np.uint32), write, reads=reads)


def cells(cta: machine.Cta, column: int, places: NDArray[np.int64], lanes: NDArray[np.int64]) -> Touch:
    """Single cells, read: columns counted from ``column``, and lanes, which broadcast."""
    offsets = np.unique((column + places) * COLUMN_BYTES + 4 * lanes).astype(np.uint64)
    return Touch(offsets + np.uint64(cta.tensor_address), np.array([4], np.uint32), False)
