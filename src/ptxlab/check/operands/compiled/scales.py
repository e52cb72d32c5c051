"""Scale factors and metadata of products that are repeated: compiled code notes which ones are taken, and asks whether they are in turn."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.operands.compiled.cta_words import MOST_ACCUMULATORS, CtaWord, words_of_pair
from ptxlab.engine.repetitions import Call
from ptxlab.engine.word_sources import address_in
from ptxlab.native import address_of

__all__ = ["LONGEST", "MOST_TAKERS", "ArrayWord", "ScaleCalls", "ScaleTables", "SourceTable", "Table", "TakenScales"]

LONGEST = 256
"""Instructions that are compared at a time."""
MOST_TAKERS = 2 * LONGEST
"""If more sources are noted with the matrices that they have scaled, all are forgotten."""
_UNKNOWN = -1
"""In place of the number of sources if one of them is not known; in place of a source that Python must find."""
_NONE = -1
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
        return None if found == _NONE else found

    @property
    def out_of_turn(self) -> bool:
        """Whether some are repeated while others are left out, or are taken again for another k."""
        return bool(_functions().out_of_turn(self.address))

    def clear(self) -> None:
        """Forget all."""
        self._words[0] = 0

    def forget(self) -> None:
        """One of them is not known."""
        self._words[0] = _UNKNOWN


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


class TakenScales(NamedTuple):
    """The scale factors of one matrix, or the metadata, that an instruction takes.

    They are what numbers them, and where the matrix begins (`_RowWord`); the number of the cell with the first one, its byte there, and the
    `Table`.
    """

    number: int
    start: int
    cell: int
    byte: int
    table: int


class ArrayWord(NamedTuple):
    """The number of a word of shared memory, and the array from which it comes: its global address and its bytes."""

    word: int
    address: int
    size: int


class _CallWord(IntEnum):
    """The words of a call: the number of the CTA in its pair, -1 if there is none; the host address of its tensor memory.

    ``ACCUMULATE`` is 1 if the product is added to D. ``TABLES`` is where the tables of the accumulator are among those of the CTA, in
    bytes. ``COMPARED`` is 1 if A and B must not have scale factors in common. Then come the number and the address of `ArrayWord`, and
    those of `TakenScales`.
    """

    CTA = 0
    TENSOR = 1
    ACCUMULATE = 2
    TABLES = 3
    COMPARED = 4
    ARRAYS = 5
    ARRAY_WORDS = 6
    SCALES = 7
    SCALE_WORDS = 8


def _row(table: native.Value, number: native.Value) -> native.Value:
    """Where the words of a source are (`_RowWord`)."""
    return table.at((number * _RowWord.END + 1) << 3)


def _last(module: native.Module) -> None:
    """``i64 last(table, count, code, byte, start)``: the index of the last one of the first sources that is the same, -1 if there is none.

    If ``start`` is not negative, its matrix begins in the same row of 128 bytes.
    """
    code = native.Function(module, "last", "i64", "ptr table, i64 count, i64 code, i64 byte, i64 start", internal=True)
    table, count, source, byte, start = code.parameters
    found = code.variable("i64", _NONE)
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
        code.ret(_NONE)
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


def _source(module: native.Module) -> None:
    """``i64 source(cta, tensor, cell)``: the code of a cell, 0 if it is not known from where the cell comes, -1 if Python must find it."""
    code = native.Function(module, "source", "i64", "ptr cta, ptr tensor, i64 cell", internal=True)
    cta, tensor, cell = code.parameters
    found, value = cta.pointer(CtaWord.CELL_CODES).load("i64", cell), cta.pointer(CtaWord.CELL_VALUES).load("i32", cell)
    copied = found.ne(0) & value.eq(tensor.load("i32", cell))
    otherwise = cta.pointer(CtaWord.CELL_SOURCES).load("i64", cell).eq(0).select(code.const("i64", 0), _UNKNOWN)
    code.ret(copied.select(found, otherwise))


class _Taken:
    """What a call takes, for `_ask` and `_note`."""

    def __init__(self, code: native.Function) -> None:
        self.code = code
        context, self.words, _ = code.parameters
        self.cta = words_of_pair(context, self.words.word(_CallWord.CTA))
        self.tables = self.cta.pointer(CtaWord.SCALES)

    @property
    def own(self) -> native.Value:
        """The addresses of the tables of the accumulator."""
        return self.tables.at(self.words.word(_CallWord.TABLES))

    @property
    def anew(self) -> native.Value:
        """Whether D is written anew."""
        return self.words.word(_CallWord.ACCUMULATE).eq(0)

    @property
    def compared(self) -> native.Value:
        """Whether A and B are compared."""
        return self.words.word(_CallWord.COMPARED).ne(0)

    def begins(self, table: native.Value) -> native.Value:
        """Whether the sources in a table are compared, and then forgotten."""
        return self.anew | table.word(0).eq(LONGEST)

    def begins_takers(self, takers: native.Value) -> native.Value:
        """Whether the takers are forgotten."""
        return self.anew | takers.word(0).gt(MOST_TAKERS)

    def scales(self, index: native.Value) -> dict[str, native.Value]:
        """What is known of scale factors (`TakenScales`), and the code of their source."""
        row = self.words.pointer(_CallWord.SCALE_WORDS).at(index * (8 * len(TakenScales._fields)))
        found = {name: row.word(word) for word, name in enumerate(TakenScales._fields)}
        tensor = self.words.pointer(_CallWord.TENSOR)
        return found | {"code": self.code.call("source", "i64", self.cta, tensor, found["cell"])}

    def is_compared(self, table: native.Value, source: native.Value) -> native.Value:
        """Whether a source must not be taken for the other matrix."""
        return self.compared & table.ult(Table.METADATA) & source.ne(0)


def _ask(module: native.Module) -> None:
    """``i64 ask(context, words, lane)``: 0 if there is nothing to say of an execution (`_CallWord`)."""
    code = native.Function(module, "ask", "i64", "ptr context, ptr words, i64 lane")
    taken, words = _Taken(code), code["words"]
    with code.when(taken.tables.eq(0)):
        code.ret(1)
    takers = taken.own.pointer(Table.TAKERS)
    with code.when(_of_other_arrays(taken) | (taken.compared & takers.eq(0))):
        code.ret(1)
    code_of_a, byte_of_a = code.variable("i64", 0), code.variable("i64", 0)
    with code.loop(words.word(_CallWord.SCALES)) as i:
        found = taken.scales(i)
        table, source, byte = found["table"], found["code"], found["byte"]
        uses = taken.own.load("ptr", table)
        with code.when(uses.eq(0) | source.eq(_UNKNOWN)):
            code.ret(1)
        with code.when(taken.begins(uses)), code.when(code.call("outofturn", "i64", uses).ne(0)):
            code.ret(1)
        with code.when(taken.is_compared(table, source)):
            held = taken.begins_takers(takers).select(0, takers.word(0))
            other = code.call("taker", "i64", takers, held, source, byte)
            of_a = source.eq(code_of_a.get()) & byte.eq(byte_of_a.get())
            with code.when((other.ne(_NONE) & other.ne(table)) | of_a):
                code.ret(1)
            code_of_a.set(source)
            byte_of_a.set(byte)
    code.ret(0)


def _of_other_arrays(taken: _Taken) -> native.Value:
    """Whether operands come from other arrays than before."""
    code, words = taken.code, taken.words
    other = code.variable("i1", 0)
    with code.loop(words.word(_CallWord.ARRAYS)) as i:
        row = words.pointer(_CallWord.ARRAY_WORDS).at(i * (8 * len(ArrayWord._fields)))
        word, first, size = (row.word(index) for index in range(len(ArrayWord._fields)))
        address = address_in(taken.cta.pointer(CtaWord.WORD_SOURCES).load("i64", word))
        other.set(other.get() | (address - first).uge(size))
    return other.get()


def _note(module: native.Module) -> None:
    """``i64 note(context, words, lane)``: such an execution takes its scale factors."""
    code = native.Function(module, "note", "i64", "ptr context, ptr words, i64 lane")
    taken, words = _Taken(code), code["words"]
    takers = taken.own.pointer(Table.TAKERS)
    with code.when(taken.compared), code.when(taken.begins_takers(takers)):
        takers.set_word(0, 0)
    with code.loop(words.word(_CallWord.SCALES)) as i:
        found = taken.scales(i)
        table, source, byte = found["table"], found["code"], found["byte"]
        uses = taken.own.load("ptr", table)
        with code.when(taken.begins(uses)):
            uses.set_word(0, 0)
        with code.when(source.ne(0) & uses.word(0).ne(_UNKNOWN)) as otherwise:
            _add(uses, found["number"], source, byte, found["start"])
            otherwise()
            uses.set_word(0, _UNKNOWN)
        with code.when(taken.is_compared(table, source)):
            other = code.call("taker", "i64", takers, takers.word(0), source, byte)
            with code.when(other.eq(_NONE)):
                _add(takers, table, source, byte, code.const("i64", -1))
    code.ret(0)


def _add(table: native.Value, *words: native.Value) -> None:
    """Something takes a source (`_RowWord`)."""
    count = table.word(0)
    _row(table, count).set_words(dict(enumerate(words)))
    table.set_word(0, count + 1)


class _Functions(NamedTuple):
    """``taker`` and ``outofturn``, and the addresses of ``ask`` and ``note``."""

    taker: Any
    out_of_turn: Any
    ask: int
    note: int


@cache
def _functions() -> _Functions:
    """Compiled or from the cache."""
    module = native.Module()
    for write in (_last, _taker, _out_of_turn, _source, _ask, _note):
        write(module)
    library = native.compile_ir(module.text(), ["taker", "outofturn", "ask", "note"], opt=1, light=True)
    taker = library.function("taker", ctypes.c_int64, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    out_of_turn = library.function("outofturn", ctypes.c_int64, ctypes.c_void_p)
    return _Functions(taker, out_of_turn, library.address("ask"), library.address("note"))


class ScaleCalls:
    """The calls with which compiled code compares and notes what instructions take; one for each launch."""

    def __init__(self) -> None:
        self._calls: dict[object, tuple[list[NDArray[np.int64]], Call, Call]] = {}

    def of(
        self,
        accumulator: int,
        accumulate: bool,
        scales: Sequence[TakenScales],
        compared: bool,
        arrays: Sequence[ArrayWord],
        cta: int,
        tensor: int,
    ) -> tuple[Call, Call]:
        """The calls of ``ask`` and ``note`` (`_CallWord`); ``tensor`` is the host address of tensor memory."""
        about = accumulator, accumulate, tuple(scales), compared, tuple(arrays), cta, tensor
        found = self._calls.get(about)
        if found is None:
            extents, taken = (np.array(rows, np.int64).reshape(-1) for rows in (arrays, scales))
            where = 8 * accumulator * Table.END
            rows = len(arrays), address_of(extents), len(scales), address_of(taken)
            words = np.array([cta, tensor, accumulate, where, compared, *rows], np.int64)
            ask, note = ((function, address_of(words)) for function in (_functions().ask, _functions().note))
            found = self._calls[about] = [words, extents, taken], ask, note
        return found[1:]
