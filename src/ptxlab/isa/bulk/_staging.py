"""Staging of tensor copies: rows of bytes between global memory, where strides place them, and shared memory, where the swizzle does.

A copy is moved through a dense array of its bytes. Whole 16-byte chunks (8 with the flipping mode) are gathered between it and shared
memory in the order of the swizzle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOTHING", "U8", "Staged", "chunk_order", "rounded", "shape_in_shared"]

U8 = NDArray[np.uint8]

NOTHING: U8 = np.empty(0, np.uint8)
"""The view of a region that is wholly outside the tensor."""

_PATTERNS = {1: (1, 4, 3), 2: (2, 4, 3), 3: (3, 4, 3), 4: (2, 5, 2), 5: (2, 5, 2), 6: (1, 6, 1)}
"""Swizzle mode -> bits B, base M, shift S: address bits [M, M+B) are XORed with bits [M+S, M+S+B). Section "Swizzling Modes"."""
_WIDTHS = {1: 32, 2: 64, 3: 128, 4: 128, 5: 128, 6: 128}
_FLIP = 5
"""128-byte swizzle of 32-byte atoms that also exchanges the halves of each 16 bytes in every other row."""

_WIDE: dict[int, np.dtype[Any]] = {8: np.dtype(np.uint64), 16: np.dtype(np.complex128)}
"""Element types whose assignment moves a chunk as it is."""


@lru_cache(maxsize=256)
def chunk_order(swizzle: int, phase: int, count: int, pitch: int, row: int) -> NDArray[np.intp]:
    """For each chunk of a dense box, its chunk in shared memory, relative to the box's first byte.

    ``phase`` is the address of that byte modulo 1024; a row of ``row`` bytes starts every ``pitch`` bytes.
    """
    size = 8 if swizzle == _FLIP else 16
    dense = np.arange(count, dtype=np.intp) * size
    address = dense // row * pitch + dense % row + phase
    if swizzle:
        bits, base, shift = _PATTERNS[swizzle]
        address ^= (address >> (base + shift) & ((1 << bits) - 1)) << base
        if swizzle == _FLIP:
            address ^= (address >> 7 & 1) << 3
    order: NDArray[np.intp] = (address - phase) // size
    order.setflags(write=False)
    return order


def rounded(values: U8) -> U8:
    """Bytes of f32 rounded to 10 bits of mantissa, to nearest even; NaN becomes 0x7FFFE000 (as an H200 does it)."""
    words = np.array(values).view(np.uint32)
    nan = (words & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    words += np.uint32(0xFFF) + (words >> np.uint32(13) & np.uint32(1))
    words &= np.uint32(0xFFFFE000)
    words[nan] = 0x7FFFE000
    return words.view(np.uint8)


def shape_in_shared(packed: int, rows: int, padded: int, swizzle: int, slices: bool) -> dict[str, int]:
    """The attributes of a `Staged` that follow from the bytes of a row in global memory and the number of rows.

    ``slices``: rows of an interleaved tensor stand next to each other however they are swizzled.
    """
    row = packed // padded * 16 if padded else packed
    width = _WIDTHS.get(swizzle, 1)
    pitch = row if slices else max(row, width)
    # The swizzle exchanges chunks within its width, also with some behind the last row.
    footprint = -(-rows * pitch // width) * width
    return {"packed": packed, "row": row, "rows": rows, "bytes": rows * row, "pitch": pitch, "footprint": footprint}


class Staged:
    """What copies of all modes have in common: rows in shared memory.

    Attributes
    ----------
    swizzle, padded, rounds, fill : of the tensor map, see `Box`
    packed, row : bytes of a row in global and in shared memory
    rows : how many there are
    bytes : that one copy counts as, whatever is inside the tensor
    pitch : distance of rows in shared memory: the whole width of the swizzle, however short the row
    footprint : bytes of shared memory from the first to the end of the last row
    """

    __slots__ = ()

    swizzle: int
    padded: int
    rounds: bool
    fill: bytes
    packed: int
    row: int
    rows: int
    bytes: int
    pitch: int
    footprint: int

    @property
    def chunk(self) -> int:
        """Bytes that the swizzle leaves together."""
        return 8 if self.swizzle == _FLIP else 16

    def order(self, offset: int) -> NDArray[np.intp]:
        """For each chunk of the dense box, its chunk in shared memory, of a box at this offset."""
        return chunk_order(self.swizzle, offset & 1023, self.bytes // self.chunk, self.pitch, self.row)

    def staged(self, move: Callable[[U8], None] | None, whole: bool) -> U8:
        """A dense array with the fill where nothing is inside the tensor; ``move`` puts the rest into it."""
        dense = np.empty(self.rows * self.packed, np.uint8)
        if not whole:
            dense.reshape(-1, len(self.fill))[:] = np.frombuffer(self.fill, np.uint8)
        if move is not None:
            move(dense)
        if self.padded:
            slots = np.zeros((dense.size // self.padded, 16), np.uint8)
            slots[:, : self.padded] = dense.reshape(-1, self.padded)
            return slots.reshape(-1)
        return dense

    def unpadded(self, dense: U8) -> U8:
        """The bytes that go to global memory."""
        return np.ascontiguousarray(dense.reshape(-1, 16)[:, : self.padded]).reshape(-1) if self.padded else dense

    def scatter(self, dense: U8, shared: U8, offset: int) -> None:
        """Put staged bytes into shared memory."""
        if not self.swizzle and self.row == self.pitch:
            shared[offset : offset + dense.size] = dense
            return
        wide, order, window = self._chunks(shared, offset)
        window[order] = dense.view(wide)

    def gather(self, shared: U8, offset: int) -> U8:
        """Stage the box's bytes from shared memory."""
        size = self.bytes
        if not self.swizzle and self.row == self.pitch:
            return shared[offset : offset + size].copy()
        _, order, window = self._chunks(shared, offset)
        return window.take(order).view(np.uint8)

    def _chunks(self, shared: U8, offset: int) -> tuple[np.dtype[Any], NDArray[np.intp], NDArray[Any]]:
        """Type of a chunk, order of the chunks, and the box's shared memory as chunks; the swizzle leaves each in its row."""
        wide = _WIDE[self.chunk]
        return wide, self.order(offset), shared[offset : offset + self.footprint].view(wide)
