"""The staging array of tensor copies: a dense array between strided global memory and swizzled shared memory.

Chunks of 16 bytes (8 bytes in the mode that flips 8-byte halves) are moved between the staging array and shared memory in swizzle order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa.bulk._reduce import Combine, put, whole_elements
from ptxlab.layout import swizzle_addresses
from ptxlab.tables import TENSOR_MAP_SWIZZLES

__all__ = ["NOTHING", "U8", "Staged", "chunk_order", "rounded"]

U8 = NDArray[np.uint8]

NOTHING: U8 = np.empty(0, np.uint8)
"""The view of a region that is wholly outside the tensor."""

_WIDE: dict[int, np.dtype[Any]] = {8: np.dtype(np.uint64), 16: np.dtype(np.complex128)}
"""Chunk size -> a data type of that size whose assignment does not change bits."""


@lru_cache(maxsize=256)
def chunk_order(swizzle: int, phase: int, count: int, pitch: int, row: int) -> NDArray[np.intp]:
    """For each chunk of a dense box, its chunk in shared memory, relative to the box's first byte.

    ``phase`` is the address of that byte modulo 1024; a row of ``row`` bytes starts every ``pitch`` bytes.
    """
    mode = TENSOR_MAP_SWIZZLES[swizzle]
    size = 8 if mode.flip else 16
    dense = np.arange(count, dtype=np.intp) * size
    address = dense // row * pitch + dense % row + phase
    order: NDArray[np.intp] = (swizzle_addresses(address, mode) - phase) // size
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


def _whole_words(masks: U8) -> U8:
    return whole_elements(np.array(masks).view(np.uint32)).view(np.uint8)


class Inside(Protocol):
    """The part of a copy that is inside the tensor."""

    @property
    def size(self) -> int:
        """Number of bytes of global memory from the first to the last; 0: no byte is inside."""

    @property
    def whole(self) -> bool:
        """Whether the whole copy is inside."""


Part = TypeVar("Part", bound=Inside)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Staged(Generic[Part]):
    """Base class of the copy modes: a tensor in global memory, and rows in shared memory.

    Attributes
    ----------
    address : address of the tensor
    bits : bits of an element
    dims : sizes, innermost first
    pitches : byte strides of the dimensions from 1 on
    swizzle : number of the swizzle mode in the driver API
    fill : bytes of an element outside the tensor
    padded : bytes of data in each 16-byte slot of shared memory for the aligned sub-byte types, 0 for all others
    rounds : whether a load rounds f32 to tf32
    slices : whether the tensor is interleaved, so that dimension 0 is within a channel slice
    packed, row : bytes of a row in global and in shared memory
    rows : number of rows
    bytes : bytes of the rows in shared memory, including those outside the tensor
    transaction : transaction bytes of a copy: those of the elements, without the padding of the aligned sub-byte types
    pitch : distance of rows in shared memory, at least the width of the swizzle
    footprint : bytes of shared memory that the rows occupy
    """

    address: int
    bits: int
    dims: tuple[int, ...]
    pitches: tuple[int, ...]
    swizzle: int
    fill: bytes
    padded: int = 0
    rounds: bool = False
    slices: bool = False
    packed: int = field(init=False)
    row: int = field(init=False)
    rows: int = field(init=False)
    bytes: int = field(init=False)
    transaction: int = field(init=False)
    pitch: int = field(init=False)
    footprint: int = field(init=False)

    def _arrange(self, elements: int, rows: int) -> None:
        """Set the derived sizes from the number of elements in a row and the number of rows."""
        packed = elements * self.bits // 8
        row = packed // self.padded * 16 if self.padded else packed
        width = TENSOR_MAP_SWIZZLES[self.swizzle].width
        # Rows of an interleaved tensor are adjacent in every swizzle mode.
        pitch = row if self.slices else max(row, width)
        # The swizzle exchanges chunks within its width, so chunks of the last row may be placed after its end.
        footprint = -(-rows * pitch // width) * width
        values = {"packed": packed, "row": row, "rows": rows, "bytes": rows * row, "transaction": rows * packed}
        values |= {"pitch": pitch, "footprint": footprint}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def written(self) -> tuple[int, ...]:
        """``dims`` to which stores and reductions clip: they write whole 16-byte pieces of a row, also the bytes after its last element."""
        if self.padded:
            return self.dims
        unit = 128 // self.bits
        return -(-self.dims[0] // unit) * unit, *self.dims[1:]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the staging array in which `index` selects the part inside the tensor."""
        raise NotImplementedError

    def index(self, part: Part) -> tuple[Any, ...]:
        """The index of the part inside the tensor in the staging array."""
        raise NotImplementedError

    def read(self, memory: U8, part: Part) -> U8:
        """The bytes inside the tensor, in the shape that `index` selects; ``memory`` holds the bytes of the part."""
        raise NotImplementedError

    def write(self, memory: U8, part: Part, values: U8) -> None:
        """The inverse of `read`."""
        raise NotImplementedError

    def places(self, memory: U8, part: Part, values: U8) -> Iterator[tuple[U8, U8]]:
        """Views of ``memory`` with what `write` would write there; a row that ends behind ``memory`` has the elements before its end."""
        raise NotImplementedError

    def rows_at(self, memory: U8, starts: NDArray[np.int64], values: U8) -> Iterator[tuple[U8, U8]]:
        """`places` of rows that begin at these bytes."""
        for start, source in zip(starts.tolist(), values.reshape(len(starts), -1), strict=True):
            target = memory[start : start + len(source)]
            whole = len(target) * 8 // self.bits * self.bits // 8
            yield target[:whole], source[:whole]

    def views(self, memory: U8, part: Part) -> list[U8]:
        """The bytes inside the tensor as views of global memory."""
        raise NotImplementedError

    def load(self, memory: U8, part: Part) -> U8:
        """The bytes in the order of shared memory before swizzling, with the fill value for elements outside the tensor."""
        return self._arranged(memory, part, np.frombuffer(self.fill, np.uint8), rounded)

    def load_undefined(self, memory: U8, part: Part) -> U8:
        """The undefined bits of what `load` gives, of those of ``memory``; elements outside the tensor are defined."""
        return self._arranged(memory, part, np.zeros(len(self.fill), np.uint8), _whole_words)

    def _arranged(self, memory: U8, part: Part, fill: U8, to_tf32: Callable[[U8], U8]) -> U8:
        """The bytes of a load; ``to_tf32`` converts elements that are rounded."""
        dense = np.empty(self.rows * self.packed, np.uint8)
        if not part.whole:
            dense.reshape(-1, len(fill))[:] = fill
        if part.size:
            found = self.read(memory, part)
            dense.reshape(self.shape)[self.index(part)] = to_tf32(found) if self.rounds else found
        if self.padded:
            slots = np.zeros((dense.size // self.padded, 16), np.uint8)
            slots[:, : self.padded] = dense.reshape(-1, self.padded)
            return slots.reshape(-1)
        return dense

    def store(self, part: Part, memory: U8, dense: U8, combine: Combine | None) -> None:
        """Write a part; ``combine(target, source)`` reduces into it instead.

        ``memory`` may end before the part does, within the piece behind the last row: what is behind ``memory`` is not written.
        """
        if not part.size:
            return
        if self.padded:
            dense = np.ascontiguousarray(dense.reshape(-1, 16)[:, : self.padded])
        values = dense.reshape(self.shape)[self.index(part)]
        if combine is None and len(memory) >= part.size:
            self.write(memory, part, values)
            return
        for target, source in self.places(memory, part, values):
            put(target, source, combine)

    @property
    def chunk(self) -> int:
        """Bytes of a chunk, which the swizzle moves as a unit."""
        return 8 if TENSOR_MAP_SWIZZLES[self.swizzle].flip else 16

    def order(self, offset: int) -> NDArray[np.intp]:
        """For each chunk of the dense box, its chunk in shared memory for a box at this offset."""
        return chunk_order(self.swizzle, offset & 1023, self.bytes // self.chunk, self.pitch, self.row)

    def scatter(self, dense: U8, shared: U8, offset: int) -> None:
        """Write the staging array to shared memory."""
        if not self.swizzle and self.row == self.pitch:
            shared[offset : offset + dense.size] = dense
            return
        wide, order, window = self._chunks(shared, offset)
        window[order] = dense.view(wide)

    def gather(self, shared: U8, offset: int) -> U8:
        """Read the box from shared memory into a staging array."""
        size = self.bytes
        if not self.swizzle and self.row == self.pitch:
            return shared[offset : offset + size].copy()
        _, order, window = self._chunks(shared, offset)
        return window.take(order).view(np.uint8)

    def _chunks(self, shared: U8, offset: int) -> tuple[np.dtype[Any], NDArray[np.intp], NDArray[Any]]:
        """Type of a chunk, order of the chunks, and the box's shared memory as an array of chunks."""
        wide = _WIDE[self.chunk]
        return wide, self.order(offset), shared[offset : offset + self.footprint].view(wide)
