"""Prepared tensor copies, clipped to the tensor: made once for a tensor map and coordinates, performed any number of times.

If the whole box is inside the tensor and no element is converted, one call of compiled code moves all chunks. Otherwise the bytes go
through the staging array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa import context, operations
from ptxlab.isa.bulk._endpoints import Target
from ptxlab.isa.bulk._map_cache import TileMap, array_of
from ptxlab.isa.bulk._reduce import Combine
from ptxlab.isa.bulk._staging import U8, Staged
from ptxlab.isa.bulk._tiled import Box, Pixels, Region
from ptxlab.isa.operations.tiles import CHUNK, CopiedTile, TileArray
from ptxlab.native import address_of, mover

__all__ = ["PreparedTmaCopy", "chunks_outside", "places_outside"]


@lru_cache(maxsize=256)
def chunks_outside(box: Box) -> NDArray[np.int64]:
    """The position in global memory of each chunk of a box that is wholly inside the tensor, in chunks from its first byte."""
    order = places_outside(box, box.chunk) // box.chunk
    order.setflags(write=False)
    return order


@lru_cache(maxsize=256)
def places_outside(box: Box, size: int) -> NDArray[np.int64]:
    """The same for pieces of so many bytes of a row, in bytes."""
    offsets = np.zeros(1, np.int64)
    for count, pitch, step in zip(box.counts[:0:-1], box.pitches[::-1], box.steps[:0:-1], strict=True):
        offsets = (offsets[:, None] + np.arange(count) * (pitch * step)).reshape(-1)
    places: NDArray[np.int64] = (offsets[:, None] + np.arange(0, box.packed, size)).reshape(-1)
    places.setflags(write=False)
    return places


class PreparedTmaCopy:
    """One copy between a tensor and shared memory; ``memory`` is the byte range in global memory.

    A store writes whole 16-byte pieces of each row, as an H200 does: also what is behind the last element of the row. Those bytes change,
    but they are not part of the tensor: they count as defined, and nothing is written behind the end of an allocation.

    Attributes
    ----------
    raw : bytes of the tensor map, empty if it cannot change
    tile, box : the decoded map and its box
    coordinates : of the box in the tensor
    inside, part : the part of the box that is inside the tensor, and the part that is copied
    """

    __slots__ = (
        "_chunks",
        "_copied",
        "_count",
        "_expands",
        "_orders",
        "_outside",
        "_whole",
        "box",
        "coordinates",
        "inside",
        "memory",
        "part",
        "raw",
        "tile",
    )

    def __init__(
        self, raw: bytes, tile: TileMap, coordinates: tuple[int, ...], inside: Region | Pixels, part: Region | Pixels, memory: U8
    ) -> None:
        box: Staged[Any] = tile.box
        self.raw, self.tile, self.box, self.inside, self.part, self.memory = raw, tile, box, inside, part, memory
        self.coordinates = coordinates
        self._whole: tuple[int, int] | None = None
        self._count = box.bytes // box.chunk
        self._outside: tuple[operations.MemoryAccess, ...] = ()
        self._copied: tuple[TileArray | None, Callable[[], U8], NDArray[np.int64] | None] | None = None
        self._orders: dict[int, NDArray[np.intp]] = {}
        whole = isinstance(box, Box) and part.whole and len(memory) >= part.size
        self._expands = whole and bool(box.padded)
        if isinstance(box, Box) and whole and not box.padded and not box.rounds and box.packed % box.chunk == 0:
            self._chunks = chunks_outside(box)
            self._whole = address_of(memory), address_of(self._chunks)

    def deliver(self, targets: list[Target]) -> None:
        """Copy to shared memory and complete the transaction on the mbarriers."""
        box = self.box
        if self._whole is None:
            dense = box.load(self.memory, self.part)
            for cta, offset, barrier in targets:
                box.scatter(dense, cta.shared, offset)
                barrier.complete_tx(box.transaction)
            return
        move, (source, order) = mover(box.chunk), self._whole
        for cta, offset, barrier in targets:
            move(source, order, cta.shared_address + offset, address_of(self._order(offset)), self._count)
            barrier.complete_tx(box.transaction)

    def tiles(self, targets: list[Target]) -> Iterator[CopiedTile]:
        """What `deliver` places in shared memory, for observers."""
        array, contents, places = self._copied or self._what_is_copied()
        if array is not None:
            for cta, offset, _ in targets:
                yield self._tile(array, contents, places, cta, offset)

    def tile_at(self, cta: context.Cta, offset: int) -> CopiedTile:
        """What `deliver` places at an offset of the shared memory of a CTA, if tiles of the array are known."""
        array, contents, places = self._copied or self._what_is_copied()
        assert array is not None
        return self._tile(array, contents, places, cta, offset)

    def _tile(
        self, array: TileArray, contents: Callable[[], U8], places: NDArray[np.int64] | None, cta: context.Cta, offset: int
    ) -> CopiedTile:
        box, order = self.box, self._order(offset)
        data = box.padded or CHUNK
        return CopiedTile(array, self.coordinates, cta, offset, box.footprint, order, contents, self.part.address, places, data)

    def _what_is_copied(self) -> tuple[TileArray | None, Callable[[], U8], NDArray[np.int64] | None]:
        """The array, what returns the bytes of the box, and the places of its chunks in global memory: see `CopiedTile`."""
        box, places = self.box, None
        if isinstance(box, Box) and (self._whole is not None or self._expands):
            places = places_outside(box, box.padded or CHUNK)
        found = self._copied = array_of(box, self.tile.element, True), partial(box.load, self.memory, self.part), places
        return found

    def _order(self, offset: int) -> NDArray[np.intp]:
        """For each chunk of the box, its chunk in shared memory for a box at this offset."""
        found = self._orders.get(offset)
        if found is None:
            found = self._orders[offset] = self.box.order(offset)
        return found

    def deliver_undefined(self, targets: list[Target], undefined: operations.UndefinedBits) -> None:
        """Do to undefined bits what `deliver` does to the data."""
        dense = self.box.load_undefined(undefined.of(self.memory), self.part)
        for cta, offset, _ in targets:
            self.box.scatter(dense, undefined.of(cta.shared), offset)

    def store_undefined(self, cta: context.Cta, offset: int, combine: Combine | None, undefined: operations.UndefinedBits) -> None:
        """Do to undefined bits what `store` does to the data."""
        box, found = self.box, self.box.gather(undefined.of(cta.shared), offset)
        if self.part.size > self.inside.size:
            of_elements = np.zeros_like(found)
            index = box.index(self.inside)
            of_elements.reshape(box.shape)[index] = found.reshape(box.shape)[index]
            found = of_elements
        box.store(self.part, undefined.of(self.memory), found, combine)

    def store(self, cta: context.Cta, offset: int, combine: Combine | None) -> None:
        """Copy or reduce from shared memory."""
        box = self.box
        if self._whole is None or combine is not None:
            box.store(self.part, self.memory, box.gather(cta.shared, offset), combine)
            return
        target, order = self._whole
        mover(box.chunk)(cta.shared_address + offset, address_of(self._order(offset)), target, order, self._count)

    def loaded(self, targets: list[Target]) -> Iterator[operations.MemoryAccess]:
        """The accesses of `deliver`, for observers."""
        yield from self.outside(False)
        for cta, offset, barrier in targets:
            yield _range(cta.shared_address + offset, self.box.footprint, True).signalled(barrier)

    def stored(self, cta: context.Cta, offset: int) -> Iterator[operations.MemoryAccess]:
        """The accesses of `store`, for observers."""
        yield _range(cta.shared_address + offset, self.box.footprint, False)
        yield from self.outside(True)

    def outside(self, write: bool) -> tuple[operations.MemoryAccess, ...]:
        """The accesses to global memory, the same object each time: a prepared copy has one direction."""
        if not self._outside:
            part = self.part if len(self.memory) >= self.part.size else self.inside
            self._outside = tuple(operations.MemoryAccess.of(each, write) for each in self.box.views(self.memory, part))
        return self._outside


@lru_cache(maxsize=4096)
def _range(address: int, size: int, write: bool) -> operations.MemoryAccess:
    return operations.MemoryAccess(np.array([address], np.uint64), np.array([size], np.uint32), write)
