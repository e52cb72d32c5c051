"""Boxes of tensor maps in tiled mode: which bytes move.

The part inside the tensor is copied between a strided view of global memory and the staging array, ``[.., row, byte of the row]``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ptxlab.isa.bulk._staging import NOTHING, U8, Staged, rounded, shape_in_shared

__all__ = ["Box", "Region", "Span"]


@dataclass(frozen=True, slots=True)
class Span:
    """One dimension of one copy: ``low <= i < high`` of the box's steps are inside the tensor, the first of them at ``start``."""

    low: int
    high: int
    start: int


@dataclass(frozen=True, slots=True)
class Region:
    """The part of a box that is inside the tensor: global byte range and, innermost first, the spans. ``size`` 0: nothing is inside."""

    address: int
    size: int
    spans: tuple[Span, ...]
    whole: bool


@dataclass(frozen=True, slots=True, eq=False)
class Box(Staged):
    """A tensor map's box. Dimensions innermost first; the innermost one is counted in units of ``bits``.

    ``counts`` are elements moved along each dimension, ``steps`` the traversal strides, ``pitches`` the byte strides from dimension 1 on.
    ``padded``: bytes of data in each 16-byte slot of shared memory for the aligned sub-byte types, 0 for all others. ``rounds``: a load
    rounds f32 to tf32. ``slices``: the tensor is interleaved, and the innermost dimension is a slice of its channels.
    """

    address: int
    bits: int
    dims: tuple[int, ...]
    pitches: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: int
    fill: bytes
    padded: int = 0
    rounds: bool = False
    slices: bool = False
    rank: int = field(init=False)
    packed: int = field(init=False)
    row: int = field(init=False)
    rows: int = field(init=False)
    bytes: int = field(init=False)
    pitch: int = field(init=False)
    footprint: int = field(init=False)

    def __post_init__(self) -> None:
        shape = shape_in_shared(self.counts[0] * self.bits // 8, prod(self.counts[1:]), self.padded, self.swizzle, self.slices)
        for name, value in {"rank": len(self.dims), **shape}.items():
            object.__setattr__(self, name, value)

    def region(self, coordinates: tuple[int, ...]) -> Region:
        """Cut the box at these coordinates to the tensor."""
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

    def outside(self, memory: U8, region: Region) -> U8:
        """The bytes inside the tensor as a view of global memory (of the region's bytes)."""
        if not region.size:
            return NOTHING
        row = self._bytes_of_row(region)
        shape, strides = [], []
        for span, pitch, step in zip(region.spans[:0:-1], self.pitches[::-1], self.steps[:0:-1], strict=True):
            shape.append(span.high - span.low)
            strides.append(pitch * step)
        return np.ndarray((*shape, row.stop - row.start), np.uint8, memory, 0, (*strides, 1))

    def _inside(self, dense: U8, region: Region) -> U8:
        """The same bytes as a view of the staging array."""
        cut = [slice(span.low, span.high) for span in region.spans[:0:-1]]
        return dense.reshape((*self.counts[:0:-1], self.packed))[(*cut, self._bytes_of_row(region))]

    def load(self, memory: U8, region: Region) -> U8:
        """The box's bytes in the order of shared memory before swizzling, with the fill where it is outside."""

        def move(dense: U8) -> None:
            outside = self.outside(memory, region)
            self._inside(dense, region)[...] = rounded(outside) if self.rounds else outside

        return self.staged(move if region.size else None, region.whole)

    def store(self, region: Region, memory: U8, dense: U8, combine: Callable[[U8, U8], None] | None) -> None:
        """Write the part inside the tensor; ``combine(target, source)`` reduces into it instead."""
        if not region.size:
            return
        outside, inside = self.outside(memory, region), self._inside(self.unpadded(dense), region)
        if combine is None:
            outside[...] = inside
        else:
            combine(outside, inside)
