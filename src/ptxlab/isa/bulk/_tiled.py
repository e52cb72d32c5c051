"""Tensor maps in tiled mode: the bytes that a copy of a box moves.

The part inside the tensor is copied between a strided view of global memory and the staging array, ``[.., row, byte of the row]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ptxlab.isa.bulk._staging import NOTHING, U8, Staged

__all__ = ["Box", "Region", "Span"]


@dataclass(frozen=True, slots=True)
class Span:
    """One dimension of a copy: the box elements ``low <= i < high`` are inside the tensor; element ``low`` has coordinate ``start``."""

    low: int
    high: int
    start: int


@dataclass(frozen=True, slots=True)
class Region:
    """The part of a box inside the tensor: the byte range in global memory, and spans, innermost first. ``size`` 0: no byte is inside."""

    address: int
    size: int
    spans: tuple[Span, ...]
    whole: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Box(Staged[Region]):
    """The box of a tensor map in tiled mode.

    Attributes
    ----------
    counts : elements copied in each dimension, innermost first
    steps : traversal strides
    """

    counts: tuple[int, ...]
    steps: tuple[int, ...]

    def __post_init__(self) -> None:
        self._arrange(self.counts[0], prod(self.counts[1:]))

    def region(self, coordinates: tuple[int, ...]) -> Region:
        """Clip the box at these coordinates to the tensor."""
        spans = []
        whole = True
        first = last = 0
        for i, (at, size, count, step) in enumerate(zip(coordinates, self.dims, self.counts, self.steps, strict=True)):
            low = 0 if at >= 0 else -(at // step)
            high = min(count, max(0, -((at - size) // step)))
            if low >= high:
                return Region(0, 0, (), False)
            whole = whole and low == 0 and high == count
            start = at + low * step
            end = start + (high - 1 - low) * step
            spans.append(Span(low, high, start))
            if i:
                first += start * self.pitches[i - 1]
                last += end * self.pitches[i - 1]
            else:
                first = start * self.bits // 8
                last = -(-(end + 1) * self.bits // 8)
        return Region(self.address + first, last - first, tuple(spans), whole)

    def _bytes_of_row(self, region: Region) -> slice:
        inner = region.spans[0]
        return slice(inner.low * self.bits // 8, -(-inner.high * self.bits // 8))

    @property
    def shape(self) -> tuple[int, ...]:
        return *self.counts[:0:-1], self.packed

    def index(self, part: Region) -> tuple[slice, ...]:
        return *(slice(span.low, span.high) for span in part.spans[:0:-1]), self._bytes_of_row(part)

    def read(self, memory: U8, part: Region) -> U8:
        """The bytes inside the tensor as a view of global memory."""
        if not part.size:
            return NOTHING
        row = self._bytes_of_row(part)
        shape, strides = [], []
        for span, pitch, step in zip(part.spans[:0:-1], self.pitches[::-1], self.steps[:0:-1], strict=True):
            shape.append(span.high - span.low)
            strides.append(pitch * step)
        return np.ndarray((*shape, row.stop - row.start), np.uint8, memory, 0, (*strides, 1))

    def write(self, memory: U8, part: Region, values: U8) -> None:
        self.read(memory, part)[...] = values

    def views(self, memory: U8, part: Region) -> list[U8]:
        return [self.read(memory, part)]
