"""Products of tiles that tensor copies have placed: compiled code repeats those of which it knows that nothing is wrong with them."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from itertools import chain, count

import numpy as np

from ptxlab import native
from ptxlab.check.operands.compiled.calls import RepetitionCalls, RepetitionWord
from ptxlab.check.operands.compiled.cta_words import MOST_TILES, CtaWord, PlacedWord, TakenWord, placed_at
from ptxlab.engine.context import Word
from ptxlab.native import address_of

__all__ = ["RepeatedTiles"]

_TILES = 2
_NUMBERS = count(1)
"""Of images, of all launches."""


class _ImagesWord(IntEnum):
    """The words of images: their number; and those of the tiles of A and B (`_TileWord`), which are the same if A is in registers.

    ``FROM`` is the number of images after which the instruction may take these, -1 if there are none; ``TOGETHER`` is 1 if it may take
    them from the same tiles.
    """

    NUMBER = 0
    FROM = 1
    TOGETHER = 2
    TILES = 3


class _TileWord(IntEnum):
    """The words of a tile: the number of its place, its end, and the number of its array."""

    PLACE = 0
    STOP = 1
    ARRAY = 2
    END = 3


def _ask(module: native.Module) -> None:
    """``i64 ask(context, words, lane)``: 0 if there is nothing to say of an execution (`RepetitionWord`)."""
    code = native.Function(module, "ask", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    cta, images = context.pointer(Word.OPERANDS_TAKEN), words.pointer(RepetitionWord.IMAGES)
    with code.when(cta.eq(0)):
        code.ret(1)
    last, first, end = cta.at(words.word(RepetitionWord.ACCUMULATOR)), *_tiles(cta, images)
    known = last.word(TakenWord.COLUMNS).uge(words.word(RepetitionWord.COLUMNS))
    for tile in _of_images(images):
        placed = placed_at(cta, tile.word(_TileWord.PLACE))
        known = known & placed.word(PlacedWord.STOP).eq(tile.word(_TileWord.STOP))
        known = known & placed.word(PlacedWord.ARRAY).eq(tile.word(_TileWord.ARRAY))
    with code.when(~known):
        code.ret(1)
    with code.when(words.word(RepetitionWord.ACCUMULATE).ne(0)):
        follows = images.word(_ImagesWord.FROM).eq(last.word(TakenWord.IMAGES))
        together = last.word(TakenWord.FIRST_TILE).eq(first) & last.word(TakenWord.LAST_TILE).eq(end)
        with code.when(~follows | (together & images.word(_ImagesWord.TOGETHER).eq(0))):
            code.ret(1)
        with code.when(words.pointer(RepetitionWord.RUNS).word(0).ne(0)):
            code.ret(1)
    code.ret(0)


def _note(module: native.Module) -> None:
    """``i64 note(context, words, lane)``: what such an execution takes becomes the last one."""
    code = native.Function(module, "note", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    cta, images = context.pointer(Word.OPERANDS_TAKEN), words.pointer(RepetitionWord.IMAGES)
    first, end = _tiles(cta, images)
    entered: dict[int, native.Value | int] = {
        TakenWord.IMAGES: images.word(_ImagesWord.NUMBER),
        TakenWord.TILED: 1,
        TakenWord.FIRST_TILE: first,
        TakenWord.LAST_TILE: end,
    }
    cta.at(words.word(RepetitionWord.ACCUMULATOR)).set_words(entered)
    code.ret(0)


def _of_images(images: native.Value) -> list[native.Value]:
    """The words of the two tiles."""
    return [images.at(8 * (_ImagesWord.TILES + number * _TileWord.END)) for number in range(_TILES)]


def _tiles(cta: native.Value, images: native.Value) -> list[native.Value]:
    """What numbers the tiles."""
    return [cta.load("i64", tile.word(_TileWord.PLACE) + CtaWord.TILES) for tile in _of_images(images)]


@cache
def _library() -> native.Library:
    """``ask`` and ``note``, compiled or from the cache."""
    module = native.Module()
    _ask(module)
    _note(module)
    return native.compile_ir(module.text(), ["ask", "note"], opt=1, light=True)


class RepeatedTiles:
    """Images that compiled code knows.

    Attributes
    ----------
    number : their number
    """

    __slots__ = ("_calls", "_keep", "_words", "number")

    def __init__(self) -> None:
        words = np.zeros(_ImagesWord.TILES + _TILES * _TileWord.END, np.int64)
        self._keep, self._words, self.number = words, words.data, next(_NUMBERS)
        words[_ImagesWord.NUMBER], words[_ImagesWord.FROM] = self.number, -1
        self._calls: RepetitionCalls | None = None

    def stand(self, *tiles: tuple[int, int, int]) -> bool:
        """The tiles of the first and of the last operand: of each the number of its place, its end, and the number of its array.

        The result is False if compiled code knows nothing of such a place.
        """
        if max(place for place, _, _ in tiles) >= MOST_TILES:
            return False
        for word, value in enumerate(chain.from_iterable(tiles), _ImagesWord.TILES):
            self._words[word] = value
        return True

    @property
    def calls(self) -> RepetitionCalls:
        """The calls for each accumulator; the functions are compiled when they are first asked for."""
        if self._calls is None:
            self._calls = RepetitionCalls(address_of(self._keep), _library().address("ask"), _library().address("note"))
        return self._calls

    def expect(self, before: int, together: bool) -> None:
        """The instruction may take them after others with this number; ``together``: from the same tiles, too."""
        self._words[_ImagesWord.FROM], self._words[_ImagesWord.TOGETHER] = before, together
