"""Products of tiles that tensor copies have placed: compiled code repeats those of which it knows that nothing is wrong with them."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from itertools import count

import numpy as np

from ptxlab import native
from ptxlab.check.operands.compiled.calls import RepetitionCalls, RepetitionWord
from ptxlab.check.operands.compiled.cta_words import CtaWord, TakenWord
from ptxlab.engine.context import Word
from ptxlab.native import address_of

__all__ = ["RepeatedTiles"]

_NUMBERS = count(1)
"""Of images, of all launches."""


class _ImagesWord(IntEnum):
    """The words of images: their number; 1 more than `SharedTiles.arrays`; and where the words of the tiles are in those of the CTA.

    ``FROM`` is the number of images after which the instruction may take these, -1 if there are none; ``TOGETHER`` is 1 if it may take
    them from the same tiles.
    """

    NUMBER = 0
    ARRAYS = 1
    FIRST = 2
    LAST = 3
    FROM = 4
    TOGETHER = 5
    END = 6


def _ask(module: native.Module) -> None:
    """``i64 ask(context, words, lane)``: 0 if there is nothing to say of an execution (`RepetitionWord`)."""
    code = native.Function(module, "ask", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    cta, images = context.pointer(Word.OPERANDS_TAKEN), words.pointer(RepetitionWord.IMAGES)
    with code.when(cta.eq(0)):
        code.ret(1)
    last, first, end = cta.at(words.word(RepetitionWord.ACCUMULATOR)), *_tiles(cta, images)
    known = images.word(_ImagesWord.ARRAYS).eq(cta.word(CtaWord.ARRAYS)) & first.ne(0) & end.ne(0)
    known = known & last.word(TakenWord.COLUMNS).uge(words.word(RepetitionWord.COLUMNS))
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


def _tiles(cta: native.Value, images: native.Value) -> list[native.Value]:
    """What numbers the tiles."""
    return [cta.at(images.word(word)).word(0) for word in (_ImagesWord.FIRST, _ImagesWord.LAST)]


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
        words = np.zeros(_ImagesWord.END, np.int64)
        self._keep, self._words, self.number = words, words.data, next(_NUMBERS)
        words[_ImagesWord.NUMBER], words[_ImagesWord.FROM] = self.number, -1
        self._calls: RepetitionCalls | None = None

    def stand(self, arrays: int, places: tuple[int, ...]) -> None:
        """Where the tiles are (`CtaWord.TILES`), if there are tiles of these arrays."""
        self._words[_ImagesWord.ARRAYS] = arrays + 1
        for word, place in zip((_ImagesWord.FIRST, _ImagesWord.LAST), places, strict=True):
            self._words[word] = 8 * (CtaWord.TILES + place)

    @property
    def calls(self) -> RepetitionCalls:
        """The calls for each accumulator; the functions are compiled when they are first asked for."""
        if self._calls is None:
            self._calls = RepetitionCalls(address_of(self._keep), _library().address("ask"), _library().address("note"))
        return self._calls

    def expect(self, before: int, together: bool) -> None:
        """The instruction may take them after others with this number; ``together``: from the same tiles, too."""
        self._words[_ImagesWord.FROM], self._words[_ImagesWord.TOGETHER] = before, together
