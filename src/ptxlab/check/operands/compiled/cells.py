"""Copies to tensor memory that compiled code repeats: it enters from where the cells come, and what has been copied there."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.operands._image import SHIFT
from ptxlab.check.operands.compiled.cta_words import MOST_TILES, CtaWord, PlacedWord, placed_at, words_of_pair
from ptxlab.check.operands.compiled.matrices import MOST_ADDED
from ptxlab.check.operands.words.images import form_of
from ptxlab.engine.repetitions import Call
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.native import address_of

__all__ = ["IN_GLOBAL", "WORDS_OF_CHUNK", "CellCalls", "CopiedCells", "SourceTile"]

IN_GLOBAL = 1 << 62
"""Added to addresses, so that they are not taken for words of tiles."""
WORDS_OF_CHUNK = 4


class _CallWord(IntEnum):
    """The words of a call: the number of the CTA in its pair, -1 if there is none; the host address of its shared memory.

    ``PLACE``, ``STOP`` and ``ARRAY`` are those of the tile (`SourceTile`); the first is -1 if the source is in none. ``FIRST`` and ``END``
    are the first byte of the source, and its end. ``CELLS`` is the number of cells that are written; then come the addresses of their
    numbers, of the numbers of the words that go there, and of what is added to the code of the first word of the tile. ``SOURCES`` is the
    number of words of which the sources are followed, all of the source or none; then come the addresses of their numbers, and of their
    distances from the first one. ``KNOWN`` is 1 if these sources are known, and ``FORM`` the form of the first one.
    """

    CTA = 0
    SHARED = 1
    PLACE = 2
    STOP = 3
    ARRAY = 4
    FIRST = 5
    END = 6
    CELLS = 7
    CELL_NUMBERS = 8
    CELL_WORDS = 9
    ADDED = 10
    SOURCES = 11
    WORDS = 12
    AWAY = 13
    KNOWN = 14
    FORM = 15


class SourceTile(NamedTuple):
    """The tile in which all of a source is: the number of its place, its end, and the number of its array."""

    place: int
    stop: int
    array: int


class CopiedCells(NamedTuple):
    """What a copy to tensor memory does in a CTA.

    Attributes
    ----------
    first, end : the first byte of the source, and its end
    cells, words : the cells that are written, and the words of shared memory that go there
    tile, added : the tile, and of each cell the code less that of the first word of the tile; if the source is in a tile
    followed, sources : all words of the source, and from where they come; empty if that is not followed
    """

    first: int
    end: int
    cells: NDArray[np.int64]
    words: NDArray[np.int64]
    tile: SourceTile | None
    added: NDArray[np.int64]
    followed: NDArray[np.int64]
    sources: NDArray[np.int64]


def _ask(module: native.Module) -> None:
    """``i64 ask(context, words, lane)``: 0 if the source is in the same tile, and its words come from there, moved as a whole."""
    code = native.Function(module, "ask", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    cta = words_of_pair(context, words.word(_CallWord.CTA))
    with code.when(cta.word(CtaWord.CELL_CODES).eq(0)):
        code.ret(1)
    other = code.variable("i1", 0)
    with code.when(words.word(_CallWord.PLACE).lt(0)) as otherwise:
        other.set(cta.word(CtaWord.BEYOND).ne(0))
        with code.loop(code.const("i64", MOST_TILES), entered=True) as i:
            tile = placed_at(cta, i)
            under = tile.word(PlacedWord.START).ult(words.word(_CallWord.END))
            other.set(other.get() | (under & tile.word(PlacedWord.STOP).ugt(words.word(_CallWord.FIRST))))
        otherwise()
        tile = placed_at(cta, words.word(_CallWord.PLACE))
        same = tile.word(PlacedWord.STOP).eq(words.word(_CallWord.STOP)) & tile.word(PlacedWord.ARRAY).eq(words.word(_CallWord.ARRAY))
        other.set(~same)
    with code.when(words.word(_CallWord.SOURCES).ne(0)):
        sources, numbers = cta.pointer(CtaWord.WORD_SOURCES), words.pointer(_CallWord.WORDS)
        first, away = sources.load("i64", numbers.load("i64")), words.pointer(_CallWord.AWAY)
        known = first.gt(NO_SOURCE + MOST_ADDED) & form_of(first).eq(words.word(_CallWord.FORM))
        other.set(other.get() | ~words.word(_CallWord.KNOWN).ne(0).select(known, first.eq(0)))
        with code.loop(words.word(_CallWord.SOURCES), entered=True) as i:
            distance = sources.load("i64", numbers.load("i64", i)) - first
            other.set(other.get() | distance.ne(away.load("i64", i)))
    code.ret(other.get().to("i64"))


def _note(module: native.Module) -> None:
    """``i64 note(context, words, lane)``: what such a copy writes comes from there."""
    code = native.Function(module, "note", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    cta = words_of_pair(context, words.word(_CallWord.CTA))
    codes, values, sources = (cta.pointer(word) for word in (CtaWord.CELL_CODES, CtaWord.CELL_VALUES, CtaWord.CELL_SOURCES))
    cells, numbers, added = (words.pointer(word) for word in (_CallWord.CELL_NUMBERS, _CallWord.CELL_WORDS, _CallWord.ADDED))
    shared, in_tile = words.pointer(_CallWord.SHARED), words.word(_CallWord.PLACE).ge(0)
    tile = placed_at(cta, in_tile.select(words.word(_CallWord.PLACE), 0))
    first = tile.word(PlacedWord.NUMBER) * (WORDS_OF_CHUNK << SHIFT)
    source = code.variable("i64", 0)
    with code.loop(words.word(_CallWord.CELLS), entered=True) as i:
        cell, word = cells.load("i64", i), numbers.load("i64", i)
        with code.when(words.word(_CallWord.SOURCES).ne(0)):
            source.set(cta.pointer(CtaWord.WORD_SOURCES).load("i64", word))
        found = source.get()
        in_global = found.gt(NO_SOURCE).select(found + IN_GLOBAL, 0)
        codes.store(in_tile.select(first + added.load("i64", i), in_global), cell)
        values.store(shared.load("i32", word), cell)
        sources.store(found, cell)
    code.ret(0)


@cache
def _library() -> native.Library:
    """``ask`` and ``note``, compiled or from the cache."""
    module = native.Module()
    _ask(module)
    _note(module)
    return native.compile_ir(module.text(), ["ask", "note"], opt=1, light=True)


class CellCalls:
    """The calls with which compiled code follows copies to tensor memory; one for each launch."""

    def __init__(self) -> None:
        self._calls: dict[object, tuple[list[NDArray[np.int64]], Call, Call]] = {}

    def of(self, copied: CopiedCells, cta: int, shared: int) -> tuple[Call, Call] | None:
        """The calls of ``ask`` and ``note`` (`_CallWord`); None if compiled code cannot tell whether other words come from there.

        ``shared`` is the host address of the shared memory.
        """
        sources, tile = copied.sources, copied.tile
        known = bool((sources > NO_SOURCE + MOST_ADDED).all()) and sources.size > 0
        if not known and sources.any():
            return None
        arrays = copied.cells, copied.words, copied.added, copied.followed, sources - sources[:1]
        about = copied.first, copied.end, tile, *(array.tobytes() for array in arrays), known and form_of(sources.item(0)), cta, shared
        found = self._calls.get(about)
        if found is None:
            cells, words, added, followed, away = map(address_of, arrays)
            place = (-1, 0, 0) if tile is None else tile
            moved = len(sources), followed, away, known, form_of(sources.item(0)) if known else 0
            about_cells = copied.first, copied.end, len(copied.cells), cells, words, added
            made = np.array([cta, shared, *place, *about_cells, *moved], np.int64)
            ask, note = ((_library().address(name), address_of(made)) for name in ("ask", "note"))
            found = self._calls[about] = [made, *arrays], ask, note
        return found[1:]
