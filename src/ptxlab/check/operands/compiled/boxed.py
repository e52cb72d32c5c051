"""Products of tiles in a launch that follows words, too: compiled code asks whether tensor copies have brought all operands."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.operands.compiled.calls import library_of
from ptxlab.check.operands.compiled.cta_words import CtaWord, TakenWord, taken_at, words_of_pair
from ptxlab.engine.repetitions import Call
from ptxlab.native import address_of

__all__ = ["BoxedCalls"]


class _BoxedWord(IntEnum):
    """The words of a call: the number of the accumulator; the number of the CTA in its pair, -1 if there is none.

    ``RUNS`` is the address of a word that is not 0 if executions take what others have taken. From ``CHUNKS`` on are the first chunks of
    the operands, of which there are ``COUNT``.
    """

    ACCUMULATOR = 0
    CTA = 1
    RUNS = 2
    COUNT = 3
    CHUNKS = 4


def _ask(module: native.Module) -> None:
    """``i64 ask(context, words, lane)``: 0 if boxes have brought the operands, and the product before has taken none that threads have."""
    code = native.Function(module, "ask", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    cta = words_of_pair(context, words.word(_BoxedWord.CTA))
    last, boxed = taken_at(cta, words.word(_BoxedWord.ACCUMULATOR)), cta.pointer(CtaWord.BOXED)
    by_threads = last.word(TakenWord.NUMBER) | last.word(TakenWord.FOUND) | words.pointer(_BoxedWord.RUNS).word(0)
    others = code.variable("i1", by_threads.ne(0))
    with code.loop(words.word(_BoxedWord.COUNT), entered=True) as i:
        chunk = words.load("i64", i + _BoxedWord.CHUNKS)
        others.set(others.get() | boxed.load("i8", chunk).eq(0))
    code.ret(others.get().to("i64"))


@cache
def _library() -> native.Library:
    """``ask``, compiled or from the cache."""
    return library_of(_ask, exports=("ask",))


class BoxedCalls:
    """The calls that ask for operands with certain first chunks; one for each launch."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._calls: dict[tuple[int, ...], tuple[NDArray[np.int64], Call]] = {}

    def of(self, accumulator: int, cta: int, chunks: Sequence[int]) -> Call:
        """The call for an accumulator with a number, in the CTA of a pair (`_BoxedWord`)."""
        about = accumulator, cta, *chunks
        found = self._calls.get(about)
        if found is None:
            words = np.array([accumulator, cta, self._runs, len(chunks), *chunks], np.int64)
            found = self._calls[about] = words, (_library().address("ask"), address_of(words))
        return found[1]
