"""Tensor maps in im2col mode: the bytes that a copy of pixels moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.bulk._staging import NOTHING, U8, Staged
from ptxlab.layout import im2col_walk

__all__ = ["Columns", "Pixels"]


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
    wide : whether the traversal covers only W and the images (im2col::w)
    """

    channels: int
    positions: NDArray[np.int64]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]
    wide: bool = False

    def __post_init__(self) -> None:
        self._arrange(self.channels, len(self.positions))

    @property
    def walked(self) -> int:
        """Number of dimensions of the image that the traversal covers, W first."""
        return 1 if self.wide else len(self.lower)

    def corners(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The first and the last pixel of the bounding box in the traversed dimensions."""
        sizes = self.dims[1 : 1 + self.walked]
        last = tuple(size - 1 + high for size, high in zip(sizes, self.upper, strict=False))
        return self.lower[: self.walked], last

    def begins(self, coordinates: tuple[int, ...]) -> bool:
        """Whether a traversal may begin at these coordinates: inside the bounding box; for im2col::w also left of it."""
        return all((low <= at or self.wide) and at <= last for at, low, last in zip(coordinates[1:], *self.corners(), strict=False))

    def region(self, coordinates: tuple[int, ...], offsets: tuple[int, ...]) -> Pixels:
        """Clip a copy to the tensor; ``offsets`` are added to the image coordinates of each pixel."""
        channel, *others = coordinates
        of = slice(self.walked)
        sizes = self.dims[1 : 1 + self.walked]
        walk = im2col_walk(sizes, self.lower[of], self.upper[of], self.steps[of], others[of], self.positions, coordinates[-1])
        pixels = np.empty((len(walk), len(others)), np.int64)
        pixels[:] = others
        pixels[:, of], pixels[:, -1] = walk[:, :-1], walk[:, -1]
        pixels[:, : len(offsets)] += np.array(offsets, np.int64)
        inside = ((pixels >= 0) & (pixels < self.dims[1:])).all(axis=1)
        low, high = max(0, -channel), min(self.channels, self.dims[0] - channel)
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

    def views(self, memory: U8, part: Pixels) -> list[U8]:
        size = part.high - part.low
        return [memory[start : start + size] for start in part.offsets.tolist()] if part.size else [NOTHING]
