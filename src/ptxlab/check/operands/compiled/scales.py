"""Scale factors and metadata of products that are repeated: compiled code notes which ones are taken, and asks whether they are in turn."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.operands.compiled.calls import library_of
from ptxlab.check.operands.compiled.cta_words import CtaWord, base_of, words_of_pair
from ptxlab.check.operands.compiled.scale_tables import LONGEST, MOST_TAKERS, NO_TAKER, UNKNOWN, Table, emit_add, emit_tables
from ptxlab.engine.repetitions import Call
from ptxlab.engine.word_sources import address_in
from ptxlab.isa.repeating import shared_base
from ptxlab.native import address_of

__all__ = ["ArrayWord", "ScaleCalls", "TakenScales"]

_IN_PYTHON = -1
"""In place of a source that Python must find."""


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
    """The words of a call: the number of the CTA in its pair, -1 if there is none.

    ``ACCUMULATE`` is 1 if the product is added to D. ``TABLES`` is where the tables of the accumulator are among those of the CTA, in
    bytes. ``COMPARED`` is 1 if A and B must not have scale factors in common. Then come the number and the address of `ArrayWord`, and
    those of `TakenScales`.
    """

    CTA = 0
    ACCUMULATE = 1
    TABLES = 2
    COMPARED = 3
    ARRAYS = 4
    ARRAY_WORDS = 5
    SCALES = 6
    SCALE_WORDS = 7


def _source(module: native.Module) -> None:
    """``i64 source(cta, tensor, cell)``: the code of a cell, 0 if it is not known from where the cell comes, -1 if Python must find it."""
    code = native.Function(module, "source", "i64", "ptr cta, ptr tensor, i64 cell", internal=True)
    cta, tensor, cell = code.parameters
    found, value = cta.pointer(CtaWord.CELL_CODES).load("i64", cell), cta.pointer(CtaWord.CELL_VALUES).load("i32", cell)
    copied = found.ne(0) & value.eq(tensor.load("i32", cell))
    otherwise = cta.pointer(CtaWord.CELL_SOURCES).load("i64", cell).eq(0).select(code.const("i64", 0), _IN_PYTHON)
    code.ret(copied.select(found, otherwise))


class _Taken:
    """What a call takes, for `_ask` and `_note`."""

    def __init__(self, code: native.Function) -> None:
        self.code = code
        context, self.words, _ = code.parameters
        self.cta = words_of_pair(context, self.words.word(_CallWord.CTA))
        self.tables = self.cta.pointer(CtaWord.SCALES)
        self.tensor = base_of(context, code.const("i64", shared_base(0) + 1))

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
        return found | {"code": self.code.call("source", "i64", self.cta, self.tensor, found["cell"])}

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
        with code.when(uses.eq(0) | source.eq(_IN_PYTHON)):
            code.ret(1)
        with code.when(taken.begins(uses)), code.when(code.call("outofturn", "i64", uses).ne(0)):
            code.ret(1)
        with code.when(taken.is_compared(table, source)):
            held = taken.begins_takers(takers).select(0, takers.word(0))
            other = code.call("taker", "i64", takers, held, source, byte)
            of_a = source.eq(code_of_a.get()) & byte.eq(byte_of_a.get())
            with code.when((other.ne(NO_TAKER) & other.ne(table)) | of_a):
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
        with code.when(source.ne(0) & uses.word(0).ne(UNKNOWN)) as otherwise:
            emit_add(uses, found["number"], source, byte, found["start"])
            otherwise()
            uses.set_word(0, UNKNOWN)
        with code.when(taken.is_compared(table, source)):
            other = code.call("taker", "i64", takers, takers.word(0), source, byte)
            with code.when(other.eq(NO_TAKER)):
                emit_add(takers, table, source, byte, code.const("i64", -1))
    code.ret(0)


@cache
def _library() -> native.Library:
    """``ask`` and ``note``, compiled or from the cache."""
    return library_of(emit_tables, _source, _ask, _note)


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
    ) -> tuple[Call, Call]:
        """The calls of ``ask`` and ``note`` (`_CallWord`)."""
        about = accumulator, accumulate, tuple(scales), compared, tuple(arrays), cta
        found = self._calls.get(about)
        if found is None:
            extents, taken = (np.array(rows, np.int64).reshape(-1) for rows in (arrays, scales))
            where = 8 * accumulator * Table.END
            rows = len(arrays), address_of(extents), len(scales), address_of(taken)
            words = np.array([cta, accumulate, where, compared, *rows], np.int64)
            ask, note = ((_library().address(name), address_of(words)) for name in ("ask", "note"))
            found = self._calls[about] = [words, extents, taken], ask, note
        return found[1:]
