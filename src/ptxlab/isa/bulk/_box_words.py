"""What compiled code is told of a tensor map to copy its boxes, or of contiguous bytes (`ptxlab.isa.native_ops.BoxWord`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import lru_cache, partial
from math import gcd, prod
from typing import TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab.isa.bulk._endpoints import thread_of
from ptxlab.isa.bulk._map_cache import TileMap
from ptxlab.isa.bulk._prepared_copy import PreparedTmaCopy, places_outside
from ptxlab.isa.bulk._rounding import rounding_address
from ptxlab.isa.bulk._staging import Staged
from ptxlab.isa.bulk._tiled import Box, Columns, Region
from ptxlab.isa.context import WarpContext
from ptxlab.isa.native_ops import BOX_ALIGNMENT, BOX_PERIOD, MOST_PIXELS, REDUCED_ELEMENTS, SPAN_SHIFT, BoxWord, WalkWord
from ptxlab.isa.operands import Op
from ptxlab.isa.operations import AsyncOperation, MemoryAccess
from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.isa.repeating import PendingCopy, place_of
from ptxlab.native import address_of, move_address

__all__ = ["OFFSET_LIMITS", "ROWS", "WIDE_OFFSET_LIMIT", "load_again", "repeat_box", "repeat_line", "repeat_pixels", "repeat_rows"]

_LARGEST = 1 << 62
_MOST_PARTS = 64
"""Compiled code searches them one after the other."""

OFFSET_LIMITS = {1: 1 << 16, 2: 1 << 8, 3: 1 << 5}
"""Dimensions of the image -> exclusive upper limit of an im2col offset."""
WIDE_OFFSET_LIMIT = 32
"""That of the offset of im2col::w."""
ROWS = 4
"""What tile::gather4 and tile::scatter4 copy."""
_Spans: TypeAlias = tuple[tuple[int, int], ...]
"""Of each dimension, innermost first, the first element of a box that is copied, and the first one behind."""

_NOTHING: _Spans = ((0, 0), (0, 0))


class _BoxWords:
    """The words of one tensor map, or of a part of its boxes, and the arrays that they name."""

    __slots__ = ("_box", "_filled", "_inside", "_keep", "_parts", "_pieces", "_tile", "words")

    def __init__(self, tile: TileMap, box: Box, spans: _Spans, coordinates: int) -> None:
        (first, last), *lines = spans
        start, stop = first * box.bits // 8, -(-last * box.bits // 8)
        size = gcd(box.chunk, box.padded, start, stop, box.bits // 8 if box.rounds else 0)
        index = tuple([slice(*span) for span in lines[::-1]])
        inside = _numbers(box, box.packed, size)[(*index, slice(start // size, stop // size))].reshape(-1)
        outside = places_outside(box, size)[inside]
        outside = (outside - outside[:1]) // size
        is_filled = np.ones_like(_numbers(box, box.row, box.chunk), np.bool_)
        if box.padded:  # each chunk has padding
            of_slot = box.padded // size
            inside = inside // of_slot * (CHUNK // size) + inside % of_slot
        else:
            is_filled[(*index, slice(-(-start // box.chunk), stop // box.chunk))] = False
        self._tile, self._box, self._inside, self._pieces = tile, box, inside, box.chunk // size
        self._filled = np.flatnonzero(is_filled)
        self._parts: dict[_Spans, _BoxWords] = {spans: self}
        ranges = _ranges(box, lines, stop - start)
        pitches = [box.bits, *(8 * pitch for pitch in box.pitches)]
        away = sum(low * step * pitch for (low, _), step, pitch in zip(spans, box.steps, pitches, strict=True))
        words: NDArray[np.int64] = np.zeros(BoxWord.END, np.int64)
        words[: BoxWord.UNIT] = np.frombuffer(tile.raw, np.int64)
        whole = zip(box.dims, box.counts, box.steps, strict=True)
        of_slice = int(box.slices)  # the dimension within a slice of channels has no coordinate
        for word, values in (
            (BoxWord.LIMIT, [max(0, dim - (count - 1) * step) for dim, count, step in whole]),
            (BoxWord.PITCH, pitches),
            (BoxWord.DIM, box.dims),
            (BoxWord.ACROSS, box.counts),
            (BoxWord.STEP, box.steps),
            (BoxWord.SPAN, [high << SPAN_SHIFT | low for low, high in spans]),
        ):
            words[word : word + len(box.dims) - of_slice] = values[of_slice:]
        for word, value in (
            (BoxWord.UNIT, tile.unit),
            (BoxWord.RANK, coordinates),
            (BoxWord.WRITTEN, box.written[of_slice]),
            (BoxWord.ADDRESS, box.address + away // 8),
            (BoxWord.EXTENT, _extent(box, lines, stop - start)),
            (BoxWord.ROWS, prod(high - low for low, high in lines) if stop > start else 0),
            (BoxWord.ROW_BYTES, stop - start),
            (BoxWord.FOOTPRINT, box.footprint),
            (BoxWord.TRANSACTION, box.transaction),
            (BoxWord.CHUNK, size),
            (BoxWord.COUNT, len(outside)),
            (BoxWord.MOVE, rounding_address() if box.rounds else move_address(size)),
            (BoxWord.STORE, move_address(size)),
            (BoxWord.IS_SAME, not (len(self._filled) or box.rounds)),
            (BoxWord.ELEMENT, _number_of(tile.element) if len(distinct(outside)) == len(outside) else 0),
            (BoxWord.OUTSIDE, address_of(outside)),
        ):
            words[word] = value
        self.words = words
        self._keep: list[object] = [outside, ranges]
        if len(self._filled):
            self._fill(len(self._filled))
        words[BoxWord.RANGES : BoxWord.END] = ranges.where

    def _fill(self, count: int) -> None:
        """Let loads fill so many chunks."""
        box, zeros = self._box, np.zeros(count, np.int64)
        chunk = np.frombuffer(box.fill * (box.chunk // len(box.fill)), np.uint8)
        self.words[BoxWord.FILLED : BoxWord.FILL_INSIDE] = count, address_of(chunk), address_of(zeros), move_address(box.chunk)
        self._keep += chunk, zeros

    @property
    def dimensions(self) -> int:
        """How many dimensions the box has."""
        return len(self._box.dims)

    def place(self, offset: int) -> None:
        """Let compiled code copy boxes at such an offset in shared memory."""
        at = offset % BOX_PERIOD // BOX_ALIGNMENT
        if not self.words[BoxWord.INSIDE + at]:
            order, pieces = self._box.order(offset), self._pieces
            copied = order[self._inside // pieces] * pieces + self._inside % pieces
            filled = order[self._filled]
            self._keep += copied, filled
            self.words[BoxWord.INSIDE + at], self.words[BoxWord.FILL_INSIDE + at] = address_of(copied), address_of(filled)

    def walk(self, words: NDArray[np.int64], positions: NDArray[np.int64]) -> None:
        """Let compiled code find pixels by these words, which have the address of their positions."""
        self._keep += words, positions
        self.words[BoxWord.WALK] = address_of(words)

    def part(self, spans: _Spans) -> _BoxWords | None:
        """The words of the boxes of which this part is copied; None if there are too many others."""
        found = self._parts.get(spans)
        if found is None and len(self._parts) < _MOST_PARTS:
            found = self._parts[spans] = _BoxWords(self._tile, self._box, spans, self.words.item(BoxWord.RANK))
            found.words[BoxWord.NEXT], self.words[BoxWord.NEXT] = self.words[BoxWord.NEXT], address_of(found.words)
        return found


def _spans(part: Region, dimensions: int) -> _Spans:
    """What is copied of a box."""
    return tuple([(span.low, span.high) for span in part.spans]) or ((0, 0),) * dimensions


def _numbers(box: Box, row: int, size: int) -> NDArray[np.int64]:
    """The number of each piece of so many bytes of a box whose rows have ``row`` bytes, in the shape of the box."""
    return np.arange(box.rows * row // size).reshape(*box.counts[:0:-1], -1)


def _number_of(element: str) -> int:
    """`BoxWord.ELEMENT` of an element type."""
    return REDUCED_ELEMENTS.index(element) + 1 if element in REDUCED_ELEMENTS else 0


def _extent(box: Box, lines: list[tuple[int, int]], row: int) -> int:
    """The bytes from the first one of a box to its last one; of ``row`` bytes of some rows."""
    steps = zip(lines, box.steps[1:], box.pitches, strict=True)
    return row + sum((high - low - 1) * step * pitch for (low, high), step, pitch in steps) if row else 0


def _ranges(box: Box, lines: list[tuple[int, int]], row: int) -> MemoryAccess:
    """These bytes, less the address of the first one."""
    first = np.zeros(1, np.uint8)
    steps = [step * pitch for step, pitch in zip(box.steps[1:], box.pitches, strict=True)]
    counts = [high - low for low, high in lines]
    access = MemoryAccess.of(as_strided(first, (*counts[::-1], row), (*steps[::-1], 1)), False)
    return MemoryAccess(access.starts - np.uint64(address_of(first)), access.sizes, False)


@lru_cache(maxsize=1024)
def _words_of(tile: TileMap, rows: int = 0) -> _BoxWords | None:
    """The words of a tensor map; None if compiled code does not copy its boxes. ``rows``: those of copies of so many rows."""
    box = tile.box
    if not tile.raw or not isinstance(box, Box) or box.row % box.chunk:
        return None
    last = box.written[0] * box.bits + sum(8 * size * pitch for size, pitch in zip(box.dims[1:], box.pitches, strict=True))
    if last + 8 * box.address >= _LARGEST:
        return None
    if not rows:
        return _BoxWords(tile, box, tuple([(0, count) for count in box.counts]), tile.rank)
    columns = box.counts[0]
    return _BoxWords(tile, replace(box, counts=(columns, rows)), ((0, columns), (0, rows)), 1 + rows)


def repeat_box(
    warp: WarpContext,
    lane: int,
    operation: AsyncOperation,
    copy: PreparedTmaCopy,
    address: int,
    offset: int,
    reduces: bool = False,
    again: Callable[[WarpContext, int, Sequence[int]], AsyncOperation] | None = None,
) -> None:
    """Let compiled code copy such boxes of the tensor map at an address to or from such an offset in shared memory, as a lane has done.

    They are those of which the same part is inside the tensor. ``reduces``: or reduce them, unless rows share elements. ``again`` is for
    copies that perform later than they are issued.
    """
    found = _words_of(copy.tile) if warp.repeats_in_any_state else None
    if found is None:
        return
    assert isinstance(copy.part, Region)
    copied = found.part(_spans(copy.part, found.dimensions))
    if copied is not None and (copied.words[BoxWord.ELEMENT] or not reduces):
        copied.place(offset)
        warp.repeat_box(lane, operation, address, address_of(found.words), found, again)


def load_again(op: Op, tile: TileMap, warp: WarpContext, lane: int, what: Sequence[int]) -> AsyncOperation:
    """The copy of a box of a tensor map by a lane, from what compiled code has noted (`PendingCopy`)."""
    coordinates = tuple(what[PendingCopy.COORDINATES : PendingCopy.COORDINATES + tile.rank])
    region = tile.region(coordinates, ())
    memory = warp.machine.global_view(warp, region.address, region.size, False, region.size)
    (rank, offset), (home, at) = place_of(what[PendingCopy.PLACE]), place_of(what[PendingCopy.BARRIER])
    cluster = warp.cta.cluster
    copy = PreparedTmaCopy(b"", tile, coordinates, region, region, memory)
    perform = partial(copy.deliver, [(cluster[rank], offset, cluster[home].mbarriers[at])])
    return AsyncOperation(op.opcode, op, warp.cta, perform, thread=thread_of(warp, lane))


def repeat_rows(warp: WarpContext, lane: int, operation: AsyncOperation, tile: TileMap, part: Region, address: int, offset: int) -> None:
    """Let compiled code copy four rows of the tensor map at an address to or from such an offset in shared memory, as a lane has done.

    ``part`` is what is copied of a row that is inside the tensor.
    """
    found = _words_of(tile, ROWS) if warp.repeats_in_any_state else None
    if found is None:
        return
    _repeat_parts(warp, lane, operation, found, (_spans(part, 1)[0], (0, ROWS)) if part.size else _NOTHING, address, offset)


@lru_cache(maxsize=1024)
def _words_of_columns(tile: TileMap) -> _BoxWords | None:
    """The words of a tensor map in im2col mode, and of the box that its pixels are in shared memory; None if it is not copied."""
    box = tile.box
    assert isinstance(box, Columns)
    positions, dimensions = box.positions, len(box.lower)
    count, steps = len(positions), int(positions.max()) + 1
    if not tile.raw or box.slices or box.row % box.chunk or max(count, steps) > MOST_PIXELS:
        return None
    low, last = box.corners()
    limit, halo = (OFFSET_LIMITS[dimensions], -1) if box.halo is None else (WIDE_OFFSET_LIMIT, box.halo)
    others = dimensions - box.walked  # any coordinates will do
    walk: NDArray[np.int64] = np.zeros(WalkWord.END, np.int64)
    walk[: WalkWord.FIRST] = dimensions, box.walked, count, steps, address_of(positions), limit, halo
    for word, values in (
        (WalkWord.FIRST, low if box.halo is None else (-_LARGEST,) * dimensions),
        (WalkWord.LAST, (*last, *(_LARGEST,) * others)),
        (WalkWord.LOW, low),
        (WalkWord.STEP, box.steps[: box.walked]),
        (WalkWord.SIZE, box.dims[1:]),
        (WalkWord.PITCH, box.pitches),
    ):
        walk[word : word + len(values)] = values
    shared = {each.name: getattr(box, each.name) for each in fields(Staged) if each.init}
    shared |= {"dims": (box.dims[0], count), "pitches": box.pitches[:1]}
    pixels = Box(counts=(box.channels, count), steps=(1, 1), **shared)
    found = _BoxWords(tile, pixels, ((0, box.channels), (0, count)), 2 + 2 * dimensions)
    found.walk(walk, positions)
    return found


def repeat_pixels(
    warp: WarpContext, lane: int, operation: AsyncOperation, copy: PreparedTmaCopy, store: bool, address: int, offset: int
) -> None:
    """Let compiled code copy pixels of the tensor map at an address to or from such an offset in shared memory, as a lane has done."""
    found = _words_of_columns(copy.tile) if warp.repeats_in_any_state else None
    if found is None:
        return
    box, channel = copy.tile.box, copy.coordinates[0]
    assert isinstance(box, Columns)
    low, high = max(0, -channel), min(box.channels, (box.written if store else box.dims)[0] - channel)
    spans = ((low, high), (0, len(box.positions))) if low < high else _NOTHING
    _repeat_parts(warp, lane, operation, found, spans, address, offset)


def _repeat_parts(
    warp: WarpContext, lane: int, operation: AsyncOperation, found: _BoxWords, spans: _Spans, address: int, offset: int
) -> None:
    """Let compiled code copy rows of which these columns are inside the tensor, and rows that are outside."""
    copied, nothing = found.part(spans), found.part(_NOTHING)
    if copied is not None and nothing is not None:
        copied.place(offset)
        nothing.place(offset)
        warp.repeat_box(lane, operation, address, address_of(found.words), found)


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
        (BoxWord.STORE, move_address(CHUNK)),
        (BoxWord.ELEMENT, 0 if element is None else _number_of(element)),
        (BoxWord.OUTSIDE, address_of(order)),
        (BoxWord.INSIDE, address_of(order)),
    ):
        words[word] = value
    words[BoxWord.RANGES : BoxWord.END] = ranges.where
    return words, (order, ranges)


def repeat_line(warp: WarpContext, lane: int, operation: AsyncOperation, size: int, element: str | None) -> None:
    """Let compiled code copy so many contiguous bytes, or reduce elements, as a lane has done."""
    if size and warp.repeats_in_any_state:
        words, kept = _words_of_line(size, element)
        warp.repeat_box(lane, operation, 0, address_of(words), (words, kept))
