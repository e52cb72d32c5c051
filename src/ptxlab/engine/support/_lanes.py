"""Compiled helpers that exchange values inside a warp.

Each gets the executing lanes and the row of their membermasks; it returns `CONVERGE` when a live member is not among
them. Lanes with different membermasks form groups of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxlab.engine.context import Status, Word
from ptxlab.engine.faults import Fault
from ptxlab.engine.llvm.builder import Code, Unit, Value
from ptxlab.engine.support.accesses import FAILED, fail

__all__ = ["emit_lanes"]

_PARAMS = [("ptr", "context"), ("i32", "mask"), ("ptr", "members")]


def emit_lanes(unit: Unit, name: str, parts: list[str]) -> None:
    """Emit ``NAME_PART_...`` and what it calls."""
    if name == "together":
        _together(unit)
        return
    _members(unit)
    if name == "elect":
        _elect(unit)
    elif name == "shfl":
        _shfl(unit, *parts)
    elif name == "vote":
        _vote(unit, *parts)
    elif name == "match":
        _match(unit, parts[0], int(parts[1]))
    elif name == "redux":
        _redux(unit, *parts)


def _away(c: Code, context: Value, mask: Value, op: Value) -> None:
    """Return CONVERGE: the split stays at the op."""
    c.set_word(context, Word.ACTIVE, mask)
    c.set_word(context, Word.INFO, op)
    c.set_word(context, Word.PC, op)
    c.ret(int(Status.CONVERGE))


def _members(unit: Unit) -> None:
    """``i32 members(context, mask, members, op)``: 0 if every live member executes, and every lane is its own member."""
    c = Code(unit, "members", "i32", [*_PARAMS, ("i32", "op")], attributes="nounwind")
    context, mask, members, op = c.params
    live = c.word(context, Word.LIVE).to("i32")
    rows = c.load("<32 x i32>", members, 4)
    missing = (rows & c.splat(live & ~mask, 32)).ne(0).cast("i32") & mask
    own = c.raw("shl <32 x i32> splat (i32 1), <" + ", ".join(f"i32 {i}" for i in range(32)) + ">", "<32 x i32>")
    outside = (rows & own).eq(0).cast("i32") & mask
    with c.if_(outside.ne(0), returns=True):
        lane = c.lowest(outside).to("i64")
        fail(c, context, Fault.NOT_MEMBER, lane, c.load("i32", c.at(members, lane << 2), 4), op)
        c.ret(FAILED)
    with c.if_(missing.ne(0), returns=True):
        _away(c, context, mask, op)
    c.ret(0)
    c.finish()


def _together(unit: Unit) -> None:
    """``i32 together(context, mask, op)``: 0 if all live lanes execute."""
    c = Code(unit, "together", "i32", [("ptr", "context"), ("i32", "mask"), ("i32", "op")], attributes="nounwind")
    context, mask, op = c.params
    with c.if_((c.word(context, Word.LIVE).to("i32") & ~mask).ne(0) & mask.ne(0), returns=True):
        _away(c, context, mask, op)
    c.ret(0)
    c.finish()


def _begin(unit: Unit, name: str, params: list[tuple[str, str]]) -> tuple[Code, tuple[Value, ...]]:
    """A function that first makes sure that the members are there; its parameters without context and op."""
    c = Code(unit, name, "i32", [*_PARAMS, *params, ("i32", "op")], attributes="nounwind")
    context, mask, members, *rest, op = c.params
    status = c.call("members", "i32", context, mask, members, op)
    assert status is not None
    with c.if_(status.ne(0), returns=True):
        c.ret(status)
    return c, (mask, members, *rest)


def _lane_row(c: Code, row: Value, lane: Value, type: str = "i32") -> Value:
    return c.load(type, c.at(row, lane << (3 if type == "i64" else 2)), 4)


def _put_bit(c: Code, place: Value, lane: Value, bit: Value) -> None:
    """Set or clear a lane's bit in a mask in memory."""
    one = c.const("i32", 1) << lane.to("i32")
    old = c.load("i32", place, 4)
    c.store(c.select(bit, old | one, old & ~one), place, 4)


def _elect(unit: Unit) -> None:
    """``elect(context, mask, members, target, predicate, op)``: the lowest live lane of the membermask."""
    c, (mask, members, target, predicate) = _begin(unit, "elect", [("ptr", "target"), ("ptr", "predicate")])
    with c.each_lane(mask) as lane:
        leader = c.lowest(_lane_row(c, members, lane) & mask)
        c.store(leader, c.at(target, lane << 2), 4)
        _put_bit(c, predicate, lane, leader.eq(lane.to("i32")))
    c.ret(0)
    c.finish()


def _shfl(unit: Unit, mode: str) -> None:
    """``shfl_MODE(context, mask, members, target, predicate, a, b, c, op)``: section "shfl.sync"."""
    names = ("target", "predicate", "a", "b", "clamp")
    c, (mask, _, target, predicate, a, b, clamp) = _begin(unit, f"shfl_{mode}", [("ptr", n) for n in names])
    copy = c.variable("<32 x i32>", align=64)
    c.store(c.load("<32 x i32>", a, 4), copy, 64)
    found = c.variable("i32", 0)
    with c.each_lane(mask) as lane64:
        lane = lane64.to("i32")
        amount = _lane_row(c, b, lane64) & 31
        packed = _lane_row(c, clamp, lane64)
        segment, limit = (packed >> 8) & 31, packed & 31
        lowest = lane & segment
        highest = lowest | (limit & ~segment)
        if mode == "up":
            source = lane - amount
            inside = source.compare("sge", highest)
        elif mode == "down":
            source = lane + amount
            inside = source.compare("sle", highest)
        elif mode == "bfly":
            source = lane ^ amount
            inside = source.compare("sle", highest)
        else:
            source = lowest | (amount & ~segment)
            inside = source.compare("sle", highest)
        chosen = c.select(inside, source, lane) & 31
        value = c.load("i32", c.at(copy, chosen.to("i64") << 2), 4)
        c.store(value, c.at(target, lane64 << 2), 4)
        c.store(c.load("i32", found, 8) | (inside.to("i32") << lane), found, 8)
    old = c.load("i32", predicate, 4)
    c.store((old & ~mask) | c.load("i32", found, 8), predicate, 4)
    c.ret(0)
    c.finish()


def _vote(unit: Unit, mode: str) -> None:
    """``vote_MODE(context, mask, members, target, value, op)``: ``value`` is the predicate's lane mask."""
    c, (mask, members, target, value) = _begin(unit, f"vote_{mode}", [("ptr", "target"), ("i32", "value")])
    with c.each_lane(mask) as lane:
        group = _lane_row(c, members, lane) & mask
        yes = group & value
        if mode == "ballot":
            c.store(yes, c.at(target, lane << 2), 4)
        else:
            everyone, nobody = yes.eq(group), yes.eq(0)
            result = {"all": lambda: everyone, "any": lambda: ~nobody, "uni": lambda: everyone | nobody}[mode]()
            _put_bit(c, target, lane, result)
    c.ret(0)
    c.finish()


def _match(unit: Unit, mode: str, bits: int) -> None:
    """``match_MODE_BITS(context, mask, members, target, predicate, a, op)``."""
    name = f"match_{mode}_{bits}"
    c, (mask, members, target, predicate, a) = _begin(unit, name, [("ptr", "target"), ("ptr", "predicate"), ("ptr", "a")])
    kind = f"i{bits}"
    copy = c.variable(f"<32 x {kind}>", align=64)
    c.store(c.load(f"<32 x {kind}>", a, 4), copy, 64)
    with c.each_lane(mask) as lane:
        group = _lane_row(c, members, lane) & mask
        mine = c.splat(_lane_row(c, copy, lane, kind), 32)
        same = c.load(f"<32 x {kind}>", copy, 64).eq(mine).cast("i32") & group
        if mode == "all":
            everyone = same.eq(group)
            same = c.select(everyone, group, 0)
            _put_bit(c, predicate, lane, everyone)
        c.store(same, c.at(target, lane << 2), 4)
    c.ret(0)
    c.finish()


def _redux(unit: Unit, mode: str, type: str) -> None:
    """``redux_MODE_TYPE(context, mask, members, target, a, op)``."""
    name = f"redux_{mode}_{type}"
    c, (mask, members, target, a) = _begin(unit, name, [("ptr", "target"), ("ptr", "a")])
    copy = c.variable("<32 x i32>", align=64)
    c.store(c.load("<32 x i32>", a, 4), copy, 64)
    base, *flags = mode.split(".")
    join = _float_join(c, base, "NaN" in flags) if type == "f32" else _join(c, base, type)
    total, got = c.variable("i32", 0), c.variable("i32", 0)
    with c.each_lane(mask) as lane:
        group = _lane_row(c, members, lane) & mask
        c.store(c.const("i32", 0), got, 8)
        with c.each_lane(group) as other:
            value = _lane_row(c, copy, other)
            if "abs" in flags:
                value = value & 0x7FFFFFFF
            known = c.load("i32", got, 8).ne(0)
            c.store(c.select(known, join(c.load("i32", total, 8), value), _single(c, value, type)), total, 8)
            c.store(c.const("i32", 1), got, 8)
        c.store(c.load("i32", total, 8), c.at(target, lane << 2), 4)
    c.ret(0)
    c.finish()


def _single(c: Code, value: Value, type: str) -> Value:
    """A value alone; a NaN becomes the canonical one."""
    if type != "f32":
        return value
    return c.select((value & 0x7FFFFFFF).compare("ugt", 0x7F800000), 0x7FFFFFFF, value)


def _join(c: Code, mode: str, type: str) -> Callable[[Value, Value], Value]:
    if mode in ("min", "max"):
        predicate = ("s" if type == "s32" else "u") + ("lt" if mode == "min" else "gt")
        return lambda a, b: c.select(a.compare(predicate, b), a, b)
    return lambda a, b: c.binary(mode, a, b)


def _float_join(c: Code, mode: str, propagate: bool) -> Callable[[Value, Value], Value]:
    """Minimum or maximum of f32 bits, -0 below +0; a NaN loses, or wins with ``.NaN``."""

    def ordered(a: Value) -> Value:
        sign = c.binary("ashr", a, 31)
        return a ^ (sign & 0x7FFFFFFF)

    def join(a: Value, b: Value) -> Value:
        better = ordered(a).compare("slt" if mode == "min" else "sgt", ordered(b))
        nan_a = (a & 0x7FFFFFFF).compare("ugt", 0x7F800000)
        nan_b = (b & 0x7FFFFFFF).compare("ugt", 0x7F800000)
        chosen = c.select(better, a, b)
        if propagate:
            return c.select(nan_a | nan_b, 0x7FFFFFFF, chosen)
        return c.select(nan_a & nan_b, 0x7FFFFFFF, c.select(nan_a, b, c.select(nan_b, a, chosen)))

    return join
