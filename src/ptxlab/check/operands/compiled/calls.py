"""The calls with which compiled code compares what repeated products take, before and after it repeats them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.operands.compiled.cta_words import CtaWord, TakenWord
from ptxlab.native import Library, Module, address_of, compile_ir

if TYPE_CHECKING:
    from ptxlab.engine.repetitions import Call
    from ptxlab.native import Function, Value

__all__ = ["KEPT_FIRST", "KEPT_LAST", "RepetitionCalls", "RepetitionWord", "is_unknown", "library_of", "moved_columns", "note_column"]


class RepetitionWord(IntEnum):
    """The words with which compiled code repeats an instruction.

    They are the address of the words of its images; where the words of the accumulator are in those of the CTA, in bytes; the columns of D;
    1 if it adds to D; the address of a word that is not 0 if executions take what others have taken; and of an A in tensor memory 1 more
    than the first column, and the number of columns. ``CTA`` is -1 if the images are in the shared memory of the CTA that executes the
    instruction, else the number of the CTA in its pair. ``KEPT`` says which operands the instruction takes from a collector buffer:
    `KEPT_FIRST` and `KEPT_LAST`.
    """

    IMAGES = 0
    ACCUMULATOR = 1
    COLUMNS = 2
    ACCUMULATE = 3
    RUNS = 4
    A_COLUMN = 5
    A_COLUMNS = 6
    CTA = 7
    KEPT = 8
    END = 9


KEPT_FIRST, KEPT_LAST = 1, 2


def library_of(*writers: Callable[[Module], None], exports: tuple[str, ...] = ("ask", "note")) -> Library:
    """The functions that ``writers`` write into one module, compiled or from the cache."""
    module = Module()
    for write in writers:
        write(module)
    return compile_ir(module.finish(), exports, opt=1, light=True)


def is_unknown(words: Value, cta: Value, last: Value) -> Value:
    """Whether D has more columns than are known of the accumulator, or A is in tensor memory to which something may have been copied."""
    of_copies = words.word(RepetitionWord.A_COLUMN).ne(0) & cta.word(CtaWord.CELLS).ne(0)
    return last.word(TakenWord.COLUMNS).ult(words.word(RepetitionWord.COLUMNS)) | of_copies


def moved_columns(words: Value, last: Value) -> tuple[Value, Value]:
    """By how many columns A moves from the last one in tensor memory, 0 if there is none of both; and whether the two overlap in part."""
    column, before = words.word(RepetitionWord.A_COLUMN), last.word(TakenWord.COLUMN)
    moved = (column.ne(0) & before.ne(0)).select(column - before, 0)
    distance = moved.lt(0).select(moved * -1, moved)
    return moved, moved.ne(0) & distance.ult(words.word(RepetitionWord.A_COLUMNS))


def note_column(code: Function, words: Value, last: Value) -> None:
    """An A in tensor memory becomes the last one."""
    column = words.word(RepetitionWord.A_COLUMN)
    with code.when(column.ne(0)):
        last.set_word(TakenWord.COLUMN, column)


class RepetitionCalls:
    """The calls of one instruction for its accumulators.

    Parameters
    ----------
    images : the host address of the words of its images
    ask, note : the host addresses of the compiled functions
    """

    __slots__ = ("_ask", "_calls", "_images", "_note")

    def __init__(self, images: int, ask: int, note: int) -> None:
        self._images, self._ask, self._note = images, ask, note
        self._calls: dict[Hashable, tuple[NDArray[np.int64], Call, Call]] = {}

    def of(
        self, accumulator: int, columns: int, accumulate: bool, runs: int, a: tuple[int, int] = (-1, 0), cta: int = -1, kept: int = 0
    ) -> tuple[Call, Call]:
        """The calls of ``ask`` and ``note`` (`RepetitionWord`); ``accumulator`` is its number, ``a`` the columns of A."""
        about = accumulator, columns, accumulate, runs, a, cta, kept
        found = self._calls.get(about)
        if found is None:
            place = 8 * (CtaWord.ACCUMULATORS + accumulator * TakenWord.END)
            words = np.array([self._images, place, columns, accumulate, runs, a[0] + 1, a[1], cta, kept], np.int64)
            address = address_of(words)
            found = self._calls[about] = words, (self._ask, address), (self._note, address)
        return found[1:]
