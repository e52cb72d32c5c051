"""Support functions that copy or reduce boxes of tensor maps where that is certain to be legal and continues nobody.

The machine says how to copy the boxes of a tensor map (`ptxlab.isa.native_ops.BoxWord`). Whether this is still the tensor map at its
address, which part of a box is inside the tensor, and where it goes, is found out at each copy; nothing is done where the handler must be
called.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar

from ptxlab._records import dataclass
from ptxlab.engine.arrivals import (
    ObjectRow,
    emit_progress,
    emit_wake,
    find_object,
    place_in,
    shared_of,
    unless,
    unless_awaited,
    window_place,
)
from ptxlab.engine.context import MAP_ADDRESS, Word
from ptxlab.engine.copies.box_parts import emit_find_part
from ptxlab.engine.copies.pending import emit_issue_copy, emit_perform_copy
from ptxlab.engine.repetitions import CALLS, FUNCTION, KEY, MOST_RECEIVERS, WORDS_GIVEN, CopyWord, emit_calls
from ptxlab.engine.support.accesses import emit_mark_range, rows_up_to
from ptxlab.engine.support.reductions import emit_reduce
from ptxlab.isa.address_space import PARAM_BASE, PARAM_WINDOW, SHARED_RANK_SHIFT
from ptxlab.isa.effects import BoxForm
from ptxlab.isa.native_ops import BOX_ALIGNMENT, BOX_PERIOD, BoxWord
from ptxlab.native.builder import Function, Module, Value

__all__ = [
    "LOAD",
    "READABLE",
    "REDUCE",
    "STORE",
    "WRITABLE",
    "Box",
    "emit_box_load",
    "emit_box_store",
    "emit_find_allocation",
    "load_name",
    "store_name",
]

_MAP_BYTES = 8 * BoxWord.UNIT
READABLE, WRITABLE = 1, 3
"""What the flags of an allocation must have (`Word.ALLOCATIONS`)."""
_COPY_WORDS = CopyWord.COORDINATES + 8
"""With the coordinates of a tensor of five dimensions, and the offsets of an image of three."""
LOAD, STORE, REDUCE = "load", "store", "reduce"
"""What follows the `BoxForm` in the names of functions that `emit_box_load` and `emit_box_store` write."""


def load_name(anywhere: bool, pair: bool, multicast: bool, form: BoxForm = BoxForm.BOX) -> str:
    """The name of a function that `emit_box_load` writes."""
    first = form.value + LOAD
    return f"{first}_{'cluster' if anywhere else 'cta'}_{'pair' if pair else 'one'}_{'multicast' if multicast else 'single'}"


def store_name(operation: str, form: BoxForm = BoxForm.BOX) -> str:
    """The name of a function that `emit_box_store` writes, for an operation or none."""
    return f"{form.value}{REDUCE}_{operation}" if operation else form.value + STORE


def emit_box_load(module: Module, kind: type[Box], anywhere: bool, pair: bool, multicast: bool) -> None:
    """``i64 *load_*(context, known, address, barrier, ctas, copy)``: copy a box to shared memory, and complete its bytes.

    ``known`` is an execution of `ptxlab.engine.repetitions`; ``copy`` has the lane and the coordinates (`CopyWord`). ``kind``: what is
    copied. ``anywhere``: the box may belong to another CTA of the cluster; ``pair``: .cta_group::2; ``multicast``: ``ctas`` is the CTA
    mask. Returns 0; -1, and nothing is done, where the handler must be called.
    """
    emit_find_allocation(module)
    kind.emit_find(module)
    emit_mark_range(module)
    emit_wake(module)
    emit_perform_copy(module)
    name = load_name(anywhere, pair, multicast, kind.form)
    c, (context, known, address, barrier, ctas, copy) = module.define(
        f"i64 {name}(ptr context, ptr known, i64 address, i64 barrier, i64 ctas, ptr copy)"
    )
    box = kind(c, context, known.pointer(FUNCTION), known.word(WORDS_GIVEN))
    map_row = box.same_map()
    box.outside(copy)
    rank, offset = window_place(address)
    if not anywhere:
        unless(c, (rank << SHARED_RANK_SHIFT).eq(context.word(Word.SHARED_RANK)))
    box.place(offset)
    target = box.inside(rank, offset)
    home, at = window_place(barrier)
    count = c.const("i64", -1) * box.words.word(BoxWord.TRANSACTION)
    if not multicast:
        unless(c, (home >> 1).eq(rank >> 1) if pair else home.eq(rank))
        if kind.form is BoxForm.BOX:
            with c.when(context.word(Word.DEFERRED).ne(0)):
                unless(c, box.words.eq(known.pointer(FUNCTION)) & box.words.word(BoxWord.FILLED).eq(0))
                find_object(c, context, home, at, c.const("i64", 0))
                places = place_in(rank, offset), place_in(home, at)
                emit_issue_copy(c, context, known, copy, box.words, (box.outer(), target, box.order), places)
                box.mark(map_row)
                c.ret(0)
        row = find_object(c, context, home, at, count)
        unless_awaited(c, row, row.transactions.ne(0))
        box.describe(copy, target, (rank, offset), (home, at), row)
        emit_calls(c, context, known.pointer(CALLS), copy, -1)
        box.fill(target)
        box.move(target)
        row.perform(c.const("i64", 0))
        emit_progress(context, 2)
    else:
        cluster = context.pointer(Word.CLUSTER)
        unless(c, ctas.ne(0) & (ctas >> context.word(Word.CLUSTER_SIZE)).eq(0))
        unless(c, shared_of(c, context, home)[1].ne(0))

        def signalled(receiver: Value) -> Value:
            return (receiver & ~1) | (home & 1) if pair else receiver

        told = c.stack(f"[{MOST_RECEIVERS * _COPY_WORDS} x i64]")
        further = told.variable()
        with c.each_bit(ctas) as each:
            target = box.inside(each, offset)
            # The two CTAs of a pair may signal one object, at which each must be legal after the other.
            row, shares = find_object(c, context, signalled(each), at, count * (1 + pair)), c.const("i1", 0)
            unless_awaited(c, row, row.transactions.gt(0) if pair else row.transactions.ne(0))
            if pair:
                together = ((ctas >> (each ^ 1)) & 1).ne(0)
                shares = together & (each & 1).ne(0)
                row = replace(row, transactions=row.transactions - shares.select(0, count))
                unless(c, shares | ~together | (row.pending | row.transactions).ne(0))
            here = further.get()
            here.set_word(CopyWord.LANE, copy.word(CopyWord.LANE))
            with c.loop(box.words.word(BoxWord.RANK), entered=True) as i:
                here.store(copy.load("i64", i + CopyWord.COORDINATES), i + CopyWord.COORDINATES)
            box.describe(here, target, (each, offset), (signalled(each), at), row)
            here.set_word(CopyWord.SHARES, shares.to("i64"))
            further.set(here.at(8 * _COPY_WORDS))
            here.set_word(CopyWord.NEXT, further.get().convert("ptrtoint", "i64"))
        further.get().at(-8 * _COPY_WORDS).set_word(CopyWord.NEXT, 0)
        emit_calls(c, context, known.pointer(CALLS), told, -1)
        with c.each_bit(ctas) as each:
            target = cluster.at(each << 4).pointer(0).at(offset)
            box.fill(target)
            box.move(target)
            home_row = cluster.at(signalled(each) << 4)
            ObjectRow.read(signalled(each), home_row.pointer(0), home_row.word(1), at, count).perform(c.const("i64", 0))
        emit_progress(context, ctas.intrinsic("ctpop") + 1)
    box.mark(map_row)
    c.ret(0)


def emit_box_store(module: Module, kind: type[Box], operation: str = "") -> None:
    """``i64 *store(context, known, address, copy)``: the same for a copy from shared memory of the CTA, by all lanes of a mask.

    ``boxreduce_*`` reduces by an operation instead, once for each lane.
    """
    name = store_name(operation, kind.form)
    emit_find_allocation(module)
    kind.emit_find(module)
    emit_mark_range(module)
    if operation:
        emit_reduce(module, operation)
    c, (context, known, address, copy) = module.define(f"i64 {name}(ptr context, ptr known, i64 address, ptr copy)")
    box = kind(c, context, known.pointer(FUNCTION), known.word(WORDS_GIVEN), store=True)
    map_row = box.same_map()
    box.outside(copy)
    rank, offset = window_place(address)
    unless(c, (rank << SHARED_RANK_SHIFT).eq(context.word(Word.SHARED_RANK)))
    box.place(offset)
    if operation:
        unless(c, box.words.word(BoxWord.ELEMENT).ne(0))
    source = box.inside(rank, offset)
    box.describe_ends(copy, source)
    emit_calls(c, context, known.pointer(CALLS), copy, -1)
    box.put(source, operation, known, copy)
    emit_progress(context, copy.word(CopyWord.LANE).intrinsic("ctpop"))
    box.mark(map_row)
    c.ret(0)


def emit_find_allocation(module: Module) -> None:
    """``ptr find_allocation(context, address, size, permission)``: the row of the allocation with all these bytes, or null."""
    c, (context, address, size, permission) = module.define(
        "ptr find_allocation(ptr context, i64 address, i64 size, i64 permission)", internal=True
    )
    rows = context.pointer(Word.ALLOCATIONS)
    after = rows_up_to(rows, 32, context.word(Word.ALLOCATION_COUNT), address)
    with c.when(after.ne(0)):
        row = rows.at((after - 1) << 5)
        inside, total = address - row.word(0), row.word(1)
        fits = inside.ult(total) & size.ule(total - inside)
        with c.when(fits & (row.word(3) & permission).eq(permission)):
            c.ret(row)
    c.ret(0)


@dataclass(slots=True, eq=False)
class Box:
    """One copy while its function is written: its words, those of the part that is copied, and the address of its tensor map."""

    form: ClassVar[BoxForm] = BoxForm.BOX

    code: Function
    context: Value
    words: Value
    map_address: Value
    store: bool = False
    order: Value = field(init=False)
    fill_order: Value = field(init=False)
    map_host: Value = field(init=False)
    row: Value = field(init=False)
    first: Value = field(init=False)

    @staticmethod
    def emit_find(module: Module) -> None:
        """Emit the function that finds the words of what is copied."""
        emit_find_part(module)

    def same_map(self) -> Value:
        """Return from the function unless this is the tensor map; the row of its allocation, null if it is a parameter."""
        c, context, address = self.code, self.context, self.map_address
        row, host = c.variable("ptr", c.const("ptr", 0)), c.variable("ptr")
        with c.when((address >> 32).eq(PARAM_WINDOW >> 32)) as otherwise:
            inside = (address & 0xFFFFFFFF) - PARAM_BASE
            unless(c, (inside + _MAP_BYTES).ule(context.word(Word.PARAM_SIZE)))
            host.set(context.pointer(Word.PARAM).at(inside))
            otherwise()
            found = self.allocation(address, c.const("i64", _MAP_BYTES), READABLE)
            row.set(found)
            host.set(found.pointer(2).at(address - found.word(0)))
        map_type = f"<{_MAP_BYTES // 8} x i64>"
        differs = host.get().load(map_type, align=1) ^ self.words.load(map_type)
        unless(c, differs.reduce("or").eq(0))
        self.map_host = row.get().ne(0).select(host.get(), 0)
        return row.get()

    def allocation(self, address: Value, size: Value, permission: int) -> Value:
        """The row of the allocation with all these bytes; return from the function if there is none."""
        row = self.code.call("find_allocation", "ptr", self.context, address, size, self.code.const("i64", permission))
        unless(self.code, row.ne(0))
        return row

    def outside(self, copy: Value) -> None:
        """Find the part of the box that is inside the tensor; return from the function where its words are not known."""
        c, words, coordinates = self.code, self.words, copy.at(8 * CopyWord.COORDINATES)
        bits, is_whole, used = c.variable("i64", 0), c.variable("i1", 1), words.variable()
        with c.loop(words.word(BoxWord.RANK), entered=True) as i:
            value = coordinates.load("i64", i)
            is_whole.set(is_whole.get() & value.ult(words.load("i64", i + BoxWord.LIMIT)))
            bits.set(bits.get() + value * words.load("i64", i + BoxWord.PITCH))
        unless(c, (coordinates.word(0) & (words.word(BoxWord.UNIT) - 1)).eq(0))
        with c.when(~is_whole.get()):
            part = c.call("find_part", "ptr", words, coordinates, c.const("i64", self.store))
            unless(c, part.ne(0))
            used.set(part)
        self.words = used.get()
        self.at(self.words.word(BoxWord.ADDRESS) + bits.get().operation("ashr", 3), self.words.word(BoxWord.EXTENT))

    def at(self, address: Value, size: Value) -> None:
        """Find so many bytes in global memory, in which what is copied of the box is; there may be none."""
        self.row = self.row_of(address, size, size.ne(0))
        self.first = address - self.row.word(0)

    def row_of(self, address: Value, size: Value, exist: Value) -> Value:
        """The row of the allocation with so many bytes, if they exist; one of zeros otherwise."""
        row = self.nowhere().variable()
        with self.code.when(exist):
            row.set(self.allocation(address, size, WRITABLE if self.store else READABLE))
        return row.get()

    def nowhere(self) -> Value:
        """A row of no allocation."""
        return self.code.constants("i64", [0, 0, 0, 0])

    def place(self, offset: Value) -> None:
        """Find the order of the chunks at an offset in shared memory; return from the function if it is not known."""
        unless(self.code, (offset & (BOX_ALIGNMENT - 1)).eq(0))
        period = (offset & (BOX_PERIOD - 1)).operation("udiv", BOX_ALIGNMENT)
        self.order, self.fill_order = (self.words.load("ptr", period + word) for word in (BoxWord.INSIDE, BoxWord.FILL_INSIDE))
        unless(self.code, self.order.ne(0))

    def inside(self, rank: Value, offset: Value) -> Value:
        """The host address of the box in the shared memory of a CTA; the emitted function returns unless the box fits there."""
        shared, size = shared_of(self.code, self.context, rank)
        unless(self.code, (offset + self.words.word(BoxWord.FOOTPRINT)).ule(size))
        return shared.at(offset)

    def describe(self, copy: Value, target: Value, receiver: tuple[Value, Value], barrier: tuple[Value, Value], row: ObjectRow) -> None:
        """Tell observers of a copy to a CTA (`CopyWord`)."""
        self.describe_ends(copy, target)
        words: dict[int, Value | int] = {
            CopyWord.RANK: receiver[0],
            CopyWord.OFFSET: receiver[1],
            CopyWord.BARRIER_RANK: barrier[0],
            CopyWord.BARRIER_OFFSET: barrier[1],
            CopyWord.COMPLETES: (row.pending | row.transactions).eq(0).to("i64"),
            CopyWord.NEXT: 0,
            CopyWord.SHARES: 0,
            CopyWord.ADDRESS: self.row.word(0) + self.first,
        }
        copy.set_words(words)

    def describe_ends(self, copy: Value, shared: Value) -> None:
        """Tell observers where a box is in shared and in global memory, and its tensor map."""
        ends = {CopyWord.HOST: shared, CopyWord.BOX: self.words, CopyWord.SOURCE: self.outer(), CopyWord.MAP: self.map_host}
        copy.set_words({word: place.convert("ptrtoint", "i64") for word, place in ends.items()})
        copy.set_word(CopyWord.SIZE, self.words.word(BoxWord.FOOTPRINT))

    def outer(self) -> Value:
        """The host address of the box in global memory."""
        return self.row.pointer(2).at(self.first)

    def fill(self, shared: Value) -> None:
        """Fill the chunks at an address in shared memory of which a part is outside the tensor."""
        words = self.words
        count, source = words.word(BoxWord.FILLED), (words.pointer(BoxWord.FILL), words.pointer(BoxWord.FILL_ORDER))
        with self.code.when(count.ne(0)):
            self.code.call(words.pointer(BoxWord.FILL_MOVE), "void", *source, shared, self.fill_order, count)

    def move(self, shared: Value) -> None:
        """Copy the bytes from or to an address in shared memory."""
        words = self.words
        sides = ((self.outer(), words.pointer(BoxWord.OUTSIDE)), (shared, self.order))
        source, target = reversed(sides) if self.store else sides
        move = words.pointer(BoxWord.STORE if self.store else BoxWord.MOVE)
        self.code.call(move, "void", *source, *target, words.word(BoxWord.COUNT))

    def put(self, shared: Value, operation: str, known: Value, copy: Value) -> None:
        """Copy the bytes from an address in shared memory, or reduce them by an operation, once for each lane."""
        if not operation:
            self.move(shared)
            return
        op = known.word(KEY).to("i32")
        with self.code.each_bit(copy.word(CopyWord.LANE)):
            self.code.call("reduce", "void", self.context, op, self.words, shared, self.order, self.outer())

    def mark(self, map_row: Value) -> None:
        """Mark what has been read or written, where allocations have access maps."""
        c, words, write = self.code, self.words, self.code.const("i32", self.store)
        size, outside, chunk = words.word(BoxWord.ROW_BYTES), words.pointer(BoxWord.OUTSIDE), words.word(BoxWord.CHUNK)
        with c.when((self.row.word(3) & MAP_ADDRESS).ne(0)):
            chunks = size.operation("udiv", chunk)
            with c.loop(words.word(BoxWord.ROWS)) as i:
                start = self.first + outside.load("i64", i * chunks) * chunk
                c.call("mark_range", "void", self.row.word(3), self.row.word(1), start, size, write)
        self.mark_map(map_row)

    def mark_map(self, map_row: Value) -> None:
        """Mark that the tensor map has been read, if it is in memory."""
        c = self.code
        with c.when(map_row.ne(0)), c.when((map_row.word(3) & MAP_ADDRESS).ne(0)):
            at = self.map_address - map_row.word(0)
            c.call("mark_range", "void", map_row.word(3), map_row.word(1), at, c.const("i64", _MAP_BYTES), c.const("i32", 0))
