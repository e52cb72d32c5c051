"""The compiled part of the sanitizer that goes through what warps have recorded."""

from __future__ import annotations

from ptxlab.check.model import Component, Kind, Row
from ptxlab.check.race.shadow.shadow_ir import CLUSTER_SHIFT, HOW_SHIFT, OP_WORDS, PROXY_FENCES, StateWord
from ptxlab.engine.llvm.builder import Code, Unit, Value
from ptxlab.engine.support.event_rows import ROW_WORDS

__all__ = ["emit_drain"]

_ROW_BYTES = 8 * ROW_WORDS
_STORE, _SILENT = Kind.GENERIC << 1 | 1, Kind.SILENT << 1 | 1
_CLOCKS = "<16 x i32>"


def emit_drain(unit: Unit) -> None:
    """``i64 drain(state, rows, first, count)``: recorded rows in order; the index of one that Python has to see, or ``count``."""
    c = Code(unit, "drain", "i64", [("ptr", "state"), ("ptr", "rows"), ("i64", "first"), ("i64", "count")], attributes="nounwind")
    state, rows, start, count = c.params
    ops = c.pointer(state, StateWord.OPS)
    with c.repeat(count - start) as i:
        index = start + i
        row = c.at(rows, index * _ROW_BYTES)
        head = c.load("i64", row, 8)
        op = head & 0xFFFFFFFF
        info = c.at(ops, op * (8 * OP_WORDS))
        how, size = c.load("i64", info, 8), c.load("i64", c.at(info, 8), 8)
        copy = (how & 0x100).ne(0)
        slot = c.select(copy, c.word(state, StateWord.COPY_SLOT), c.word(state, StateWord.SLOT))
        clock = c.select(copy, c.word(state, StateWord.COPY_CLOCK), c.word(state, StateWord.CLOCK))
        who = (slot << 32) | clock
        with c.if_(copy):
            c.set_word(state, StateWord.COPIED, 1)
        with c.if_(((how & 0x10000).eq(0) | (how & 0x20000).ne(0)) & size.ne(0)):
            _lanes(c, state, row, (who, op, how & 31, size))
        fence, suspect = (how & sum(PROXY_FENCES.values())).ne(0), c.word(state, StateWord.SUSPECT_COUNT).ne(0)
        with c.if_((how & 0x10000).ne(0) | (fence & suspect), returns=True):
            c.ret(index)
        with c.if_(fence):
            _proxy_fence(c, state, how)
    c.ret(count)
    c.finish()


def _proxy_fence(c: Code, state: Value, how: Value) -> None:
    """`Clocks.proxy_fence`."""
    rows, width = c.pointer(state, StateWord.ROWS), c.word(state, StateWord.WIDTH)
    known = c.at(rows, width * (4 * Row.EXECUTION))
    for row, bit in PROXY_FENCES.items():
        with c.if_((how & bit).ne(0)), c.repeat(width >> 4) as i:
            old = c.load(_CLOCKS, c.at(known, i << 6), 4)
            place = c.at(rows, width * (4 * row) + (i << 6))
            c.store(c.intrinsic("umax.v16i32", _CLOCKS, old, c.load(_CLOCKS, place, 4)), place, 4)
    clock = c.word(state, StateWord.CLOCK) + 1
    c.set_word(state, StateWord.CLOCK, clock)
    own = c.at(known, (c.word(state, StateWord.SLOT) & ((1 << CLUSTER_SHIFT) - 1)) << 2)
    for component in Component:
        c.store(clock.to("i32"), c.at(own, 4 * component), 4)


def _lanes(c: Code, state: Value, row: Value, access: tuple[Value, Value, Value, Value]) -> None:
    """The accesses of a row's lanes; neighbours in memory are one range."""
    who, op, how, size = access
    lanes, silent = c.load("i64", row, 8) >> 32, c.load("i64", c.at(row, 8), 8)
    whole, apart, done = c.label("whole"), c.label("apart"), c.label("done")
    c.branch(lanes.eq(0xFFFFFFFF) & (how.ne(_STORE) | silent.eq(0)), whole, apart)
    c.place(whole)
    first, length = _block(c, row, size)
    together = c.label("together")
    c.branch(length.ne(0), together, apart)
    c.place(together)
    c.call("span", "void", state, first, length, who, op | (how << HOW_SHIFT))
    c.jump(done)
    c.place(apart)
    _each_lane(c, state, row, access, lanes, silent)
    c.jump(done)
    c.place(done)


def _block(c: Code, row: Value, size: Value) -> tuple[Value, Value]:
    """The first byte and the bytes of what 32 lanes reach, in whatever order, if that is one block; else 0 bytes."""

    def reduced(operation: str, values: Value) -> Value:
        return c.intrinsic(f"vector.reduce.{operation}.v32i64", "i64", values)

    addresses = c.load("<32 x i64>", c.at(row, 16), 8)
    first = reduced("umin", addresses)
    offsets = addresses - c.splat(first, 32)
    reach = reduced("or", offsets)
    places = offsets >> c.splat(c.intrinsic("cttz.i64", "i64", size, extra="i1 false"), 32)
    bits = reduced("or", c.const("<32 x i64>", 1) << (places & 63))
    regular = (size & (size - 1)).eq(0) & (reach & (size - 1)).eq(0) & reach.ult(size << 6) & (bits & (bits + 1)).eq(0)
    return first, c.select(regular, c.intrinsic("ctpop.i64", "i64", bits) * size, 0)


def _each_lane(c: Code, state: Value, row: Value, access: tuple[Value, Value, Value, Value], lanes: Value, silent: Value) -> None:
    """The accesses of a row lane by lane."""
    who, op, how, size = access
    begin, length, kind = (c.variable("i64", 0) for _ in range(3))

    def end_range() -> None:
        known = c.load("i64", length, 8)
        with c.if_(known.ne(0)):
            c.call("span", "void", state, c.load("i64", begin, 8), known, who, c.load("i64", kind, 8))

    with c.each_lane(lanes.to("i32")) as lane:
        is_silent = how.eq(_STORE) & ((silent >> lane) & 1).ne(0)
        what = op | (c.select(is_silent, _SILENT, how) << HOW_SHIFT)
        address = c.load("i64", c.at(c.at(row, 16), lane << 3), 8)
        first, known = c.load("i64", begin, 8), c.load("i64", length, 8)
        # Swizzled neighbours change places.
        below, behind = (address + size).eq(first), address.eq(first + known)
        with c.if_(~(below | behind) | what.ne(c.load("i64", kind, 8))):
            end_range()
            c.store(c.const("i64", 0), length, 8)
            c.store(what, kind, 8)
        c.store(c.select(behind & c.load("i64", length, 8).ne(0), first, address), begin, 8)
        c.store(c.load("i64", length, 8) + size, length, 8)
    end_range()
