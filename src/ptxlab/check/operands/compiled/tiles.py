"""Products of tiles that tensor copies have placed: compiled code repeats those of which it knows that nothing is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.operands.compiled.calls import (
    KEPT_FIRST,
    KEPT_LAST,
    RepetitionCalls,
    RepetitionWord,
    is_unknown,
    library_of,
    moved_columns,
    note_column,
)
from ptxlab.check.operands.compiled.cta_words import CtaWord, PlacedWord, TakenWord, placed_at, words_of_pair
from ptxlab.check.operands.compiled.predecessors import Predecessors, is_known, words_of_predecessors
from ptxlab.native import address_of

__all__ = ["RepeatedTiles", "StandingTile", "others_stand", "words_of_tiles"]

_NUMBERS = count(1)
"""Of images, of all launches."""
_WIDTH = 2
"""Words of a predecessor (`_ImagesWord`)."""


class _ImagesWord(IntEnum):
    """The words of images: their number; and those of the tiles in which A and B lie (`TileWord`), of which there are ``COUNT``.

    ``FIRST`` and ``LAST`` are the numbers of the places of the tiles in which A and B begin: both are those of B if A is in tensor memory
    or in registers. From ``BEFORE`` on are the images after which the instruction may take these (`Predecessors`): of each the number, and
    1 if it takes both from the same tiles.
    """

    NUMBER = 0
    FIRST = 1
    LAST = 2
    COUNT = 3
    BEFORE = 4
    TILES = BEFORE + words_of_predecessors(_WIDTH)


class TileWord(IntEnum):
    """The words of a tile: the number of its place, its end, and the number of its array.

    ``BASE`` is the number of the place of the first tile of the same array in the operand, from which on the coordinates count; there are
    ``RANK`` of them, 0 if they may be any.
    """

    PLACE = 0
    STOP = 1
    ARRAY = 2
    BASE = 3
    RANK = 4
    STEPS = 5
    END = 10


class StandingTile(NamedTuple):
    """A tile in which an operand lies: numbers of its place and of its array, its end, and where it lies in its array (`TileWord`)."""

    place: int
    stop: int
    array: int
    base: int
    steps: tuple[int, ...]


def _ask(module: native.Module) -> None:
    """``i64 ask(context, words, lane)``: 0 if there is nothing to say of an execution (`RepetitionWord`)."""
    code = native.Function(module, "ask", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    cta, images = words_of_pair(context, words.word(RepetitionWord.CTA)), words.pointer(RepetitionWord.IMAGES)
    last, first, end = cta.at(words.word(RepetitionWord.ACCUMULATOR)), *_tiles(cta, images, words)
    with code.when(is_unknown(words, cta, last)):
        code.ret(1)
    with code.when(others_stand(code, cta, images.at(8 * _ImagesWord.TILES), images.word(_ImagesWord.COUNT))):
        code.ret(1)
    with code.when(words.word(RepetitionWord.ACCUMULATE).ne(0)):
        together = (
            last.word(TakenWord.FIRST_TILE).eq(first) & last.word(TakenWord.LAST_TILE).eq(end) & words.word(RepetitionWord.KEPT).eq(0)
        )
        moved, overlaps = moved_columns(words, last)
        with code.when((together & moved.gt(words.word(RepetitionWord.A_COLUMNS))) | overlaps):
            code.ret(1)
        before = last.word(TakenWord.IMAGES), together.to("i64")
        with code.when(~is_known(code, images.at(8 * _ImagesWord.BEFORE), before)):
            code.ret(1)
        with code.when(words.pointer(RepetitionWord.RUNS).word(0).ne(0)):
            code.ret(1)
    code.ret(0)


def others_stand(code: native.Function, cta: native.Value, tiles: native.Value, count: native.Value) -> native.Value:
    """Whether others are where tiles stood, of which there are so many (`TileWord`), or these lie elsewhere in their arrays."""
    differs = code.variable("i64", 0)
    with code.loop(count) as i:
        tile = tiles.at((i * TileWord.END) << 3)
        placed, base = (placed_at(cta, tile.word(word)) for word in (TileWord.PLACE, TileWord.BASE))
        differs.set(differs.get() | (placed.word(PlacedWord.STOP) ^ tile.word(TileWord.STOP)))
        differs.set(differs.get() | (placed.word(PlacedWord.ARRAY) ^ tile.word(TileWord.ARRAY)))
        with code.loop(tile.word(TileWord.RANK)) as axis:
            here, there = (each.load("i64", axis + PlacedWord.COORDINATES) for each in (placed, base))
            differs.set(differs.get() | ((here - there) ^ tile.load("i64", axis + TileWord.STEPS)))
    return differs.get().ne(0)


def words_of_tiles(tiles: Sequence[StandingTile]) -> NDArray[np.int64]:
    """Their words, ``[tile, TileWord]``."""
    found = np.zeros((len(tiles), TileWord.END), np.int64)
    for words, tile in zip(found, tiles, strict=True):
        words[: TileWord.STEPS] = *tile[:4], len(tile.steps)
        words[TileWord.STEPS : TileWord.STEPS + len(tile.steps)] = tile.steps
    return found


def _note(module: native.Module) -> None:
    """``i64 note(context, words, lane)``: what such an execution takes becomes the last one."""
    code = native.Function(module, "note", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    cta, images = words_of_pair(context, words.word(RepetitionWord.CTA)), words.pointer(RepetitionWord.IMAGES)
    first, end = _tiles(cta, images, words)
    entered: dict[int, native.Value | int] = {
        TakenWord.IMAGES: images.word(_ImagesWord.NUMBER),
        TakenWord.TILED: 1,
        TakenWord.FIRST_TILE: first,
        TakenWord.LAST_TILE: end,
    }
    last = cta.at(words.word(RepetitionWord.ACCUMULATOR))
    last.set_words(entered)
    note_column(code, words, last)
    code.ret(0)


def _tiles(cta: native.Value, images: native.Value, words: native.Value) -> list[native.Value]:
    """What numbers the tiles in which A and B begin; 0 for a matrix that is taken from a collector buffer."""
    kept, places = words.word(RepetitionWord.KEPT), ((_ImagesWord.FIRST, KEPT_FIRST), (_ImagesWord.LAST, KEPT_LAST))
    return [(kept & bit).eq(0).select(cta.load("i64", images.word(word) + CtaWord.TILES), 0) for word, bit in places]


@cache
def _library() -> native.Library:
    """``ask`` and ``note``, compiled or from the cache."""
    return library_of(_ask, _note)


class RepeatedTiles:
    """Images that compiled code knows, which lie in so many ``tiles``.

    Attributes
    ----------
    number : their number
    """

    __slots__ = ("_before", "_calls", "_keep", "number")

    def __init__(self, tiles: int) -> None:
        words = np.zeros(_ImagesWord.TILES + tiles * TileWord.END, np.int64)
        self._keep, self.number = words, next(_NUMBERS)
        words[_ImagesWord.NUMBER], words[_ImagesWord.COUNT] = self.number, tiles
        self._before = Predecessors(words[_ImagesWord.BEFORE : _ImagesWord.TILES], _WIDTH)
        self._calls: RepetitionCalls | None = None

    def stand(self, first: int, last: int, tiles: Sequence[StandingTile]) -> None:
        """The tiles in which A and B lie, and the numbers of the places of those in which they begin."""
        self._keep[_ImagesWord.FIRST], self._keep[_ImagesWord.LAST] = first, last
        self._keep[_ImagesWord.TILES :] = words_of_tiles(tiles).reshape(-1)

    @property
    def calls(self) -> RepetitionCalls:
        """The calls for each accumulator; the functions are compiled when they are first asked for."""
        if self._calls is None:
            self._calls = RepetitionCalls(address_of(self._keep), _library().address("ask"), _library().address("note"))
        return self._calls

    def expect(self, before: int, together: bool) -> None:
        """The instruction may take them after others with this number; ``together``: from the same tiles, too."""
        self._before.add(before, 0)
        if together:
            self._before.add(before, 1)
