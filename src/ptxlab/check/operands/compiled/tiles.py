"""Products of tiles that tensor copies have placed: compiled code repeats those of which it knows that nothing is wrong with them."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.operands.compiled.cta_words import CtaWord, TakenWord
from ptxlab.engine.context import Word
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.engine.repetitions import Call

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


class _RepetitionWord(IntEnum):
    """The words with which compiled code repeats an instruction.

    They are the address of the words of its images; where the words of the accumulator are in those of the CTA, in bytes; the columns of D;
    1 if it adds to D; and the address of a word that is not 0 if executions take what others have taken.
    """

    IMAGES = 0
    ACCUMULATOR = 1
    COLUMNS = 2
    ACCUMULATE = 3
    RUNS = 4
    END = 5


def _ask(module: native.Module) -> None:
    """``i64 ask(context, words, lane)``: 0 if there is nothing to say of an execution (`_RepetitionWord`)."""
    code = native.Function(module, "ask", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    cta, images = context.pointer(Word.OPERANDS_TAKEN), words.pointer(_RepetitionWord.IMAGES)
    with code.when(cta.eq(0)):
        code.ret(1)
    last, first, end = cta.at(words.word(_RepetitionWord.ACCUMULATOR)), *_tiles(cta, images)
    known = images.word(_ImagesWord.ARRAYS).eq(cta.word(CtaWord.ARRAYS)) & first.ne(0) & end.ne(0)
    known = known & last.word(TakenWord.COLUMNS).uge(words.word(_RepetitionWord.COLUMNS))
    with code.when(~known):
        code.ret(1)
    with code.when(words.word(_RepetitionWord.ACCUMULATE).ne(0)):
        follows = images.word(_ImagesWord.FROM).eq(last.word(TakenWord.IMAGES))
        together = last.word(TakenWord.FIRST_TILE).eq(first) & last.word(TakenWord.LAST_TILE).eq(end)
        with code.when(~follows | (together & images.word(_ImagesWord.TOGETHER).eq(0))):
            code.ret(1)
        with code.when(words.pointer(_RepetitionWord.RUNS).word(0).ne(0)):
            code.ret(1)
    code.ret(0)


def _note(module: native.Module) -> None:
    """``i64 note(context, words, lane)``: what such an execution takes becomes the last one."""
    code = native.Function(module, "note", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    cta, images = context.pointer(Word.OPERANDS_TAKEN), words.pointer(_RepetitionWord.IMAGES)
    first, end = _tiles(cta, images)
    entered: dict[int, native.Value | int] = {
        TakenWord.IMAGES: images.word(_ImagesWord.NUMBER),
        TakenWord.TILED: 1,
        TakenWord.FIRST_TILE: first,
        TakenWord.LAST_TILE: end,
    }
    cta.at(words.word(_RepetitionWord.ACCUMULATOR)).set_words(entered)
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
        self._calls: dict[tuple[int, ...], tuple[NDArray[np.int64], Call, Call]] = {}

    def stand(self, arrays: int, places: tuple[int, ...]) -> None:
        """Where the tiles are (`CtaWord.TILES`), if there are tiles of these arrays."""
        self._words[_ImagesWord.ARRAYS] = arrays + 1
        for word, place in zip((_ImagesWord.FIRST, _ImagesWord.LAST), places, strict=True):
            self._words[word] = 8 * (CtaWord.TILES + place)

    def expect(self, before: int, together: bool) -> None:
        """The instruction may take them after others with this number; ``together``: from the same tiles, too."""
        self._words[_ImagesWord.FROM], self._words[_ImagesWord.TOGETHER] = before, together

    def calls(self, accumulator: int, columns: int, accumulate: bool, runs: int) -> tuple[Call, Call]:
        """The calls of ``ask`` and ``note`` (`_RepetitionWord`); ``accumulator`` is its number."""
        about = accumulator, columns, accumulate, runs
        found = self._calls.get(about)
        if found is None:
            place = 8 * (CtaWord.ACCUMULATORS + accumulator * TakenWord.END)
            words = np.array([address_of(self._keep), place, columns, accumulate, runs], np.int64)
            ask, note = ((_library().address(name), address_of(words)) for name in ("ask", "note"))
            found = self._calls[about] = words, ask, note
        return found[1:]
