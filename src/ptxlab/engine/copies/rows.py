"""Copies of rows of a tensor by compiled code, and of four rows with a coordinate each: tile::gather4 and tile::scatter4.

Compiled code does what it does for boxes (`ptxlab.engine.copies.boxes`). The words of a part say which columns are inside the tensor; a row
that is outside has those of no column.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from ptxlab._records import dataclass
from ptxlab.engine.arrivals import unless
from ptxlab.engine.context import MAP_ADDRESS
from ptxlab.engine.copies.boxes import Box
from ptxlab.engine.repetitions import CopyWord
from ptxlab.isa.effects import BoxForm
from ptxlab.isa.native_ops import BOX_ALIGNMENT, BOX_PERIOD, SPAN_SHIFT, BoxWord
from ptxlab.native.builder import Module, Value, Variable

__all__ = ["FourRows", "Rows"]

_FOUR = 4
_WORDS, _ALLOCATION, _FIRST, _SIZE = range(4)
"""Words of a row: the address of its `BoxWord`, and of the row of its allocation; where it begins there, and its bytes."""
_ROW_WORDS = 4


def _find_columns(module: Module) -> None:
    """``ptr find_columns(words, at, size)``: the words of the part with the columns that are inside; null if they are not known."""
    c, (words, at, size) = module.define("ptr find_columns(ptr words, i64 at, i64 size)", internal=True)
    low, high = (distance.max(0) for distance in (at.constant(0) - at, size - at))
    high = high.min(words.word(BoxWord.ACROSS))
    span, place = low.lt(high).select((high << SPAN_SHIFT) | low, 0), words.variable()
    with c.loop_while(lambda: place.get().ne(0)):
        part = place.get()
        with c.when(part.word(BoxWord.SPAN).eq(span)):
            c.ret(part)
        place.set(part.pointer(BoxWord.NEXT))
    c.ret(0)


@dataclass(slots=True, eq=False)
class Rows(Box):
    """One copy of rows while its function is written."""

    count: Value = field(init=False)
    """How many rows there are."""
    columns: Value = field(init=False)
    """The words of the columns that are inside the tensor."""
    told: Value = field(init=False)
    """The `BoxWord` that observers are told: the ranges in global memory are those of this copy."""
    period: Value = field(init=False)
    _nothing: Value = field(init=False)
    _rows: Value = field(init=False)
    _starts: Value = field(init=False)
    _existing: Variable = field(init=False)

    @staticmethod
    def emit_find(module: Module) -> None:
        """Emit the function that finds the words of what is copied."""
        _find_columns(module)

    def _begin(self, column: Value, count: Value, most: int) -> None:
        """There are so many rows, from a column on; return from the function where the words of the columns are not known."""
        c, words = self.code, self.words
        size = words.word(BoxWord.WRITTEN if self.store else BoxWord.DIM)
        unless(c, (column & (words.word(BoxWord.UNIT) - 1)).eq(0))
        if self.store:
            unless(c, column.ge(0))
        self.count = count
        self.columns, self._nothing = (c.call("find_columns", "ptr", words, at, size) for at in (column, size))
        unless(c, self.columns.ne(0) & self._nothing.ne(0))
        self._rows, self._starts = c.stack(f"[{most * _ROW_WORDS} x i64]"), c.stack(f"[{most} x i64]")
        self._existing = c.variable("i64", 0)
        self.words = self.columns

    @property
    def has_columns(self) -> Value:
        """Whether columns are inside the tensor."""
        return self.columns.word(BoxWord.COUNT).ne(0)

    def _row(self, number: Value, row: Value, first: Value, exists: Value) -> None:
        """A row begins so many bytes from the first one of an allocation, of which this is the row."""
        here = self._at(number)
        here.store(exists.select(self.columns, self._nothing), _WORDS)
        here.store(row, _ALLOCATION)
        here.set_words({_FIRST: first, _SIZE: exists.select(self.columns.word(BoxWord.ROW_BYTES), 0)})
        with self.code.when(exists):
            self._starts.store(row.pointer(2).at(first), self._existing.get())
            self._existing.set(self._existing.get() + 1)

    def _end(self) -> None:
        """All rows are known."""
        c = self.code
        self.told = c.stack(f"[{BoxWord.END} x i64]")
        sizes = self.columns.at(8 * BoxWord.ROW_BYTES)
        for word, value in enumerate((self._starts, sizes, c.const("i64", 0), self._existing.get()), BoxWord.RANGES):
            self.told.store(value, word)
        self.told.set_word(BoxWord.IS_SAME, 0)
        self.row, self.first = self.nowhere(), c.const("i64", 0)

    def _at(self, number: Value) -> Value:
        """The words of a row."""
        return self._rows.at(number * (8 * _ROW_WORDS))

    def place(self, offset: Value) -> None:
        """Find the order of the chunks at an offset in shared memory; return from the function if it is not known."""
        unless(self.code, (offset & (BOX_ALIGNMENT - 1)).eq(0))
        self.period = (offset & (BOX_PERIOD - 1)).operation("udiv", BOX_ALIGNMENT)
        for words in (self.columns, self._nothing):
            unless(self.code, words.load("ptr", self.period + BoxWord.INSIDE).ne(0))

    def describe_ends(self, copy: Value, shared: Value) -> None:
        """Tell observers where the rows are in shared and in global memory, and their tensor map."""
        Box.describe_ends(self, copy, shared)
        copy.set_word(CopyWord.BOX, self.told.convert("ptrtoint", "i64"))

    def fill(self, shared: Value) -> None:
        """Fill the chunks at an address in shared memory of which a part is outside the tensor."""
        with self.code.loop(self.count, entered=True) as i:
            words = self._at(i).pointer(_WORDS)
            count = words.word(BoxWord.FILLED).operation("udiv", self.count)
            order = words.load("ptr", self.period + BoxWord.FILL_INSIDE).at(i * count << 3)
            source = words.pointer(BoxWord.FILL), words.pointer(BoxWord.FILL_ORDER)
            with self.code.when(count.ne(0)):
                self.code.call(words.pointer(BoxWord.FILL_MOVE), "void", *source, shared, order, count)

    def move(self, shared: Value) -> None:
        """Copy the bytes from or to an address in shared memory."""
        with self.code.loop(self.count, entered=True) as i:
            here = self._at(i)
            words, row = here.pointer(_WORDS), here.pointer(_ALLOCATION)
            count = words.word(BoxWord.COUNT).operation("udiv", self.count)
            order = words.load("ptr", self.period + BoxWord.INSIDE).at(i * count << 3)
            sides = (row.pointer(2).at(here.word(_FIRST)), words.pointer(BoxWord.OUTSIDE)), (shared, order)
            source, target = reversed(sides) if self.store else sides
            move = words.pointer(BoxWord.STORE if self.store else BoxWord.MOVE)
            self.code.call(move, "void", *source, *target, count)

    def mark(self, map_row: Value) -> None:
        """Mark what has been read or written, where allocations have access maps."""
        c, write = self.code, self.code.const("i32", self.store)
        with c.loop(self.count, entered=True) as i:
            here = self._at(i)
            row = here.pointer(_ALLOCATION)
            with c.when((row.word(3) & MAP_ADDRESS).ne(0)):
                c.call("mark_range", "void", row.word(3), row.word(1), here.word(_FIRST), here.word(_SIZE), write)
        self.mark_map(map_row)


@dataclass(slots=True, eq=False)
class FourRows(Rows):
    """One copy of four rows."""

    form: ClassVar[BoxForm] = BoxForm.ROWS

    def outside(self, copy: Value) -> None:
        """Find the rows in global memory; return from the function where the words of their columns are not known."""
        c, words, coordinates = self.code, self.words, copy.at(8 * CopyWord.COORDINATES)
        column = coordinates.word(0)
        self._begin(column, c.const("i64", _FOUR), _FOUR)
        with c.loop(_FOUR, entered=True) as i:
            y = coordinates.load("i64", i + 1)
            if self.store:
                unless(c, y.ge(0))
            exists = self.has_columns & y.ult(words.word(BoxWord.DIM + 1))
            bits = column * words.word(BoxWord.PITCH) + y * words.word(BoxWord.PITCH + 1)
            address = self.columns.word(BoxWord.ADDRESS) + bits.operation("ashr", 3)
            row = self.row_of(address, self.columns.word(BoxWord.ROW_BYTES), exists)
            self._row(i, row, address - row.word(0), exists)
        self._end()
