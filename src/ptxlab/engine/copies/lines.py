"""Support functions that copy or reduce contiguous bytes where that is certain to be legal and continues nobody.

The machine says how many bytes there are, as a box of one row (`ptxlab.isa.native_ops.BoxWord`). Where they are and where they go is found
out at each copy; nothing is done where the handler must be called.
"""

from __future__ import annotations

from dataclasses import field

from ptxlab._records import dataclass
from ptxlab.engine.arrivals import ObjectRow, emit_progress, emit_wake, find_object, shared_of, unless, unless_awaited, window_place
from ptxlab.engine.context import MAP_ADDRESS, Word
from ptxlab.engine.copies.boxes import READABLE, WRITABLE, emit_find_allocation
from ptxlab.engine.repetitions import CALLS, FUNCTION, KEY, MOST_RECEIVERS, CopyWord, emit_calls
from ptxlab.engine.support.accesses import emit_mark_range
from ptxlab.engine.support.reductions import emit_reduce
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.isa.native_ops import BoxWord
from ptxlab.native.builder import Function, Module, Value

__all__ = ["LINE_LOAD", "LINE_REDUCE", "LINE_STORE", "emit_line_load", "emit_line_store", "line_load_name", "line_store_name"]

LINE_STORE, LINE_REDUCE, LINE_LOAD = "linestore", "linereduce", "lineload"
"""The first part of the names of functions that this module writes."""
_UNIT = 16
"""Alignment of the bytes, and the bytes of a byte mask."""


def line_store_name(operation: str, masked: bool = False) -> str:
    """The name of a function that `emit_line_store` writes, for an operation or none."""
    return f"{LINE_REDUCE}_{operation}" if operation else f"{LINE_STORE}_masked" if masked else LINE_STORE


def line_load_name(shared: bool, anywhere: bool, multicast: bool, operation: str = "") -> str:
    """The name of a function that `emit_line_load` writes, for an operation or none."""
    where = "shared" if shared else "global", "cluster" if anywhere else "cta", "multicast" if multicast else "single"
    return "_".join((LINE_LOAD, *where, *([operation] if operation else [])))


def emit_line_store(module: Module, operation: str = "", masked: bool = False) -> None:
    """``i64 linestore(context, known, address, memory, copy)``: copy contiguous bytes from shared memory of the CTA to global memory.

    ``linereduce_*`` reduces by an operation instead. ``linestore_masked`` has one more argument, the byte mask. ``known`` is an execution
    of `ptxlab.engine.repetitions`; ``copy`` has the mask of the one lane (`CopyWord`). Returns 0; -1, and nothing is done, where the
    handler must be called.
    """
    emit_find_allocation(module)
    emit_mark_range(module)
    if operation:
        emit_reduce(module, operation)
    more = ", i64 bytes" if masked else ""
    c, (context, known, address, memory, copy, *mask) = module.define(
        f"i64 {line_store_name(operation, masked)}(ptr context, ptr known, i64 address, i64 memory, ptr copy{more})"
    )
    line = _Line(c, context, known)
    _, _, source = line.own(address)
    outer = line.outside(memory, WRITABLE)
    line.describe(copy, source, outer)
    emit_calls(c, context, known.pointer(CALLS), copy, -1)
    if masked:
        line.move_masked(source, outer, mask[0])
    else:
        line.move(source, outer, operation)
    emit_progress(context, 1)
    line.mark(write=True)
    c.ret(0)


def emit_line_load(module: Module, shared: bool, anywhere: bool, multicast: bool, operation: str = "") -> None:
    """``i64 lineload_*(context, known, address, source, barrier, ctas, copy)``: copy contiguous bytes to shared memory of a CTA.

    It completes their bytes at the mbarrier. The source is in global memory, or in ``shared`` memory of the executing CTA; then an
    ``operation`` may reduce the bytes. ``anywhere``: the destination may belong to another CTA of the cluster; ``multicast``: ``ctas`` is
    the CTA mask. ``copy`` has the lane. The rest is as for `emit_line_store`.
    """
    emit_find_allocation(module)
    emit_mark_range(module)
    emit_wake(module)
    if operation:
        emit_reduce(module, operation)
    c, (context, known, address, source, barrier, ctas, copy) = module.define(
        f"i64 {line_load_name(shared, anywhere, multicast, operation)}"
        "(ptr context, ptr known, i64 address, i64 source, i64 barrier, i64 ctas, ptr copy)"
    )
    line = _Line(c, context, known)
    rank, offset = window_place(address)
    if not anywhere:
        unless(c, rank.eq(line.rank))
    target = line.inside(rank, offset)
    if shared:
        _, first, origin = line.own(source)
        apart = (first + line.size).ule(offset) | (offset + line.size).ule(first)
        unless(c, rank.ne(line.rank) | apart)
    else:
        first, origin = source, line.outside(source, READABLE)
    home, at = window_place(barrier)
    count = c.const("i64", -1) * line.size
    if not multicast:
        unless(c, home.eq(rank))
        row = find_object(c, context, home, at, count)
        unless_awaited(c, row, row.transactions.ne(0))
        line.describe(copy, target, origin)
        line.describe_receiver(copy, rank, offset, at, row, first)
        emit_calls(c, context, known.pointer(CALLS), copy, -1)
        line.move(origin, target, operation)
        row.perform(c.const("i64", 0))
        emit_progress(context, 2)
    else:
        unless(c, ctas.ne(0) & (ctas >> context.word(Word.CLUSTER_SIZE)).eq(0))
        unless(c, shared_of(c, context, home)[1].ne(0))
        told = c.stack(f"[{MOST_RECEIVERS * CopyWord.COORDINATES} x i64]")
        further = told.variable()
        with c.each_bit(ctas) as each:
            row, here = find_object(c, context, each, at, count), further.get()
            unless_awaited(c, row, row.transactions.ne(0))
            here.set_word(CopyWord.LANE, copy.word(CopyWord.LANE))
            line.describe(here, line.inside(each, offset), origin)
            line.describe_receiver(here, each, offset, at, row, first)
            further.set(here.at(8 * CopyWord.COORDINATES))
            here.set_word(CopyWord.NEXT, further.get().convert("ptrtoint", "i64"))
        further.get().at(-8 * CopyWord.COORDINATES).set_word(CopyWord.NEXT, 0)
        emit_calls(c, context, known.pointer(CALLS), told, -1)
        with c.each_bit(ctas) as each:
            place = context.pointer(Word.CLUSTER).at(each << 4)
            line.move(origin, place.pointer(0).at(offset), operation)
            ObjectRow.read(each, place.pointer(0), place.word(1), at, count).perform(c.const("i64", 0))
        emit_progress(context, ctas.intrinsic("ctpop") + 1)
    if not shared:
        line.mark(write=False)
    c.ret(0)


@dataclass(slots=True, eq=False)
class _Line:
    """One copy while its function is written: its words, and the rank of the executing CTA."""

    code: Function
    context: Value
    known: Value
    words: Value = field(init=False)
    size: Value = field(init=False)
    rank: Value = field(init=False)
    row: Value = field(init=False)
    first: Value = field(init=False)

    def __post_init__(self) -> None:
        self.words = self.known.pointer(FUNCTION)
        self.size = self.words.word(BoxWord.FOOTPRINT)
        self.rank = self.context.word(Word.SHARED_RANK) >> SHARED_RANK_SHIFT

    def inside(self, rank: Value, offset: Value) -> Value:
        """The host address of the bytes in the shared memory of a CTA; the emitted function returns unless they fit there."""
        c = self.code
        shared, size = shared_of(c, self.context, rank)
        unless(c, (offset & (_UNIT - 1)).eq(0) & (offset + self.size).ule(size))
        return shared.at(offset)

    def own(self, address: Value) -> tuple[Value, Value, Value]:
        """The same in that of the executing CTA; its rank and the offset, too."""
        rank, offset = window_place(address)
        unless(self.code, rank.eq(self.rank))
        return rank, offset, self.inside(rank, offset)

    def outside(self, address: Value, permission: int) -> Value:
        """The host address of the bytes in global memory; the emitted function returns unless all of them may be accessed."""
        c = self.code
        unless(c, (address & (_UNIT - 1)).eq(0))
        self.row = c.call("find_allocation", "ptr", self.context, address, self.size, c.const("i64", permission))
        unless(c, self.row.ne(0))
        self.first = address - self.row.word(0)
        return self.row.pointer(2).at(self.first)

    def describe(self, copy: Value, shared: Value, other: Value) -> None:
        """Tell observers where the bytes are in shared memory, and at the other end (`CopyWord`)."""
        ends = {CopyWord.HOST: shared, CopyWord.BOX: self.words, CopyWord.SOURCE: other}
        copy.set_words({word: place.convert("ptrtoint", "i64") for word, place in ends.items()})
        copy.set_words({CopyWord.SIZE: self.size, CopyWord.MAP: 0})

    def describe_receiver(self, copy: Value, rank: Value, offset: Value, barrier: Value, row: ObjectRow, source: Value) -> None:
        """Tell them of a copy to a CTA, whose object with these numbers counts the bytes."""
        words: dict[int, Value | int] = {
            CopyWord.RANK: rank,
            CopyWord.OFFSET: offset,
            CopyWord.BARRIER_RANK: rank,
            CopyWord.BARRIER_OFFSET: barrier,
            CopyWord.COMPLETES: (row.pending | row.transactions).eq(0).to("i64"),
            CopyWord.NEXT: 0,
            CopyWord.SHARES: 0,
            CopyWord.ADDRESS: source,
        }
        copy.set_words(words)

    def move(self, source: Value, target: Value, operation: str) -> None:
        """Copy the bytes, or reduce them by an operation."""
        c, words, order = self.code, self.words, self.words.pointer(BoxWord.OUTSIDE)
        if operation:
            c.call("reduce", "void", self.context, self.known.word(KEY).to("i32"), words, source, order, target)
        else:
            c.call(words.pointer(BoxWord.MOVE), "void", source, order, target, order, words.word(BoxWord.COUNT))

    def move_masked(self, source: Value, target: Value, mask: Value) -> None:
        """Copy those bytes of each 16 whose bit in the mask is set."""
        chunk, chosen = f"<{_UNIT} x i8>", mask.to("i16").cast(f"<{_UNIT} x i1>")
        with self.code.loop(self.size.operation("udiv", _UNIT)) as i:
            read, written = (place.at(i * _UNIT) for place in (source, target))
            written.store(chosen.select(read.load(chunk, align=1), written.load(chunk, align=1)), align=1)

    def mark(self, write: bool) -> None:
        """Mark what has been read or written in global memory, if the allocation has an access map."""
        c, row = self.code, self.row
        with c.when((row.word(3) & MAP_ADDRESS).ne(0)):
            c.call("mark_range", "void", row.word(3), row.word(1), self.first, self.size, c.const("i32", write))
