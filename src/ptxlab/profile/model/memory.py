"""Shared and tensor memory over time: what operations write there, and until when it is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.context import Cta
from ptxlab.isa.operations import MemoryAccess
from ptxlab.tables import TENSOR_MEMORY_COLUMNS

__all__ = ["ALLOCATED", "SHARED", "TENSOR", "Extent", "Held", "Touch", "extents_of", "held"]

SHARED, TENSOR = "shared memory", "tensor memory"
ALLOCATED = "allocated"
_COLUMN_BYTES = 128 * 4
_GAP = 1024
"""Bytes between two ranges that are shown as one: rows of a tile."""
_MOST = 20_000
"""Accesses that are compared with each other."""


class Extent(NamedTuple):
    """A range of the shared memory of a CTA in bytes, or of tensor memory in columns, and whether it is written."""

    space: str
    first: int
    end: int
    write: bool


@dataclass(frozen=True, slots=True)
class Touch:
    """An access of an extent by an instruction: when it began and ended, in cycles. ``kind`` is what accesses."""

    cta: int
    extent: Extent
    kind: str
    op: int
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Held:
    """What an instruction has written, or allocated, from the begin of the write until it is not read any more.

    Attributes
    ----------
    cta, space, first, end : bytes of shared memory, or columns of tensor memory
    kind, op : what has written it
    begin, written, until : when the write begins, when the first one is complete, and when the last reader of it ends before one other
        write covers all of it; if nobody reads it, the begin of that write, or the end of the CTA
    """

    cta: int
    space: str
    first: int
    end: int
    kind: str
    op: int
    begin: float
    written: float
    until: float


def extents_of(accesses: Iterable[MemoryAccess], cta: Cta) -> tuple[Extent, ...]:
    """What an operation accesses of the shared and the tensor memory of a CTA; ranges that are near to each other are one."""
    spaces = (
        (SHARED, cta.shared_address, len(cta.shared), 1, _GAP),
        (TENSOR, cta.tensor_address, TENSOR_MEMORY_COLUMNS * _COLUMN_BYTES, _COLUMN_BYTES, 0),
    )
    found: dict[Extent, None] = {}
    for access in accesses:
        for space, start, size, unit, gap in spaces:
            inside = (access.starts >= np.uint64(start)) & (access.starts < np.uint64(start + size))
            if inside.any():
                starts = (access.starts[inside] - np.uint64(start)).astype(np.int64)
                ends = starts + np.broadcast_to(access.sizes, access.starts.shape)[inside]
                for first, end in _merged(starts // unit, -(-ends // unit), gap):
                    if access.reads or not access.write:
                        found[Extent(space, first, end, False)] = None
                    if access.write:
                        found[Extent(space, first, end, True)] = None
    return tuple(found)


def _merged(starts: NDArray[np.int64], ends: NDArray[np.int64], gap: int) -> list[tuple[int, int]]:
    """Ranges of which none is near to another."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    cuts = np.flatnonzero(starts[1:] > ends[:-1] + gap) + 1
    return list(zip(starts[[0, *cuts]].tolist(), ends[[*(cuts - 1), len(ends) - 1]].tolist(), strict=True))


def held(touches: Sequence[Touch], ends: Sequence[float]) -> tuple[Held, ...]:
    """What lies in memory when; ``ends`` are the times at which CTAs end.

    Examples
    --------
    >>> tile = Extent(SHARED, 0, 1024, True)
    >>> listed = [Touch(0, tile, "TMA", 3, 10.0, 500.0), Touch(0, tile._replace(write=False), "tensor core", 7, 600.0, 700.0)]
    >>> [(each.op, each.begin, each.written, each.until) for each in held([*listed, Touch(0, tile, "TMA", 3, 710.0, 900.0)], [1000.0])]
    [(3, 10.0, 500.0, 700.0), (3, 710.0, 900.0, 1000.0)]
    """
    found: list[Held] = []
    listed = sorted(touches, key=lambda touch: touch.begin)[:_MOST]
    for place in dict.fromkeys((touch.cta, touch.extent.space) for touch in listed):
        group = [touch for touch in listed if (touch.cta, touch.extent.space) == place]
        kept = [touch for touch in group if touch.kind != ALLOCATED]
        found += _allocations([touch for touch in group if touch.kind == ALLOCATED], ends[place[0]])
        first, end = (np.array([getattr(touch.extent, name) for touch in kept]) for name in ("first", "end"))
        write = np.array([touch.extent.write for touch in kept], bool)
        begins, stops = (np.array([getattr(touch, name) for touch in kept]) for name in ("begin", "end"))
        for at, touch in enumerate(kept):
            if touch.extent.write:
                meets = (first < touch.extent.end) & (end > touch.extent.first)
                meets[: at + 1] = False
                covers = np.flatnonzero(write & (first <= touch.extent.first) & (end >= touch.extent.end))
                covers = covers[covers > at]
                over = float(begins[covers[0]]) if len(covers) else ends[touch.cta]
                readers = stops[meets & ~write & (begins <= over)]
                until = min(float(readers.max()), ends[touch.cta]) if len(readers) else over
                found.append(_held(touch, max(until, touch.end)))
    return tuple(_joined(found))


def _held(touch: Touch, until: float) -> Held:
    extent = touch.extent
    return Held(touch.cta, extent.space, extent.first, extent.end, touch.kind, touch.op, touch.begin, touch.end, until)


def _allocations(touches: list[Touch], end: float) -> Iterable[Held]:
    """Columns from their allocation, a write, until they are freed, a read."""
    for touch in touches:
        if touch.extent.write:
            later = (each for each in touches if each.begin >= touch.begin and each.extent == touch.extent._replace(write=False))
            yield _held(touch, min((each.begin for each in later), default=end))


def _joined(spans: list[Held]) -> list[Held]:
    """Writes of one instruction to one place, the next of which begins before the one before is read for the last time, as one."""
    found: list[Held] = []
    last: dict[tuple[int, str, int, int, str, int], int] = {}
    for span in sorted(spans, key=lambda each: each.begin):
        key = span.cta, span.space, span.first, span.end, span.kind, span.op
        at = last.get(key)
        if at is not None and span.begin <= found[at].until:
            before = found[at]
            found[at] = Held(*key, before.begin, before.written, max(before.until, span.until))
        else:
            last[key] = len(found)
            found.append(span)
    return found
