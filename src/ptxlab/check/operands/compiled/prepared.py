"""Products whose operands `cp.async.bulk` has copied to shared memory, which compiled code repeats.

The host may have arranged such bytes for the descriptor, so their layout is not compared. Compiled code asks whether the operands still are
such bytes, and notes the operands of the last product of an accumulator, whose numbers of rows must agree.
"""

from __future__ import annotations

from collections.abc import Container, Hashable
from enum import IntEnum
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.operands.compiled.calls import library_of
from ptxlab.check.operands.compiled.cta_words import MOST_TILES, CtaWord, PlacedWord, TakenWord, placed_at, taken_at, words_of_pair
from ptxlab.check.operands.compiled.predecessors import Predecessors, is_known, words_of_predecessors
from ptxlab.engine.repetitions import Call
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.native import address_of

__all__ = ["Prepared", "PreparedOperands"]

_WORDS_OF_CHUNK = 4
_Operands = tuple[MatrixOperand, ...]


class _PreparedWord(IntEnum):
    """The words of a call: the number of the operands, and the address of the table of those that may come before (`Predecessors`).

    Then follow the number of the accumulator; the columns of D; 1 if the product is added to it; the address of a word that is not 0 if
    executions take what others have taken; the number of the CTA in its pair, -1 if there is none; and the first chunks of the first and
    of the last operand.
    """

    NUMBER = 0
    BEFORE = 1
    ACCUMULATOR = 2
    COLUMNS = 3
    ACCUMULATE = 4
    RUNS = 5
    CTA = 6
    FIRST = 7
    LAST = 8


def _last(context: native.Value, words: native.Value) -> tuple[native.Value, native.Value]:
    """The words of the CTA and those of the accumulator."""
    cta = words_of_pair(context, words.word(_PreparedWord.CTA))
    return cta, taken_at(cta, words.word(_PreparedWord.ACCUMULATOR))


def _ask(module: native.Module) -> None:
    """``i64 ask(context, words, lane)``: 0 if bulk copies have written the operands, and those of the last product agree."""
    code = native.Function(module, "ask", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    cta, last = _last(context, words)
    others = words.pointer(_PreparedWord.RUNS).word(0) | cta.word(CtaWord.BEYOND)
    for word in (TakenWord.NUMBER, TakenWord.FOUND, TakenWord.IMAGES, TakenWord.TILED):
        others = others | last.word(word)
    found, prepared = code.variable("i64", others), cta.pointer(CtaWord.PREPARED)
    with code.loop(MOST_TILES, entered=True) as i:
        found.set(found.get() | placed_at(cta, i).word(PlacedWord.STOP))
    missing = last.word(TakenWord.COLUMNS).ult(words.word(_PreparedWord.COLUMNS))
    for place in (_PreparedWord.FIRST, _PreparedWord.LAST):
        missing = missing | prepared.load("i8", words.word(place) * _WORDS_OF_CHUNK).eq(0)
    with code.when(found.get().ne(0) | missing):
        code.ret(1)
    with code.when(words.word(_PreparedWord.ACCUMULATE).ne(0)):
        known = is_known(code, words.pointer(_PreparedWord.BEFORE), (last.word(TakenWord.PREPARED),))
        with code.when(~known):
            code.ret(1)
    code.ret(0)


def _note(module: native.Module) -> None:
    """``i64 note(context, words, lane)``: these operands become the last ones of the accumulator."""
    code = native.Function(module, "note", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    _last(context, words)[1].set_word(TakenWord.PREPARED, words.word(_PreparedWord.NUMBER))
    code.ret(0)


@cache
def _library() -> native.Library:
    """``ask`` and ``note``, compiled or from the cache."""
    return library_of(_ask, _note)


class Prepared:
    """The operands of a product, with a number."""

    __slots__ = ("_calls", "_table", "before", "number", "operands")

    def __init__(self, operands: _Operands, number: int) -> None:
        self.operands, self.number = operands, number
        self._table: NDArray[np.int64] = np.zeros(words_of_predecessors(1), np.int64)
        self.before = Predecessors(self._table, 1)
        self._calls: dict[Hashable, tuple[NDArray[np.int64], Call, Call]] = {}

    def calls(self, accumulator: int, columns: int, accumulate: bool, runs: int, cta: int) -> tuple[Call, Call]:
        """The calls of ``ask`` and ``note`` (`_PreparedWord`)."""
        about = accumulator, columns, accumulate, runs, cta
        found = self._calls.get(about)
        if found is None:
            chunks = (operand.chunks.item(0) for operand in (self.operands[0], self.operands[-1]))
            words = np.array([self.number, address_of(self._table), *about, *chunks], np.int64)
            ask, note = ((_library().address(name), address_of(words)) for name in ("ask", "note"))
            found = self._calls[about] = words, ask, note
        return found[1:]


class PreparedOperands:
    """Those of all products; one for each launch."""

    def __init__(self) -> None:
        self._numbers: dict[_Operands, int] = {}
        self._all: list[Prepared] = []

    def number(self, operands: _Operands) -> int:
        """The number of operands, 0 if they have none."""
        return self._numbers.get(operands, 0)

    def of(self, number: int) -> _Operands:
        """The operands with a number."""
        return self._all[number - 1].operands

    def add(self, operands: _Operands, alike: Container[tuple[_Operands, _Operands]]) -> Prepared:
        """The operands of a product; those that agree with them may come before: ``alike`` has pairs of which none has fewer rows."""
        number = self._numbers.setdefault(operands, len(self._all) + 1)
        if number > len(self._all):
            self._all.append(Prepared(operands, number))
        found = self._all[number - 1]
        for each in self._all:
            if (each.operands, operands) in alike:
                found.before.add(each.number)
        return found
