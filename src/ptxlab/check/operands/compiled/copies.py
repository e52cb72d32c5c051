"""Copies of boxes that compiled code repeats: the tile at a place is another one of the same array.

Compiled code enters which box it is. Python makes the tile of it when it asks for the tiles of a CTA. If the sources of words are followed,
compiled code enters those of the words of the box.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.operands.compiled.calls import library_of
from ptxlab.check.operands.compiled.cta_words import MOST_TILES, CtaWord, PlacedWord, placed_at, words_of_cta
from ptxlab.check.operands.words.boxes import relative_words
from ptxlab.engine.context import Word
from ptxlab.engine.direct_services import coordinates_of
from ptxlab.engine.repetitions import CopyWord, each_receiver
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.isa.effects import Asynchronous
from ptxlab.isa.native_ops import BOX_ALIGNMENT, BOX_PERIOD, BoxWord
from ptxlab.isa.operations.tiles import CHUNK, CopiedTile, TileArray
from ptxlab.machine.observe.observer import ObservedRepetition
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.engine.repetitions import Call
    from ptxlab.isa.operands import Op
    from ptxlab.isa.operations import AsyncOperation

__all__ = ["CompiledCopies"]

_WORD, _SOURCE = 4, 8
"""Bytes of a word of shared memory, and of its source."""


class _BoxesWord(IntEnum):
    """The words of the boxes that an instruction copies of an array.

    They are the address of the numbers of places, the number of the array, the number of the source (`CompiledCopies.tile`), and how many
    coordinates there are. ``STRIDE`` is the distance of the sources of words of CTAs that are neighbours, 0 if words are not followed.
    ``NOTED`` is 1 if their sources are entered where a box has the bytes of the tensor, else they become unknown; ``COUNT`` is how many
    there are. From ``RELATIVE`` on are the addresses of their sources, less that of the box, for each place of the box modulo
    `BOX_PERIOD`; 0 where they are not known.
    """

    PLACES = 0
    ARRAY = 1
    SOURCE = 2
    RANK = 3
    STRIDE = 4
    NOTED = 5
    COUNT = 6
    RELATIVE = 7
    END = RELATIVE + BOX_PERIOD // BOX_ALIGNMENT


def _place(code: native.Function, words: native.Value, copy: native.Value) -> native.Value:
    """One more than the number of the place where a box goes, 0 if it has none."""
    return words.pointer(_BoxesWord.PLACES).load("i64", copy.word(CopyWord.OFFSET) >> (BOX_ALIGNMENT.bit_length() - 1))


def _relative(words: native.Value, copy: native.Value) -> native.Value:
    """The sources of the words of a box, less the address of the box."""
    period = (copy.word(CopyWord.OFFSET) & (BOX_PERIOD - 1)) >> (BOX_ALIGNMENT.bit_length() - 1)
    return words.load("ptr", period + _BoxesWord.RELATIVE)


def _is_noted(words: native.Value, copy: native.Value) -> native.Value:
    """Whether the sources of the words of a box are entered."""
    is_same = copy.pointer(CopyWord.BOX).word(BoxWord.IS_SAME)
    return (words.word(_BoxesWord.NOTED) & is_same).ne(0)


def _ask(module: native.Module) -> None:
    """``i64 ask(context, words, copy)``: 0 if the box goes where a tile of the same size is, or none, in each CTA."""
    _ask_of_one(module)
    code = native.Function(module, "ask", "i64", "ptr context, ptr words, ptr copy")
    context, words, copy = code.parameters
    with code.when(_is_noted(words, copy) & _relative(words, copy).eq(0)):
        code.ret(1)
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
    with code.when(placed.word(PlacedWord.STOP).eq(stop)):
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
        placed.set_words({PlacedWord.START: start, PlacedWord.STOP: stop, PlacedWord.ARRAY: words.word(_BoxesWord.ARRAY)})
        placed.set_words({PlacedWord.SOURCE: words.word(_BoxesWord.SOURCE), PlacedWord.NUMBER: copies})
        with code.loop(words.word(_BoxesWord.RANK)) as i:
            placed.at((i + PlacedWord.COORDINATES) << 3).store(each.at((i + CopyWord.COORDINATES) << 3).load("i64"))
        with code.when(words.word(_BoxesWord.STRIDE).ne(0)):
            _note_words(code, context, words, each, cta)
    code.ret(0)


def _note_words(code: native.Function, context: native.Value, words: native.Value, copy: native.Value, cta: native.Value) -> None:
    """The words of a box come from there."""
    away = copy.word(CopyWord.RANK) - (context.word(Word.SHARED_RANK) >> SHARED_RANK_SHIFT)
    first = copy.word(CopyWord.OFFSET)
    sources = context.pointer(Word.COPIED).at(away * words.word(_BoxesWord.STRIDE) + first * (_SOURCE // _WORD))
    relative, address = _relative(words, copy), copy.word(CopyWord.ADDRESS)
    with code.when(_is_noted(words, copy)) as otherwise:
        with code.loop(words.word(_BoxesWord.COUNT), entered=True) as i:
            distance = relative.load("i64", i)
            sources.store(distance.lt(0).select(0, distance + address), i)
        otherwise()
        with code.loop(words.word(_BoxesWord.COUNT), entered=True) as i:
            sources.store(code.const("i64", 0), i)
    chunks = cta.pointer(CtaWord.BOXED).at(first >> (CHUNK.bit_length() - 1))
    with code.loop((copy.word(CopyWord.SIZE) + (CHUNK - 1)) >> (CHUNK.bit_length() - 1), entered=True) as i:
        chunks.store(code.const("i8", 1), i)
    cta.set_word(CtaWord.OTHERWISE, 1)


def _coordinates(op: Op) -> int:
    """How many coordinates an instruction has."""
    box = op.effects.box if isinstance(op.effects, Asynchronous) else None
    return 0 if box is None else len(coordinates_of(op.operands[box.tensor_map]))


@cache
def _library() -> native.Library:
    """``ask`` and ``note``, compiled or from the cache."""
    return library_of(_ask, _note)


class CompiledCopies:
    """The places of tiles in shared memory, the same in all CTAs, their arrays, and from where they are copied; one for each launch.

    Parameters
    ----------
    follows_words : whether the launch follows each word
    notes_tiles : whether it follows those that come from tiles
    """

    def __init__(self, follows_words: bool, notes_tiles: bool) -> None:
        self._follows_words, self._notes_tiles = follows_words, follows_words and notes_tiles
        self._places: dict[int, int] = {}
        self._table: NDArray[np.int64] = np.zeros(0, np.int64)
        """One more than the number of a place, by the offset in units of `BOX_ALIGNMENT`."""
        self._stride = 0
        self._arrays: dict[TileArray, int] = {}
        self._sources: list[tuple[Op, Callable[[tuple[int, ...], Any, int], CopiedTile], int]] = []
        """Of each the instruction, what makes a tile of coordinates, a CTA and an offset there, and how many coordinates there are."""
        self._calls: dict[tuple[int, TileArray], tuple[NDArray[np.int64], Call, Call]] = {}
        self._relative: dict[int, NDArray[np.int64]] = {}
        """By address those that compiled code reads."""

    def reach(self, size: int) -> None:
        """The CTAs have so many bytes of shared memory."""
        if not self._table.size:
            self._table = np.zeros(size // BOX_ALIGNMENT + 1, np.int64)
            self._stride = _SOURCE * -(-size // _WORD) if self._follows_words else 0

    def place(self, offset: int) -> int:
        """The number of a place."""
        found = self._places.get(offset)
        if found is None:
            found = self._places[offset] = len(self._places)
            if offset % BOX_ALIGNMENT == 0:
                self._table[offset // BOX_ALIGNMENT] = found + 1
        return found

    @property
    def places(self) -> int:
        """How many places there are."""
        return len(self._places)

    def number(self, array: TileArray) -> int:
        """The number of an array."""
        return self._arrays.setdefault(array, len(self._arrays))

    def tile(self, number: int, coordinates: Sequence[int], cta: Any, offset: int) -> tuple[Op, CopiedTile]:
        """The instruction that copies from a source, and the tile of the box at such coordinates, of which there may be more."""
        op, tile_at, rank = self._sources[number]
        return op, tile_at(tuple(coordinates[:rank]), cta, offset)

    def repetition(self, operation: AsyncOperation) -> ObservedRepetition | None:
        """How compiled code copies other boxes of the same array; None if it cannot."""
        tiles = [] if operation.tiles is None else list(operation.tiles())
        if not tiles:
            return ObservedRepetition()
        if operation.tile_at is None:
            return None
        key, tile = (operation.op.index, tiles[0].array), tiles[0]
        if self._notes_tiles and tile.data != CHUNK:
            return None
        found = self._calls.get(key)
        if found is None:
            words = np.zeros(_BoxesWord.END, np.int64)
            coordinates = _coordinates(operation.op)
            about = address_of(self._table), self.number(tile.array), len(self._sources), coordinates
            words[: _BoxesWord.RELATIVE] = *about, self._stride, self._notes_tiles, -(-tile.size // _WORD)
            self._sources.append((operation.op, operation.tile_at, coordinates))
            ask, note = ((_library().address(name), address_of(words)) for name in ("ask", "note"))
            found = self._calls[key] = words, ask, note
        for each in tiles if self._notes_tiles else ():
            self._note_tile(found[0], each)
        return ObservedRepetition(ask=(found[1],), note=(found[2],), kept=found)

    def _note_tile(self, words: NDArray[np.int64], tile: CopiedTile) -> None:
        """Let compiled code enter the sources of the words of boxes that are copied to such a place."""
        at = _BoxesWord.RELATIVE + tile.offset % BOX_PERIOD // BOX_ALIGNMENT
        if tile.places is not None and tile.offset % BOX_ALIGNMENT == 0 and not words.item(at):
            relative, _ = relative_words(tile.chunks, tile.places, tile.data, words.item(_BoxesWord.COUNT))
            words[at] = address_of(relative)
            self._relative[words.item(at)] = relative
