"""Tensor maps in tiled and im2col mode: the bytes that a copy of a box, or of pixels, moves.

In tiled mode the part inside the tensor is copied between a strided view of global memory and the staging array,
``[.., row, byte of the row]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa.bulk._staging import NOTHING, U8, Staged
from ptxlab.layout import im2col_walk

__all__ = ["Box", "Columns", "Pixels", "Region"]


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

    def region(self, coordinates: tuple[int, ...], store: bool = False) -> Region:
        """Clip the box at these coordinates to the tensor; for a ``store`` to what it writes."""
        spans = []
        whole = True
        first = last = 0
        dims = self.written if store else self.dims
        for i, (at, size, count, step) in enumerate(zip(coordinates, dims, self.counts, self.steps, strict=True)):
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

    def places(self, memory: U8, part: Region, values: U8) -> Iterator[tuple[U8, U8]]:
        if len(memory) >= part.size:
            yield self.read(memory, part), values
            return
        starts = np.zeros(1, np.int64)
        for span, pitch, step in zip(part.spans[:0:-1], self.pitches[::-1], self.steps[:0:-1], strict=True):
            starts = (starts[:, None] + np.arange(span.high - span.low) * (pitch * step)).reshape(-1)
        yield from self.rows_at(memory, starts, values)

    def views(self, memory: U8, part: Region) -> list[U8]:
        return [self.read(memory, part)]


@dataclass(frozen=True, slots=True, eq=False)
class Pixels:
    """The pixels of a copy that are inside the tensor.

    Attributes
    ----------
    address, size : byte range in global memory; ``size`` 0: no pixel is inside
    rows : indices of the pixels in the copy
    offsets : byte offset of each pixel from ``address``
    low, high : range of bytes of a pixel's channels that is inside
    whole : whether the whole copy is inside
    """

    address: int
    size: int
    rows: NDArray[np.int64]
    offsets: NDArray[np.int64]
    low: int
    high: int
    whole: bool

    def bytes(self) -> NDArray[np.int64]:
        """The offset of each byte from ``address``, [pixels, bytes]."""
        return self.offsets[:, None] + np.arange(self.high - self.low)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Columns(Staged[Pixels]):
    """A tensor map in im2col mode. Dimensions: channels, those of the image, channel slices if interleaved, images.

    Attributes
    ----------
    channels : channels of one pixel, which is a row in shared memory
    positions : index of each copied pixel in the traversal of the bounding box
    lower, upper : corners of the bounding box
    steps : traversal strides
    halo : how many further pixels a copy in the mode im2col::w or im2col::w::128 has, which traverses only W and the images; else None
    """

    channels: int
    positions: NDArray[np.int64]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]
    halo: int | None = None

    def __post_init__(self) -> None:
        self._arrange(self.channels, len(self.positions))

    @property
    def walked(self) -> int:
        """Number of dimensions of the image that the traversal covers, W first."""
        return len(self.lower) if self.halo is None else 1

    def corners(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The first and the last pixel of the bounding box in the traversed dimensions."""
        sizes = self.dims[1 : 1 + self.walked]
        last = tuple(size - 1 + high for size, high in zip(sizes, self.upper, strict=False))
        return self.lower[: self.walked], last

    def begins(self, coordinates: tuple[int, ...]) -> bool:
        """Whether a traversal may begin at these coordinates: inside the bounding box; for im2col::w also left of it."""
        anywhere = self.halo is not None
        return all((low <= at or anywhere) and at <= last for at, low, last in zip(coordinates[1:], *self.corners(), strict=False))

    def region(self, coordinates: tuple[int, ...], offsets: tuple[int, ...], store: bool = False) -> Pixels:
        """Clip a copy to the tensor, or a ``store`` to what it writes; ``offsets`` are added to the image coordinates of each pixel."""
        channel, *others = coordinates
        of = slice(self.walked)
        sizes = self.dims[1 : 1 + self.walked]
        walk = im2col_walk(sizes, self.lower[of], self.upper[of], self.steps[of], others[of], self.positions, coordinates[-1])
        pixels = np.empty((len(walk), len(others)), np.int64)
        pixels[:] = others
        pixels[:, of], pixels[:, -1] = walk[:, :-1], walk[:, -1]
        pixels[:, : len(offsets)] += np.array(offsets, np.int64)
        inside = ((pixels >= 0) & (pixels < self.dims[1:])).all(axis=1)
        low, high = max(0, -channel), min(self.channels, (self.written if store else self.dims)[0] - channel)
        rows = np.flatnonzero(inside)
        if low >= high or not len(rows):
            return Pixels(0, 0, rows[:0], rows[:0], 0, 0, False)
        starts = pixels[rows] @ np.array(self.pitches, np.int64) + (channel + low) * self.bits // 8
        first = int(starts.min())
        size = -(-(high - low) * self.bits // 8)
        whole = len(rows) == len(pixels) and high - low == self.channels
        low_byte = low * self.bits // 8
        return Pixels(self.address + first, int(starts.max()) - first + size, rows, starts - first, low_byte, low_byte + size, whole)

    @property
    def shape(self) -> tuple[int, ...]:
        return -1, self.packed

    def index(self, part: Pixels) -> tuple[Any, ...]:
        return part.rows, slice(part.low, part.high)

    def read(self, memory: U8, part: Pixels) -> U8:
        return memory[part.bytes()]

    def write(self, memory: U8, part: Pixels, values: U8) -> None:
        memory[part.bytes()] = values

    def places(self, memory: U8, part: Pixels, values: U8) -> Iterator[tuple[U8, U8]]:
        return self.rows_at(memory, part.offsets, values)

    def views(self, memory: U8, part: Pixels) -> list[U8]:
        size = part.high - part.low
        return [memory[start : start + size] for start in part.offsets.tolist()] if part.size else [NOTHING]
