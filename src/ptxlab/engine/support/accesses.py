"""Compiled functions that access memory: the only code that dereferences an address from PTX.

``resolve_*`` turns the addresses of the executing lanes into host addresses, checking alignment, bounds and permission; the other
functions move data between those and rows of the frame. All lanes are handled at once as vectors; lanes that fail are then checked one by
one.
"""

from __future__ import annotations

import re

from ptxlab.engine.context import Status, Word
from ptxlab.engine.faults import Fault
from ptxlab.engine.support.access_maps import PAIR_BYTES, WORD_BYTES, emit_mark, mark_lanes, mark_one, mark_pair
from ptxlab.isa.address_space import LOCAL_WINDOW, PARAM_BASE, PARAM_WINDOW, SHARED_RANK_SHIFT, SHARED_WINDOW
from ptxlab.native.builder import Function, Module, Value

__all__ = [
    "COUNTS",
    "FAILED",
    "all_addresses",
    "converge",
    "emit_addresses",
    "emit_mark_range",
    "emit_mark_ranges",
    "emit_move",
    "emit_one",
    "fail",
    "frame_row",
    "lane_address",
    "last_allocation",
    "rows_up_to",
]

_CALLED = {"generic": ("cluster", "global", "local", "param", "generic")}
"""The functions for one lane that a space needs, if they are not just its own."""
FAILED = int(Status.FAULT)
"""The status that compiled functions return after they recorded a fault."""

_MOVE = re.compile(r"(load|store)(\d+)(?:to|from)(\d+)(s?)x(\w+)")
COUNTS = {32: (1, 2, 4), 64: (1, 2), 16: (1,), 8: (1,)}
"""Vector sizes that have a function of their own; all others share one that loops."""


def fail(context: Value, fault: Fault, lane: Value | int, address: Value | int, op: Value | int, result: int = FAILED) -> None:
    """Record a fault and return."""
    context.set_words({Word.FAULT: int(fault), Word.FAULT_LANE: lane, Word.FAULT_ADDRESS: address, Word.INFO: op})
    context.function.ret(result)


def converge(context: Value, mask: Value, op: Value) -> None:
    """Return `Status.CONVERGE`: these lanes wait at the op for the other live lanes of the warp."""
    context.set_words({Word.ACTIVE: mask, Word.INFO: op, Word.PC: op})
    context.function.ret(int(Status.CONVERGE))


def emit_addresses(module: Module, space: str, source: str) -> None:
    """Emit ``resolve_SPACE_SOURCE`` and what it calls."""
    for name in _CALLED.get(space, (space,)):
        emit_one(module, name)
    _resolve(module, space, source)


# ------------------------------------------------------------------------------------------------------------- addresses


def _limit(total: Value, size: Value) -> Value:
    """How many start addresses fit an access of ``size`` bytes into ``total`` bytes."""
    return total.uge(size).select(total - size + 1, 0)


def rows_up_to(rows: Value, row_bytes: int, count: Value, address: Value) -> Value:
    """How many rows of a sorted table have a first word that is at most ``address``: a binary search."""
    low, high = count.constant(0).variable(), count.variable()
    with rows.function.loop_while(lambda: low.get().ult(high.get())):
        middle = (low.get() + high.get()) >> 1
        before = rows.at(middle * row_bytes).load("i64").ule(address)
        low.set(before.select(middle + 1, low.get()))
        high.set(before.select(high.get(), middle))
    return low.get()


def emit_one(module: Module, space: str) -> None:
    """``i64 one_SPACE(context, lane, address, size, align, write, op)``: host address, or 0 after noting the fault."""
    if space == "global":
        emit_mark(module)
    _OneLane(module, space)


class _OneLane:
    """The function ``one_SPACE`` while it is written."""

    def __init__(self, module: Module, space: str) -> None:
        self.code, parameters = module.define(
            f"i64 one_{space}(ptr context, i64 lane, i64 address, i64 size, i64 align, i32 write, i32 op)", internal=True
        )
        self.context, self.lane, self.address, self.size, align, self.write, self.op = parameters
        with self.code.when((self.address & (align - 1)).ne(0)):
            self._fail(Fault.MISALIGNED)
        emit = {
            "shared": self._shared,
            "cluster": self._cluster,
            "global": self._global,
            "generic": self._generic,
            "local": self._local,
            "param": self._param,
        }
        emit[space]()

    def _fail(self, fault: Fault) -> None:
        fail(self.context, fault, self.lane, self.address, self.op, 0)

    def _found(self, inside: Value, total: Value, host: Value) -> None:
        """Return ``host`` if an access ``inside`` a range of ``total`` bytes fits."""
        with self.code.when(inside.ult(_limit(total, self.size))):
            self.code.ret(host)

    def _shared(self) -> None:
        c, context = self.code, self.context
        rank = context.word(Word.SHARED_RANK)
        inside = self.address - rank
        self._found(inside, context.word(Word.SHARED_SIZE), context.word(Word.SHARED) + inside)
        named = self.address >> SHARED_RANK_SHIFT
        with c.when(named.ult(context.word(Word.CLUSTER_SIZE)) & named.ne(rank >> SHARED_RANK_SHIFT)):
            self._fail(Fault.SHARED_PEER)
        self._fail(Fault.SHARED_RANGE)

    def _cluster(self) -> None:
        c, context = self.code, self.context
        named = self.address >> SHARED_RANK_SHIFT
        with c.when(named.uge(context.word(Word.CLUSTER_SIZE))):
            self._fail(Fault.SHARED_GONE)
        row = context.pointer(Word.CLUSTER).at(named << 4)
        total = row.word(1)
        with c.when(total.eq(0)):
            self._fail(Fault.SHARED_GONE)
        inside = self.address & ((1 << SHARED_RANK_SHIFT) - 1)
        self._found(inside, total, row.word(0) + inside)
        self._fail(Fault.SHARED_RANGE)

    def _global(self) -> None:
        c, context = self.code, self.context
        rows = context.pointer(Word.ALLOCATIONS)
        after = rows_up_to(rows, 32, context.word(Word.ALLOCATION_COUNT), self.address)
        with c.when(after.ne(0)):
            row = rows.at((after - 1) << 5)
            inside = self.address - row.word(0)
            need = self.write.ne(0).select(c.const("i64", 3), 1)
            fits = inside.ult(_limit(row.word(1), self.size)) & (row.word(3) & need).eq(need)
            with c.when(fits):
                context.set_word(Word.LAST_ALLOCATION, after - 1)
                mark_one(row, inside, self.size, self.write)
                c.ret(row.word(2) + inside)
        with c.when(self.write.ne(0)):
            with c.when(context.word(Word.BEFORE_WRITE).ne(0)):
                host = c.call(context.pointer(Word.BEFORE_WRITE), "i64", self.address, self.size)
                with c.when(host.ne(0)):
                    c.ret(host)
            self._fail(Fault.GLOBAL_WRITE)
        self._fail(Fault.GLOBAL_READ)

    def _generic(self) -> None:
        c, (context, lane, address, *rest) = self.code, self.code.parameters
        window, inside = address >> 32, address & 0xFFFFFFFF
        for base, space in ((SHARED_WINDOW, "cluster"), (LOCAL_WINDOW, "local"), (PARAM_WINDOW, "param")):
            with c.when(window.eq(base >> 32)):
                found = c.call(f"one_{space}", "i64", context, lane, inside, *rest)
                with c.when(found.eq(0)):
                    context.set_word(Word.FAULT_ADDRESS, address)
                c.ret(found)
        c.ret(c.call("one_global", "i64", *c.parameters))

    def _local(self) -> None:
        total = self.context.word(Word.LOCAL_SIZE)
        self._found(self.address, total, self.context.word(Word.LOCAL) + self.lane * total + self.address)
        self._fail(Fault.LOCAL_RANGE)

    def _param(self) -> None:
        with self.code.when(self.write.ne(0)):
            self._fail(Fault.PARAM_WRITE)
        inside = self.address - PARAM_BASE
        self._found(inside, self.context.word(Word.PARAM_SIZE), self.context.word(Word.PARAM) + inside)
        self._fail(Fault.PARAM_RANGE)


def lane_address(source: str, row: Value, offset: Value, lane: Value) -> Value:
    """The address that a lane accesses: of 32 or 64 bits in a row, with an offset; if ``source`` is ``u``, the offset itself."""
    if source == "u":
        return offset
    if source == "32":
        return (row.load("i32", lane) + offset.to("i32")).to("i64")
    return row.load("i64", lane) + offset


def all_addresses(source: str, row: Value, offset: Value) -> Value:
    """The addresses of all lanes, as in `lane_address`."""
    if source == "u":
        return offset.splat(32)
    if source == "32":
        return (row.load("<32 x i32>") + offset.to("i32")).to("i64")
    return row.load("<32 x i64>") + offset


def _resolve(module: Module, space: str, source: str) -> None:
    """``i32 resolve_SPACE_SOURCE(context, mask, row, offset, size, write, op, out)``; out: i64[32]; 0 or `FAILED`.

    SOURCE is the width in bits of the addresses in the row; ``u``: the address is uniform, it is the offset.
    """
    c, (context, mask, registers, offset, bytes_, write, op, out) = module.define(
        f"i32 resolve_{space}_{source}(ptr context, i32 mask, ptr row, i64 offset, i32 bytes, i32 write, i32 op, ptr out)"
    )
    address = all_addresses(source, registers, offset)
    size = bytes_.to("i64")
    if space in ("shared", "cluster"):
        inside = address - context.word(Word.SHARED_RANK)
        limit = _limit(context.word(Word.SHARED_SIZE), size)
        host = inside + context.word(Word.SHARED)
    elif space in ("global", "generic"):
        row, limit = last_allocation(c, context, size, write)
        inside = address - row.word(0)
        host = inside + row.word(2)
    elif space == "local":
        total = context.word(Word.LOCAL_SIZE)
        inside, limit = address, _limit(total, size)
        host = c.lanes("i64", 32) * total + context.word(Word.LOCAL) + address
    else:
        inside = address - PARAM_BASE
        limit = write.eq(0).select(_limit(context.word(Word.PARAM_SIZE), size), 0)
        host = inside + context.word(Word.PARAM)
    good = inside.ult(limit) & (address & (size - 1)).eq(0)
    out.store(host)
    if space in ("global", "generic"):
        mark_lanes(row, good.cast("i32") & mask, inside, size, write)
    bad = ~good.cast("i32") & mask
    with c.when(bad.ne(0)):
        addresses = c.stack("<32 x i64>", align=64)
        addresses.store(address, align=64)
        with c.each_bit(bad) as lane:
            found = c.call(f"one_{space}", "i64", context, lane, addresses.load("i64", lane), size, size, write, op)
            with c.when(found.eq(0)):
                c.ret(FAILED)
            out.store(found, lane)
    c.ret(0)


def last_allocation(c: Function, context: Value, size: Value, write: Value) -> tuple[Value, Value]:
    """The row of the allocation that was hit last, a row of zeros if there is none; and how many start addresses fit into it."""
    last = context.word(Word.LAST_ALLOCATION)
    known = last.ult(context.word(Word.ALLOCATION_COUNT))
    nothing = c.stack("[4 x i64]")
    for i in range(4):
        nothing.set_word(i, 0)
    row = known.select(context.pointer(Word.ALLOCATIONS).at(known.select(last, 0) << 5), nothing)
    need = write.ne(0).select(c.const("i64", 3), 1)
    return row, (row.word(3) & need).eq(need).select(_limit(row.word(1), size), 0)


def emit_mark_range(module: Module) -> None:
    """``void mark_range(flags, total, inside, size, write)``: bytes of an allocation that has an access map are accessed."""
    emit_mark(module)
    c, (flags, total, inside, size, write) = module.define(
        "void mark_range(i64 flags, i64 total, i64 inside, i64 size, i32 write)", internal=True
    )
    at, left, part = inside.variable(), size.variable(), c.variable("i64")
    with c.loop_while(lambda: left.get().ne(0)):
        with c.when((at.get() & (PAIR_BYTES - 1)).eq(0) & left.get().uge(PAIR_BYTES)) as otherwise:
            mark_pair(flags, total, at.get(), write)
            part.set(PAIR_BYTES)
            otherwise()
            to_boundary = c.const("i64", WORD_BYTES) - (at.get() & (WORD_BYTES - 1))
            part.set(left.get().ult(to_boundary).select(left.get(), to_boundary))
            c.call("mark", "void", flags, total, at.get(), part.get(), write)
        at.set(at.get() + part.get())
        left.set(left.get() - part.get())
    c.ret()


def emit_mark_ranges(module: Module) -> None:
    """``void markranges(rows, count, starts, sizes, step, number, write)``: mark ranges of host memory.

    Rows are (host address, bytes, flags) of allocations by host address; what lies in none of them is left out. ``step`` is the distance
    of the sizes in bytes, 0 if there is one for all ranges.
    """
    emit_mark_range(module)
    c, (rows, count, starts, sizes, step, number, write) = module.define(
        "void markranges(ptr rows, i64 count, ptr starts, ptr sizes, i64 step, i64 number, i32 write)"
    )
    with c.loop(number) as k:
        start, size = starts.load("i64", k), sizes.at(k * step).load("i32").to("i64")
        after = rows_up_to(rows, 24, count, start)
        with c.when(after.ne(0)):
            row = rows.at((after - 1) * 24)
            first = start - row.word(0)
            with c.when(first.ult(row.word(1))):
                c.call("mark_range", "void", row.word(2), row.word(1), first, size, write)
    c.ret()


# ----------------------------------------------------------------------------------------------------- rows of the frame


def emit_move(module: Module, name: str) -> None:
    """``void load...(frame, mask, hosts, count, offsets)`` and ``store...``: between the hosts' addresses and rows.

    Lanes store in the order of `store_order`. Widths in memory and register are part of the name, and the number of elements of a
    vector, or n for any number.
    """
    moved = _MOVE.fullmatch(name)
    assert moved is not None, name
    write, signed = moved[1] == "store", bool(moved[4])
    memory, register, count = int(moved[2]), int(moved[3]), 0 if moved[5] == "n" else int(moved[5])
    c, (frame, mask, hosts, many, offsets) = module.define(f"void {name}(ptr frame, i32 mask, ptr hosts, i32 count, ptr offsets)")

    def element(host: Value, row: Value, lane: Value) -> None:
        if memory == 128:
            for half in range(2):
                cell, place = host.at(8 * half), row.at(256 * half).at(lane << 3)
                source, target = (place, cell) if write else (cell, place)
                target.store(source.load("i64", align=1), align=1)
        elif write:
            host.store(row.load(f"i{register}", lane).to(f"i{memory}"), align=1)
        else:
            value = host.load(f"i{memory}", align=1)
            row.store(value.sext(f"i{register}") if signed and register > memory else value.to(f"i{register}"), lane)

    def one_lane(lane: Value) -> None:
        host = hosts.load("ptr", lane)
        for k, row in enumerate(rows):
            element(host.at(k * memory // 8), row, lane)
        if not count:
            with c.loop(many.to("i64")) as n:
                element(host.at(n * (memory // 8)), frame_row(frame, offsets, n), lane)

    rows = [frame_row(frame, offsets, k) for k in range(count)]
    order, lanes = c.const("i64", 0), mask
    if write:
        size = c.const("i64", memory // 8 * count) if count else many.to("i64") * (memory // 8)
        order = size.ule(4).select(31, size.constant(128).operation("udiv", size) - 1)
        lanes = mask.intrinsic("bitreverse")
        for step, bits in ((16, 0xFFFF), (8, 0xFF00FF), (4, 0xF0F0F0F)):
            lanes = (order & step).eq(0).select((lanes & bits) << step | (lanes >> step & bits), lanes)
    if count:
        with c.when(mask.eq(-1)):
            with c.loop(32, entered=True) as i:
                one_lane(i ^ order)
            c.ret()
    with c.each_bit(lanes) as i:
        one_lane(i ^ order)


def frame_row(frame: Value, offsets: Value, index: Value | int) -> Value:
    """The row of the frame that an entry of a table of offsets names."""
    return frame.at(offsets.load("i32", index).to("i64"))
