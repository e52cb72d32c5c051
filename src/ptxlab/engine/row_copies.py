"""Support functions that copy four rows of a tensor, each with a coordinate of its own: tile::gather4 and tile::scatter4.

They do what those for boxes do (`ptxlab.engine.box_copies`). The words of a part say which columns are inside the tensor; a row that is
outside has those of no column.
"""

from __future__ import annotations

from dataclasses import field

from ptxlab._records import dataclass
from ptxlab.engine.arrivals import unless
from ptxlab.engine.box_copies import Box, emit_box_load, emit_box_store
from ptxlab.engine.context import MAP_ADDRESS
from ptxlab.engine.repetitions import CopyWord
from ptxlab.isa.native_ops import BOX_ALIGNMENT, BOX_PERIOD, SPAN_SHIFT, BoxWord
from ptxlab.native.builder import Module, Value

__all__ = ["emit_row_load", "emit_row_store"]

_ROWS = 4
_WORDS, _ALLOCATION, _FIRST, _SIZE = range(4)
"""Words of a row: the address of its `BoxWord`, and of the row of its allocation; where it begins there, and its bytes."""
_ROW_WORDS = 4


def emit_row_load(module: Module, anywhere: bool, pair: bool, multicast: bool) -> None:
    """``rowsload_*``: see `emit_box_load`."""
    emit_box_load(module, anywhere, pair, multicast, _Rows)


def emit_row_store(module: Module) -> None:
    """``rowsstore``: see `emit_box_store`."""
    emit_box_store(module, of_rows=_Rows)


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
class _Rows(Box):
    """One copy of four rows while its function is written."""

    rows: Value = field(init=False)
    """The words of the rows."""
    told: Value = field(init=False)
    """The `BoxWord` that observers are told: the ranges in global memory are those of this copy."""
    period: Value = field(init=False)

    @staticmethod
    def emit_find(module: Module) -> None:
        """Emit the function that finds the words of what is copied."""
        _find_columns(module)

    def outside(self, copy: Value) -> None:
        """Find the rows in global memory; return from the function where the words of their columns are not known."""
        c, words, coordinates = self.code, self.words, copy.at(8 * CopyWord.COORDINATES)
        column, size = coordinates.word(0), words.word(BoxWord.WRITTEN if self.store else BoxWord.DIM)
        unless(c, (column & (words.word(BoxWord.UNIT) - 1)).eq(0))
        if self.store:
            unless(c, column.ge(0))
        columns = c.call("find_columns", "ptr", words, column, size)
        nothing = c.call("find_columns", "ptr", words, size, size)
        unless(c, columns.ne(0) & nothing.ne(0))
        some, row_bytes = columns.word(BoxWord.COUNT).ne(0), columns.word(BoxWord.ROW_BYTES)
        self.rows, self.told = c.stack(f"[{_ROWS * _ROW_WORDS} x i64]"), c.stack(f"[{BoxWord.END} x i64]")
        starts, count = c.stack(f"[{_ROWS} x i64]"), c.variable("i64", 0)
        with c.loop(_ROWS, entered=True) as i:
            y, here = coordinates.load("i64", i + 1), self._at(i)
            if self.store:
                unless(c, y.ge(0))
            exists = some & y.ult(words.word(BoxWord.DIM + 1))
            bits = column * words.word(BoxWord.PITCH) + y * words.word(BoxWord.PITCH + 1)
            address = columns.word(BoxWord.ADDRESS) + bits.operation("ashr", 3)
            row = self.row_of(address, row_bytes, exists)
            first = address - row.word(0)
            here.store(exists.select(columns, nothing), _WORDS)
            here.store(row, _ALLOCATION)
            here.set_words({_FIRST: first, _SIZE: exists.select(row_bytes, 0)})
            with c.when(exists):
                starts.store(row.pointer(2).at(first), count.get())
                count.set(count.get() + 1)
        sizes = columns.at(8 * BoxWord.ROW_BYTES)
        ranges = (starts, sizes, c.const("i64", 0), count.get())
        for word, value in enumerate(ranges, BoxWord.RANGES):
            self.told.store(value, word)
        self.told.set_word(BoxWord.IS_SAME, 0)
        self.row, self.first, self.words = self.nowhere(), c.const("i64", 0), columns

    def _at(self, number: Value) -> Value:
        """The words of a row."""
        return self.rows.at(number * (8 * _ROW_WORDS))

    def place(self, offset: Value) -> None:
        """Find the order of the chunks at an offset in shared memory; return from the function if it is not known."""
        unless(self.code, (offset & (BOX_ALIGNMENT - 1)).eq(0))
        self.period = (offset & (BOX_PERIOD - 1)).operation("udiv", BOX_ALIGNMENT)
        with self.code.loop(_ROWS, entered=True) as i:
            unless(self.code, self._at(i).pointer(_WORDS).load("ptr", self.period + BoxWord.INSIDE).ne(0))

    def describe_ends(self, copy: Value, shared: Value) -> None:
        """Tell observers where the rows are in shared and in global memory, and their tensor map."""
        Box.describe_ends(self, copy, shared)
        copy.set_word(CopyWord.BOX, self.told.convert("ptrtoint", "i64"))

    def fill(self, shared: Value) -> None:
        """Fill the chunks at an address in shared memory of which a part is outside the tensor."""
        with self.code.loop(_ROWS, entered=True) as i:
            words = self._at(i).pointer(_WORDS)
            count = words.word(BoxWord.FILLED) >> 2
            order = words.load("ptr", self.period + BoxWord.FILL_INSIDE).at(i * count << 3)
            source = words.pointer(BoxWord.FILL), words.pointer(BoxWord.FILL_ORDER)
            with self.code.when(count.ne(0)):
                self.code.call(words.pointer(BoxWord.FILL_MOVE), "void", *source, shared, order, count)

    def move(self, shared: Value) -> None:
        """Copy the bytes from or to an address in shared memory."""
        with self.code.loop(_ROWS, entered=True) as i:
            here = self._at(i)
            words, row = here.pointer(_WORDS), here.pointer(_ALLOCATION)
            count = words.word(BoxWord.COUNT) >> 2
            order = words.load("ptr", self.period + BoxWord.INSIDE).at(i * count << 3)
            sides = (row.pointer(2).at(here.word(_FIRST)), words.pointer(BoxWord.OUTSIDE)), (shared, order)
            source, target = reversed(sides) if self.store else sides
            move = words.pointer(BoxWord.STORE if self.store else BoxWord.MOVE)
            self.code.call(move, "void", *source, *target, count)

    def mark(self, map_row: Value) -> None:
        """Mark what has been read or written, where allocations have access maps."""
        c, write = self.code, self.code.const("i32", self.store)
        with c.loop(_ROWS, entered=True) as i:
            here = self._at(i)
            row = here.pointer(_ALLOCATION)
            with c.when((row.word(3) & MAP_ADDRESS).ne(0)):
                c.call("mark_range", "void", row.word(3), row.word(1), here.word(_FIRST), here.word(_SIZE), write)
        self.mark_map(map_row)
