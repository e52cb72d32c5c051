"""The compiled part of the sanitizer that processes the rows which warps have recorded."""

from __future__ import annotations

from ptxlab.check.model import Component, Kind, Row
from ptxlab.check.race.shadow.shadow_ir import CLUSTER_SHIFT, HOW_SHIFT, OP_WORDS, PROXY_FENCES, READS_TOO, StateWord
from ptxlab.engine.support.event_rows import ROW_WORDS
from ptxlab.native.builder import Function, Module, Value

__all__ = ["emit_drain"]

_ROW_BYTES = 8 * ROW_WORDS
_STORE, _SILENT = Kind.GENERIC << 1 | 1, Kind.SILENT << 1 | 1
_CLOCKS = "<16 x i32>"


def emit_drain(module: Module) -> None:
    """``i64 drain(state, rows, first, count)``: process rows in order; return the index of a row that Python handles, or ``count``."""
    _accesses(module)
    c = Function(module, "drain", "i64", "ptr state, ptr rows, i64 first, i64 count")
    state, rows, start, count = c.parameters
    ops = state.pointer(StateWord.OPS)
    with c.loop(count - start) as i:
        index = start + i
        row = rows.at(index * _ROW_BYTES)
        head = row.load("i64")
        op = head & 0xFFFFFFFF
        info = ops.at(op * (8 * OP_WORDS))
        how, size = info.load("i64"), info.load("i64", 1)
        copy = (how & 0x100).ne(0)
        slot = copy.select(state.word(StateWord.COPY_SLOT), state.word(StateWord.SLOT))
        clock = copy.select(state.word(StateWord.COPY_CLOCK), state.word(StateWord.CLOCK))
        size = copy.select(row.load("i64", 1), size)
        who = (slot << 32) | clock
        with c.when(copy):
            state.set_word(StateWord.COPIED, 1)
        with c.when(((how & 0x10000).eq(0) | (how & 0x20000).ne(0)) & size.ne(0)):
            c.call("accesses", "void", state, row, who, op, how & (31 | READS_TOO), size)
        fence, suspect = (how & sum(PROXY_FENCES.values())).ne(0), state.word(StateWord.SUSPECT_COUNT).ne(0)
        with c.when((how & 0x10000).ne(0) | (fence & suspect)):
            c.ret(index)
        with c.when(fence):
            _proxy_fence(c, state, how)
    c.ret(count)


def _proxy_fence(c: Function, state: Value, how: Value) -> None:
    """The same as `Clocks.proxy_fence`."""
    rows, width = state.pointer(StateWord.ROWS), state.word(StateWord.WIDTH)
    known = rows.at(width * (4 * Row.EXECUTION))
    for row, bit in PROXY_FENCES.items():
        with c.when((how & bit).ne(0)), c.loop(width >> 4) as i:
            old = known.at(i << 6).load(_CLOCKS)
            place = rows.at(width * (4 * row) + (i << 6))
            place.store(old.intrinsic("umax", place.load(_CLOCKS)))
    clock = state.word(StateWord.CLOCK) + 1
    state.set_word(StateWord.CLOCK, clock)
    own = known.at((state.word(StateWord.SLOT) & ((1 << CLUSTER_SHIFT) - 1)) << 2)
    for component in Component:
        own.store(clock.to("i32"), component)


def _accesses(module: Module) -> None:
    """``void accesses(state, row, who, op, how, size)``: record the accesses of a row; contiguous ones are one range."""
    c = Function(module, "accesses", "void", "ptr state, ptr row, i64 who, i64 op, i64 how, i64 size", internal=True)
    state, row, who, op, how, size = c.parameters
    lanes, silent = row.load("i64") >> 32, row.load("i64", 1)
    with c.when(lanes.eq(0xFFFFFFFF) & (how.ne(_STORE) | silent.eq(0))):
        first, length = _block(c, row, size)
        with c.when(length.ne(0)):
            c.call("span", "void", state, first, length, who, op | (how << HOW_SHIFT))
            c.ret()
    _each_lane(c, state, row, (who, op, how, size), lanes, silent)


def _block(c: Function, row: Value, size: Value) -> tuple[Value, Value]:
    """The address and the size of the bytes that 32 lanes access, in any order, if they are contiguous; otherwise the size is 0."""
    addresses = row.load("<32 x i64>", 2)
    first = addresses.reduce("umin")
    offsets = addresses - first
    reach = offsets.reduce("or")
    places = offsets >> size.lowest_bit()
    bits = (c.const("<32 x i64>", 1) << (places & 63)).reduce("or")
    regular = (size & (size - 1)).eq(0) & (reach & (size - 1)).eq(0) & reach.ult(size << 6) & (bits & (bits + 1)).eq(0)
    return first, regular.select(bits.intrinsic("ctpop") * size, 0)


def _each_lane(c: Function, state: Value, row: Value, access: tuple[Value, Value, Value, Value], lanes: Value, silent: Value) -> None:
    """The accesses of a row lane by lane."""
    who, op, how, size = access
    begin, length, kind = (c.variable("i64", 0) for _ in range(3))

    def end_range() -> None:
        known = length.get()
        with c.when(known.ne(0)):
            c.call("span", "void", state, begin.get(), known, who, kind.get())

    with c.each_bit(lanes.to("i32")) as lane:
        is_silent = how.eq(_STORE) & ((silent >> lane) & 1).ne(0)
        what = op | (is_silent.select(_SILENT, how) << HOW_SHIFT)
        address = row.at(16).load("i64", lane)
        first, known = begin.get(), length.get()
        # Swizzles exchange neighbouring addresses.
        below, above = (address + size).eq(first), address.eq(first + known)
        with c.when(~(below | above) | what.ne(kind.get())):
            end_range()
            length.set(0)
            kind.set(what)
        begin.set((above & length.get().ne(0)).select(first, address))
        length.set(length.get() + size)
    end_range()
