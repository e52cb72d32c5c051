"""Copies to tensor memory that compiled code repeats: it enters from where the cells come, and what has been copied there."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.operands._image import SHIFT
from ptxlab.check.operands.compiled.calls import library_of
from ptxlab.check.operands.compiled.cta_words import MOST_TILES, CtaWord, PlacedWord, base_of, placed_at, words_of_pair
from ptxlab.check.operands.compiled.matrices import MOST_ADDED
from ptxlab.check.operands.compiled.tiles import StandingTile, others_stand, words_of_tiles
from ptxlab.check.operands.words.images import form_of
from ptxlab.engine.repetitions import Call
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.isa.repeating import shared_base
from ptxlab.machine.observe.observer import ObservedRepetition
from ptxlab.native import BoundedCache, address_of

__all__ = ["IN_GLOBAL", "WORDS_OF_CHUNK", "CellCalls", "CopiedCells"]

IN_GLOBAL = 1 << 62
"""Added to addresses, so that they are not taken for words of tiles."""
WORDS_OF_CHUNK = 4


class _CallWord(IntEnum):
    """The words of a call: the number of the CTA in its pair, -1 if there is none; the number of the base of its shared memory.

    ``TILES`` is the number of tiles in which the source is, and ``TILE_WORDS`` the address of their words
    (`ptxlab.check.operands.compiled.tiles.TileWord`). ``FIRST`` and ``END`` are the first byte of the source, and its end. ``CELLS`` is the
    number of cells that are written; then come the addresses of their numbers, of the numbers of the words that go there, of the places of
    their tiles, and of what is added to the codes of the first words of these. ``SOURCES`` is the number of words of which the sources are
    followed, all of the source or none; then come the addresses of their numbers, and of their distances from the first one. ``KNOWN`` is 1
    if these sources are known, and ``FORM`` the form of the first one.
    """

    CTA = 0
    SHARED = 1
    TILES = 2
    TILE_WORDS = 3
    FIRST = 4
    END = 5
    CELLS = 6
    CELL_NUMBERS = 7
    CELL_WORDS = 8
    PLACES = 9
    ADDED = 10
    SOURCES = 11
    WORDS = 12
    AWAY = 13
    KNOWN = 14
    FORM = 15


class CopiedCells(NamedTuple):
    """What a copy to tensor memory does in a CTA.

    Attributes
    ----------
    first, end : the first byte of the source, and its end
    cells, words : the cells that are written, and the words of shared memory that go there
    tiles : those in which the source is, all of it or nothing
    places, added : of each cell the place of the tile, and its code less that of the first word of the tile; 0 without tiles
    followed, sources : all words of the source, and from where they come; empty if that is not followed
    """

    first: int
    end: int
    cells: NDArray[np.int64]
    words: NDArray[np.int64]
    tiles: Sequence[StandingTile]
    places: NDArray[np.int64]
    added: NDArray[np.int64]
    followed: NDArray[np.int64]
    sources: NDArray[np.int64]


def _ask(module: native.Module) -> None:
    """``i64 ask(context, words, lane)``: 0 if the source is in such tiles, and its words come from there, moved as a whole."""
    code = native.Function(module, "ask", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    cta = words_of_pair(context, words.word(_CallWord.CTA))
    with code.when(cta.word(CtaWord.CELL_CODES).eq(0)):
        code.ret(1)
    other = code.variable("i1", 0)
    with code.when(words.word(_CallWord.TILES).eq(0)) as otherwise:
        other.set(cta.word(CtaWord.BEYOND).ne(0))
        with code.loop(code.const("i64", MOST_TILES), entered=True) as i:
            tile = placed_at(cta, i)
            under = tile.word(PlacedWord.START).ult(words.word(_CallWord.END))
            other.set(other.get() | (under & tile.word(PlacedWord.STOP).ugt(words.word(_CallWord.FIRST))))
        otherwise()
        other.set(others_stand(code, cta, words.pointer(_CallWord.TILE_WORDS), words.word(_CallWord.TILES)))
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
    cells, numbers = words.pointer(_CallWord.CELL_NUMBERS), words.pointer(_CallWord.CELL_WORDS)
    places, added = words.pointer(_CallWord.PLACES), words.pointer(_CallWord.ADDED)
    shared, in_tiles = base_of(context, words.word(_CallWord.SHARED)), words.word(_CallWord.TILES).ne(0)
    source = code.variable("i64", 0)
    with code.loop(words.word(_CallWord.CELLS), entered=True) as i:
        cell, word = cells.load("i64", i), numbers.load("i64", i)
        with code.when(words.word(_CallWord.SOURCES).ne(0)):
            source.set(cta.pointer(CtaWord.WORD_SOURCES).load("i64", word))
        found = source.get()
        in_global = found.gt(NO_SOURCE).select(found + IN_GLOBAL, 0)
        first = placed_at(cta, places.load("i64", i)).word(PlacedWord.NUMBER) * (WORDS_OF_CHUNK << SHIFT)
        codes.store(in_tiles.select(first + added.load("i64", i), in_global), cell)
        values.store(shared.load("i32", word), cell)
        sources.store(found, cell)
    code.ret(0)


@cache
def _library() -> native.Library:
    """``ask`` and ``note``, compiled or from the cache."""
    return library_of(_ask, _note)


class CellCalls:
    """The calls with which compiled code follows copies to tensor memory; one for each launch."""

    def __init__(self) -> None:
        self._calls: BoundedCache[object, tuple[list[NDArray[np.int64]], Call, Call]] = BoundedCache(256)

    def of(self, copied: CopiedCells, cta: int) -> ObservedRepetition | None:
        """The calls of ``ask`` and ``note`` (`_CallWord`); None if compiled code cannot tell whether other words come from there."""
        sources = copied.sources
        known = bool((sources > NO_SOURCE + MOST_ADDED).all()) and sources.size > 0
        if not known and sources.any():
            return None
        arrays = copied.cells, copied.words, copied.places, copied.added, copied.followed, sources - sources[:1]
        form = form_of(sources.item(0)) if known else 0
        about = copied.first, copied.end, *copied.tiles, *(array.tobytes() for array in arrays), known, form, cta
        found = self._calls.get(about)
        if found is None:
            tiles = words_of_tiles(copied.tiles)
            cells, words, places, added, followed, away = map(address_of, arrays)
            source = len(copied.tiles), address_of(tiles), copied.first, copied.end
            written = len(copied.cells), cells, words, places, added
            made = np.array([cta, shared_base(max(cta, 0)), *source, *written, len(sources), followed, away, known, form], np.int64)
            ask, note = ((_library().address(name), address_of(made)) for name in ("ask", "note"))
            found = self._calls[about] = [made, tiles, *arrays], ask, note
        keep, ask, note = found
        return ObservedRepetition(ask=(ask,), note=(note,), kept=keep)
