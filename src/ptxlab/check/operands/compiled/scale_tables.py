"""Which scale factors and metadata instructions have taken: tables that Python and compiled code fill, and what both ask of them."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.operands.compiled.calls import library_of
from ptxlab.check.operands.compiled.cta_words import MOST_ACCUMULATORS
from ptxlab.native import address_of

__all__ = ["LONGEST", "MOST_TAKERS", "NO_TAKER", "UNKNOWN", "ScaleTables", "SourceTable", "Table", "emit_add", "emit_tables"]

LONGEST = 256
"""Instructions that are compared at a time."""
MOST_TAKERS = 2 * LONGEST
"""If more sources are noted with the matrices that they have scaled, all are forgotten."""
UNKNOWN = -1
"""In place of the number of sources if one of them is not known."""
NO_TAKER = -1
"""In place of the number of what has taken a source that has not been taken."""
_LINE_SHIFT = 7
"""A row of 128 bytes."""


class Table(IntEnum):
    """The tables of an accumulator: from where its scale factors and metadata come, and which matrix each source has scaled."""

    OF_A = 0
    OF_B = 1
    METADATA = 2
    TAKERS = 3
    END = 4


class _RowWord(IntEnum):
    """The words of a source that has been taken: the number of what has taken it, and the source, a code and a byte.

    ``START`` is where the matrix begins that it scales, -1 if it is not in shared memory.
    """

    NUMBER = 0
    CODE = 1
    BYTE = 2
    START = 3
    END = 4


class SourceTable:
    """Sources that instructions have taken, in order. The first word is their number; then come the words of each (`_RowWord`).

    Parameters
    ----------
    most : how many there can be

    Attributes
    ----------
    address : the host address
    """

    __slots__ = ("_keep", "_words", "address")

    def __init__(self, most: int) -> None:
        self._keep = np.zeros(1 + most * _RowWord.END, np.int64)
        self._words, self.address = self._keep.data, address_of(self._keep)

    @property
    def count(self) -> int:
        """How many there are; -1 if one of them is not known."""
        return self._words[0]

    @property
    def rows(self) -> list[tuple[int, tuple[int, int]]]:
        """The number of what has taken each, and the source."""
        found = self._keep[1 : 1 + max(self.count, 0) * _RowWord.END].reshape(-1, _RowWord.END).tolist()
        return [(number, (code, byte)) for number, code, byte, _ in found]

    def add(self, number: int, source: tuple[int, int], start: int = -1) -> None:
        """What has this number takes a source, for a matrix that begins there (`_RowWord`)."""
        first = 1 + self.count * _RowWord.END
        for index, word in enumerate((number, *source, start), first):
            self._words[index] = word
        self._words[0] += 1

    def taker(self, source: tuple[int, int]) -> int | None:
        """The number of what has taken a source, if it has been taken."""
        found: int = _functions().taker(self.address, self.count, *source)
        return None if found == NO_TAKER else found

    @property
    def out_of_turn(self) -> bool:
        """Whether some are repeated while others are left out, or are taken again for another k."""
        return bool(_functions().out_of_turn(self.address))

    def clear(self) -> None:
        """Forget all."""
        self._words[0] = 0

    def forget(self) -> None:
        """One of them is not known."""
        self._words[0] = UNKNOWN


class ScaleTables:
    """The tables of a CTA by accumulator.

    Attributes
    ----------
    address : the host address of those of their addresses, `Table.END` for each accumulator; 0 for one that is not there yet
    known : those that are there, by the number of the accumulator and by `Table`
    """

    __slots__ = ("_words", "address", "known")

    def __init__(self) -> None:
        self._words: NDArray[np.int64] = np.zeros(MOST_ACCUMULATORS * Table.END, np.int64)
        self.address = address_of(self._words)
        self.known: dict[tuple[int, int], SourceTable] = {}

    def of(self, accumulator: int, table: int) -> SourceTable:
        """One of them."""
        found = self.known.get((accumulator, table))
        if found is None:
            # A product that finds no more takers than those adds two.
            found = self.known[accumulator, table] = SourceTable(MOST_TAKERS + 2 if table == Table.TAKERS else LONGEST)
            if accumulator < MOST_ACCUMULATORS:
                self._words[accumulator * Table.END + table] = found.address
        return found


def _row(table: native.Value, number: native.Value) -> native.Value:
    """Where the words of a source are (`_RowWord`)."""
    return table.at((number * _RowWord.END + 1) << 3)


def _last(module: native.Module) -> None:
    """``i64 last(table, count, code, byte, start)``: the index of the last one of the first sources that is the same, -1 if there is none.

    If ``start`` is not negative, its matrix begins in the same row of 128 bytes.
    """
    code = native.Function(module, "last", "i64", "ptr table, i64 count, i64 code, i64 byte, i64 start", internal=True)
    table, count, source, byte, start = code.parameters
    found = code.variable("i64", -1)
    with code.loop(count) as i:
        row = _row(table, i)
        together = start.lt(0) | (row.word(_RowWord.START) >> _LINE_SHIFT).eq(start >> _LINE_SHIFT)
        same = row.word(_RowWord.CODE).eq(source) & row.word(_RowWord.BYTE).eq(byte) & together
        found.set(same.select(i, found.get()))
    code.ret(found.get())


def _taker(module: native.Module) -> None:
    """``i64 taker(table, count, code, byte)``: the number of what has taken a source that is among the first ones, -1 if it is not."""
    code = native.Function(module, "taker", "i64", "ptr table, i64 count, i64 code, i64 byte")
    table, count, source, byte = code.parameters
    found = code.call("last", "i64", table, count, source, byte, code.const("i64", -1))
    with code.when(found.lt(0)):
        code.ret(NO_TAKER)
    code.ret(_row(table, found).word(_RowWord.NUMBER))


def _out_of_turn(module: native.Module) -> None:
    """``i64 outofturn(table)``: 0 if all are taken equally often in a row, at the end perhaps less often; once, or in turn again and again.

    Scale factors that others have followed must not be taken again for another k in the same rows of 128 bytes.
    """
    code = native.Function(module, "outofturn", "i64", "ptr table")
    (table,) = code.parameters
    # The index where the current run begins, the length of the first one, how many there are, and after how many they come again.
    begin, length, runs, period = (code.variable("i64", 0) for _ in range(4))
    with code.loop(table.word(0)) as i:
        row, before = _row(table, i), _row(table, i.eq(0).select(i, i - 1))
        source, byte, start = (row.word(word) for word in (_RowWord.CODE, _RowWord.BYTE, _RowWord.START))
        again = before.word(_RowWord.CODE).eq(source) & before.word(_RowWord.BYTE).eq(byte)
        with code.when(i.ne(0) & ~again):
            ended = i - begin.get()
            length.set(length.get().eq(0).select(ended, length.get()))
            with code.when(ended.ne(length.get())):
                code.ret(1)
            begin.set(i)
            runs.set(runs.get() + 1)
            last = code.call("last", "i64", table, i, source, byte, code.const("i64", -1))
            with code.when(last.lt(0)) as otherwise:
                with code.when(period.get().ne(0)):
                    code.ret(1)
                otherwise()
                period.set(period.get().eq(0).select(runs.get(), period.get()))
                with code.when((runs.get() - last.operation("udiv", length.get())).ne(period.get())):
                    code.ret(1)
        with code.when(period.get().ne(0) & start.ge(0)):
            held = code.call("last", "i64", table, begin.get(), source, byte, start)
            with code.when(held.ge(0)), code.when(_row(table, held).word(_RowWord.START).ne(start)):
                code.ret(1)
    several = length.get().ne(0)
    too_long = several & (table.word(0) - begin.get()).gt(length.get())
    with code.when(too_long):
        code.ret(1)
    with code.when(period.get().ne(0)):
        code.ret((runs.get() + 1).operation("urem", period.get()).ne(0).to("i64"))
    code.ret(0)


def emit_add(table: native.Value, *words: native.Value) -> None:
    """Something takes a source (`_RowWord`)."""
    count = table.word(0)
    _row(table, count).set_words(dict(enumerate(words)))
    table.set_word(0, count + 1)


def emit_tables(module: native.Module) -> None:
    """Emit ``taker`` and ``outofturn``."""
    for write in (_last, _taker, _out_of_turn):
        write(module)


class _Functions(NamedTuple):
    """``taker`` and ``outofturn``."""

    taker: Any
    out_of_turn: Any


@cache
def _functions() -> _Functions:
    """Compiled or from the cache."""
    library = library_of(emit_tables, exports=("taker", "outofturn"))
    taker = library.function("taker", ctypes.c_int64, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    return _Functions(taker, library.function("outofturn", ctypes.c_int64, ctypes.c_void_p))
