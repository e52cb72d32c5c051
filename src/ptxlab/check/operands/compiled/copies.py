"""Copies of boxes that compiled code repeats: the tile at a place is another one of the same array.

Compiled code enters which box it is. Python makes the tile of it when it asks for the tiles of a CTA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.operands.compiled.cta_words import MOST_TILES, CtaWord, PlacedWord, placed_at, words_of_cta
from ptxlab.engine.repetitions import CopyWord, each_receiver
from ptxlab.isa.native_ops import BOX_ALIGNMENT
from ptxlab.isa.tiles import CopiedTile, TileArray
from ptxlab.machine.observe.observer import ObservedRepetition
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.engine.repetitions import Call
    from ptxlab.isa.context import AsyncOperation
    from ptxlab.isa.operands import Op

__all__ = ["CompiledCopies"]


def _place(code: native.Function, words: native.Value, copy: native.Value) -> native.Value:
    """One more than the number of the place where a box goes, 0 if it has none."""
    return words.pointer(0).load("i64", copy.word(CopyWord.OFFSET) >> (BOX_ALIGNMENT.bit_length() - 1))


def _ask(module: native.Module) -> None:
    """``i64 ask(context, words, copy)``: 0 if the box goes where a tile of the same array and size is, or none, in each CTA."""
    _ask_of_one(module)
    code = native.Function(module, "ask", "i64", "ptr context, ptr words, ptr copy")
    context, words, copy = code.parameters
    for each in each_receiver(code, copy):
        with code.when(code.call("ask_one", "i64", context, words, each).ne(0)):
            code.ret(1)
    code.ret(0)


def _ask_of_one(module: native.Module) -> None:
    """``i64 ask_one(context, words, copy)``: the same for one CTA."""
    code = native.Function(module, "ask_one", "i64", "ptr context, ptr words, ptr copy", internal=True)
    context, words, copy = code.parameters
    cta, place = words_of_cta(context, copy.word(CopyWord.RANK)), _place(code, words, copy)
    with code.when((place - 1).uge(MOST_TILES)):
        code.ret(1)
    placed, (start, stop) = placed_at(cta, place - 1), _extent(copy)
    with code.when(placed.word(PlacedWord.STOP).eq(stop) & placed.word(PlacedWord.ARRAY).eq(words.word(1))):
        code.ret(0)
    taken = cta.word(CtaWord.BEYOND).ne(0)
    other = code.variable("i1", taken)
    with code.loop(code.const("i64", MOST_TILES)) as i:
        tile = placed_at(cta, i)
        other.set(other.get() | (tile.word(PlacedWord.START).ult(stop) & tile.word(PlacedWord.STOP).ugt(start)))
    code.ret(other.get().to("i64"))


def _extent(copy: native.Value) -> tuple[native.Value, native.Value]:
    """Where the first byte of a box goes in shared memory, and its end."""
    start = copy.word(CopyWord.OFFSET)
    return start, start + copy.word(CopyWord.SIZE)


def _note(module: native.Module) -> None:
    """``i64 note(context, words, copy)``: such a box is the tile at its place, in each CTA."""
    code = native.Function(module, "note", "i64", "ptr context, ptr words, ptr copy")
    context, words, copy = code.parameters
    for each in each_receiver(code, copy):
        cta, place = words_of_cta(context, each.word(CopyWord.RANK)), _place(code, words, each) - 1
        changes, copies = (cta.word(word) + 1 for word in (CtaWord.CHANGES, CtaWord.COPIES))
        cta.set_words({CtaWord.CHANGES: changes, CtaWord.COPIES: copies, CtaWord.COPIED: 1})
        cta.at((place + CtaWord.TILES) << 3).store(changes)
        placed = placed_at(cta, place)
        start, stop = _extent(each)
        placed.set_words({PlacedWord.START: start, PlacedWord.STOP: stop, PlacedWord.ARRAY: words.word(1)})
        placed.set_words({PlacedWord.SOURCE: words.word(2), PlacedWord.NUMBER: copies})
        with code.loop(words.word(3)) as i:
            placed.at((i + PlacedWord.COORDINATES) << 3).store(each.at((i + CopyWord.COORDINATES) << 3).load("i64"))
    code.ret(0)


@cache
def _library() -> native.Library:
    """``ask`` and ``note``, compiled or from the cache."""
    module = native.Module()
    _ask(module)
    _note(module)
    return native.compile_ir(module.text(), ["ask", "note"], opt=1, light=True)


class CompiledCopies:
    """The places of tiles in shared memory, the same in all CTAs, their arrays, and from where they are copied; one for each launch.

    ``follows_words``: the launch follows each word, so that compiled code copies nothing.
    """

    def __init__(self, follows_words: bool) -> None:
        self._follows_words = follows_words
        self._places: dict[int, int] = {}
        self._table: NDArray[np.int64] = np.zeros(0, np.int64)
        """One more than the number of a place, by the offset in units of `BOX_ALIGNMENT`."""
        self._arrays: dict[TileArray, int] = {}
        self._sources: list[tuple[Op, Callable[[tuple[int, ...], Any, int], CopiedTile], int]] = []
        """Of each the instruction, what makes a tile of coordinates, a CTA and an offset there, and how many coordinates there are."""
        self._calls: dict[tuple[int, TileArray], tuple[NDArray[np.int64], Call, Call]] = {}

    def reach(self, size: int) -> None:
        """The CTAs have so many bytes of shared memory."""
        if not self._table.size:
            self._table = np.zeros(size // BOX_ALIGNMENT + 1, np.int64)

    def place(self, offset: int) -> int:
        """The number of a place."""
        found = self._places.get(offset)
        if found is None:
            found = self._places[offset] = len(self._places)
            if offset % BOX_ALIGNMENT == 0:
                self._table[offset // BOX_ALIGNMENT] = found + 1
        return found

    def number(self, array: TileArray) -> int:
        """The number of an array."""
        return self._arrays.setdefault(array, len(self._arrays))

    def tile(self, number: int, coordinates: Sequence[int], cta: Any, offset: int) -> tuple[Op, CopiedTile]:
        """The instruction that copies from a source, and the tile of the box at such coordinates, of which there may be more."""
        op, tile_at, rank = self._sources[number]
        return op, tile_at(tuple(coordinates[:rank]), cta, offset)

    def repetition(self, operation: AsyncOperation) -> ObservedRepetition | None:
        """How compiled code copies other boxes of the same array; None if it cannot."""
        tiles = [] if operation.tiles is None or self._follows_words else list(operation.tiles())
        if not tiles or operation.tile_at is None:
            return None
        key, tile = (operation.op.index, tiles[0].array), tiles[0]
        found = self._calls.get(key)
        if found is None:
            about = address_of(self._table), self.number(tile.array), len(self._sources), len(tile.coordinates)
            self._sources.append((operation.op, operation.tile_at, len(tile.coordinates)))
            words = np.array(about, np.int64)
            ask, note = ((_library().address(name), address_of(words)) for name in ("ask", "note"))
            found = self._calls[key] = words, ask, note
        return ObservedRepetition(ask=(found[1],), note=(found[2],), kept=found)
