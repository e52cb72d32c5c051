"""What compiled code is told of a tensor map to copy its boxes, or of contiguous bytes (`ptxlab.isa.native_ops.BoxWord`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab.isa.bulk._endpoints import thread_of
from ptxlab.isa.bulk._map_cache import TileMap
from ptxlab.isa.bulk._prepared_copy import PreparedTmaCopy, chunks_outside
from ptxlab.isa.bulk._tiled import Box
from ptxlab.isa.context import WarpContext
from ptxlab.isa.native_ops import BOX_ALIGNMENT, BOX_PERIOD, REDUCED_ELEMENTS, BoxWord
from ptxlab.isa.operands import Op
from ptxlab.isa.operations import AsyncOperation, MemoryAccess
from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.isa.repeating import PendingCopy, place_of
from ptxlab.native import address_of, move_address

__all__ = ["load_again", "repeat_box", "repeat_line"]

_LARGEST = 1 << 62


class _BoxWords:
    """The words of one tensor map, and the arrays that they name."""

    __slots__ = ("_box", "_keep", "words")

    def __init__(self, tile: TileMap, box: Box, limits: list[int], pitches: list[int]) -> None:
        outside = chunks_outside(box)
        words: NDArray[np.int64] = np.zeros(BoxWord.END, np.int64)
        rank = len(limits)
        words[: BoxWord.UNIT] = np.frombuffer(tile.raw, np.int64)
        words[BoxWord.LIMIT : BoxWord.LIMIT + rank] = limits
        words[BoxWord.PITCH : BoxWord.PITCH + rank] = pitches
        for word, value in (
            (BoxWord.UNIT, tile.unit),
            (BoxWord.RANK, rank),
            (BoxWord.ADDRESS, box.address),
            (BoxWord.EXTENT, _extent(box)),
            (BoxWord.ROWS, box.rows),
            (BoxWord.ROW_BYTES, box.packed),
            (BoxWord.FOOTPRINT, box.footprint),
            (BoxWord.TRANSACTION, box.transaction),
            (BoxWord.CHUNK, box.chunk),
            (BoxWord.COUNT, len(outside)),
            (BoxWord.MOVE, move_address(box.chunk)),
            (BoxWord.ELEMENT, _number_of(tile.element) if len(distinct(outside)) == len(outside) else 0),
            (BoxWord.OUTSIDE, address_of(outside)),
        ):
            words[word] = value
        ranges = _ranges(box)
        words[BoxWord.RANGES : BoxWord.END] = ranges.where
        self.words, self._box = words, box
        self._keep: list[object] = [outside, ranges]

    def place(self, offset: int) -> None:
        """Let compiled code copy boxes at such an offset in shared memory."""
        at = BoxWord.INSIDE + offset % BOX_PERIOD // BOX_ALIGNMENT
        if not self.words[at]:
            order = self._box.order(offset)
            self._keep.append(order)
            self.words[at] = address_of(order)


def _number_of(element: str) -> int:
    """`BoxWord.ELEMENT` of an element type."""
    return REDUCED_ELEMENTS.index(element) + 1 if element in REDUCED_ELEMENTS else 0


def _extent(box: Box) -> int:
    """The bytes from the first one of a box that is inside the tensor to its last one."""
    lines = zip(box.counts[1:], box.steps[1:], box.pitches, strict=True)
    return box.packed + sum((count - 1) * step * pitch for count, step, pitch in lines)


def _ranges(box: Box) -> MemoryAccess:
    """The bytes of a box that is inside the tensor, less the address of the first one."""
    first = np.zeros(1, np.uint8)
    lines = [step * pitch for step, pitch in zip(box.steps[1:], box.pitches, strict=True)]
    access = MemoryAccess.of(as_strided(first, (*box.counts[:0:-1], box.packed), (*lines[::-1], 1)), False)
    return MemoryAccess(access.starts - np.uint64(address_of(first)), access.sizes, False)


@lru_cache(maxsize=1024)
def _words_of(tile: TileMap) -> _BoxWords | None:
    """The words of a tensor map; None if compiled code does not copy its boxes."""
    box = tile.box
    if not tile.raw or not isinstance(box, Box) or box.padded or box.rounds or box.slices or box.packed % box.chunk:
        return None
    limits = [size - (count - 1) * step for size, count, step in zip(box.dims, box.counts, box.steps, strict=True)]
    pitches = [box.bits, *(8 * pitch for pitch in box.pitches)]
    last = sum(limit * pitch for limit, pitch in zip(limits, pitches, strict=True))
    if min(limits) <= 0 or last + 8 * (_extent(box) + box.address) >= _LARGEST:
        return None
    return _BoxWords(tile, box, limits, pitches)


def repeat_box(
    warp: WarpContext,
    lane: int,
    operation: AsyncOperation,
    tile: TileMap,
    address: int,
    offset: int,
    reduces: bool = False,
    again: Callable[[WarpContext, int, Sequence[int]], AsyncOperation] | None = None,
) -> None:
    """Let compiled code copy boxes of the tensor map at an address to or from such an offset in shared memory, as a lane has done.

    ``reduces``: or reduce them, unless rows of a box share elements. ``again`` is for copies that perform later than they are issued.
    """
    found = _words_of(tile) if warp.repeats_in_any_state else None
    if found is not None and (not reduces or found.words[BoxWord.ELEMENT]):
        found.place(offset)
        warp.repeat_box(lane, operation, address, address_of(found.words), found, again)


def load_again(op: Op, tile: TileMap, warp: WarpContext, lane: int, what: Sequence[int]) -> AsyncOperation:
    """The copy of a box of a tensor map by a lane, from what compiled code has noted (`PendingCopy`)."""
    coordinates = tuple(what[PendingCopy.COORDINATES : PendingCopy.COORDINATES + len(tile.box.dims)])
    region = tile.region(coordinates, ())
    memory = warp.machine.global_view(warp, region.address, region.size, False, region.size)
    (rank, offset), (home, at) = place_of(what[PendingCopy.PLACE]), place_of(what[PendingCopy.BARRIER])
    cluster = warp.cta.cluster
    copy = PreparedTmaCopy(b"", tile, coordinates, region, region, memory)
    perform = partial(copy.deliver, [(cluster[rank], offset, cluster[home].mbarriers[at])])
    return AsyncOperation(op.opcode, op, warp.cta, perform, thread=thread_of(warp, lane))


@lru_cache(maxsize=256)
def _words_of_line(size: int, element: str | None) -> tuple[NDArray[np.int64], object]:
    """The words of so many contiguous bytes: those of a box of one row, whose chunks are in order in both memories."""
    order: NDArray[np.int64] = np.arange(size // CHUNK)
    ranges = MemoryAccess(np.zeros(1, np.uint64), np.array([size], np.uint32), False)
    words: NDArray[np.int64] = np.zeros(BoxWord.END, np.int64)
    for word, value in (
        (BoxWord.FOOTPRINT, size),
        (BoxWord.CHUNK, CHUNK),
        (BoxWord.COUNT, len(order)),
        (BoxWord.MOVE, move_address(CHUNK)),
        (BoxWord.ELEMENT, 0 if element is None else _number_of(element)),
        (BoxWord.OUTSIDE, address_of(order)),
        (BoxWord.INSIDE, address_of(order)),
    ):
        words[word] = value
    words[BoxWord.RANGES : BoxWord.END] = ranges.where
    return words, (order, ranges)


def repeat_line(warp: WarpContext, lane: int, operation: AsyncOperation, size: int, element: str | None) -> None:
    """Let compiled code copy so many bytes from shared memory to global memory, or reduce elements, as a lane has done."""
    if size and warp.repeats_in_any_state:
        words, kept = _words_of_line(size, element)
        warp.repeat_box(lane, operation, 0, address_of(words), (words, kept))
