"""Compiled helpers that exchange values inside a warp.

Each gets the executing lanes and the row of their membermasks; it returns `CONVERGE` when a live member is not among
them. Lanes with different membermasks form groups of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ptxlab.engine.context import Word
from ptxlab.engine.faults import Fault
from ptxlab.engine.support.accesses import converge, fail, frame_row
from ptxlab.isa.native_ops import matrix_layout
from ptxlab.native.builder import Function, Module, Value

__all__ = ["emit_lanes", "emit_matrix", "emit_undecided", "float_extreme"]


def emit_lanes(module: Module, name: str, parts: list[str]) -> None:
    """Emit ``NAME_PART_...`` and what it calls."""
    if name != "together":
        _members(module)
    emit: dict[str, Callable[..., None]] = {"together": _together, "elect": _elect, "shfl": _shfl, "vote": _vote, "match": _match}
    if name != "members":
        (emit | {"redux": _redux})[name](module, *parts)


def _members(module: Module) -> None:
    """``i32 members(context, mask, members, op)``: 0 if every live member executes, and every lane is its own member."""
    c, (context, mask, members, op) = module.define("i32 members(ptr context, i32 mask, ptr members, i32 op)")
    live = context.word(Word.LIVE).to("i32")
    rows = members.load("<32 x i32>")
    missing = (rows & (live & ~mask)).ne(0).cast("i32") & mask
    own = c.const("<32 x i32>", 1) << c.lanes("i32", 32)
    outside = (rows & own).eq(0).cast("i32") & mask
    with c.when(outside.ne(0)):
        lane = outside.lowest_bit().to("i64")
        fail(context, Fault.NOT_MEMBER, lane, members.load("i32", lane), op)
    with c.when(missing.ne(0)):
        converge(context, mask, op)
    c.ret(0)


def _together(module: Module) -> None:
    """``i32 together(context, mask, op)``: 0 if all live lanes execute."""
    c, (context, mask, op) = module.define("i32 together(ptr context, i32 mask, i32 op)")
    with c.when((context.word(Word.LIVE).to("i32") & ~mask).ne(0) & mask.ne(0)):
        converge(context, mask, op)
    c.ret(0)


def _begin(module: Module, name: str, parameters: str) -> tuple[Function, tuple[Value, ...]]:
    """A function that first makes sure that the members are there; its parameters without context and op."""
    c, (context, mask, members, *rest, op) = module.define(f"i32 {name}(ptr context, i32 mask, ptr members, {parameters}, i32 op)")
    status = c.call("members", "i32", context, mask, members, op)
    with c.when(status.ne(0)):
        c.ret(status)
    return c, (mask, members, *rest)


def _put_bit(c: Function, place: Value, lane: Value, bit: Value) -> None:
    """Set or clear a lane's bit in a mask in memory."""
    one = c.const("i32", 1) << lane.to("i32")
    old = place.load("i32")
    place.store(bit.select(old | one, old & ~one))


def _elect(module: Module) -> None:
    """``elect(context, mask, members, target, predicate, op)``: the lowest live lane of the membermask."""
    c, (mask, members, target, predicate) = _begin(module, "elect", "ptr target, ptr predicate")
    with c.each_bit(mask) as lane:
        leader = (members.load("i32", lane) & mask).lowest_bit()
        target.store(leader, lane)
        _put_bit(c, predicate, lane, leader.eq(lane.to("i32")))
    c.ret(0)


def _shfl(module: Module, mode: str) -> None:
    """``shfl_MODE(context, mask, members, target, predicate, a, b, c, op)``: section "shfl.sync"."""
    c, (mask, _, target, predicate, a, b, clamp) = _begin(module, f"shfl_{mode}", "ptr target, ptr predicate, ptr a, ptr b, ptr clamp")
    copy = c.stack("<32 x i32>", align=64)
    copy.store(a.load("<32 x i32>"), align=64)
    found = c.variable("i32", 0)
    with c.each_bit(mask) as lane64:
        lane = lane64.to("i32")
        amount = b.load("i32", lane64) & 31
        packed = clamp.load("i32", lane64)
        segment, limit = (packed >> 8) & 31, packed & 31
        lowest = lane & segment
        highest = lowest | (limit & ~segment)
        moved = {"up": lane.__sub__, "down": lane.__add__, "bfly": lane.__xor__}
        source = moved[mode](amount) if mode in moved else lowest | (amount & ~segment)
        inside = source.ge(highest) if mode == "up" else source.le(highest)
        chosen = inside.select(source, lane) & 31
        value = copy.load("i32", chosen.to("i64"))
        target.store(value, lane64)
        found.set(found.get() | (inside.to("i32") << lane))
    old = predicate.load("i32")
    predicate.store((old & ~mask) | found.get())
    c.ret(0)


def _vote(module: Module, mode: str) -> None:
    """``vote_MODE(context, mask, members, target, value, op)``: ``value`` is the predicate's lane mask."""
    c, (mask, members, target, value) = _begin(module, f"vote_{mode}", "ptr target, i32 value")
    with c.each_bit(mask) as lane:
        group = members.load("i32", lane) & mask
        yes = group & value
        if mode == "ballot":
            target.store(yes, lane)
        else:
            everyone, nobody = yes.eq(group), yes.eq(0)
            _put_bit(c, target, lane, {"all": everyone, "any": ~nobody, "uni": everyone | nobody}[mode])
    c.ret(0)


def _match(module: Module, mode: str, bits: str) -> None:
    """``match_MODE_BITS(context, mask, members, target, predicate, a, op)``."""
    c, (mask, members, target, predicate, a) = _begin(module, f"match_{mode}_{bits}", "ptr target, ptr predicate, ptr a")
    kind = f"i{bits}"
    copy = c.stack(f"<32 x {kind}>", align=64)
    copy.store(a.load(f"<32 x {kind}>"), align=64)
    with c.each_bit(mask) as lane:
        group = members.load("i32", lane) & mask
        mine = copy.load(kind, lane)
        same = copy.load(f"<32 x {kind}>", align=64).eq(mine).cast("i32") & group
        if mode == "all":
            everyone = same.eq(group)
            same = everyone.select(group, 0)
            _put_bit(c, predicate, lane, everyone)
        target.store(same, lane)
    c.ret(0)


def emit_undecided(module: Module, name: str, bits: str) -> None:
    """``void undecided_BITS(mask, members, target, undefined, a)``: for match.any, the lanes that may have the value of a lane or not."""
    c, (mask, members, target, undefined, a) = module.define(f"void {name}(i32 mask, ptr members, ptr target, ptr undefined, ptr a)")
    row = f"<32 x i{bits}>"
    copy = c.stack(row, align=64)
    copy.store(undefined.load(row, align=64), align=64)
    with c.each_bit(mask) as lane:
        either = copy.load(row, align=64) | copy.load(f"i{bits}", lane)
        differ = (a.load(row, align=64) ^ a.load(f"i{bits}", lane)) & ~either
        others = members.load("i32", lane) & mask & ~(c.const("i32", 1) << lane.to("i32"))
        target.store((either.ne(0) & differ.eq(0)).cast("i32") & others, lane)
    c.ret()


def _redux(module: Module, mode: str, type: str) -> None:
    """``redux_MODE_TYPE(context, mask, members, target, a, op)``."""
    c, (mask, members, target, a) = _begin(module, f"redux_{mode}_{type}", "ptr target, ptr a")
    copy = c.stack("<32 x i32>", align=64)
    copy.store(a.load("<32 x i32>"), align=64)
    base, *flags = mode.split(".")
    join = partial(float_extreme, base, 0x7F800000, propagate="NaN" in flags) if type == "f32" else _join(base, type)
    total, got = c.variable("i32", 0), c.variable("i32", 0)
    with c.each_bit(mask) as lane:
        group = members.load("i32", lane) & mask
        got.set(0)
        with c.each_bit(group) as other:
            value = copy.load("i32", other)
            if "abs" in flags:
                value = value & 0x7FFFFFFF
            known = got.get().ne(0)
            alone = (value & 0x7FFFFFFF).ugt(0x7F800000).select(0x7FFFFFFF, value) if type == "f32" else value
            total.set(known.select(join(total.get(), value), alone))
            got.set(1)
        target.store(total.get(), lane)
    c.ret(0)


def _join(mode: str, type: str) -> Callable[[Value, Value], Value]:
    if mode in ("min", "max"):
        predicate = ("s" if type == "s32" else "u") + ("lt" if mode == "min" else "gt")
        return lambda a, b: a.compare(predicate, b).select(a, b)
    return lambda a, b: a.operation(mode, b)


def float_extreme(mode: str, infinity: int, a: Value, b: Value, propagate: bool = False) -> Value:
    """Minimum or maximum of the bits of floats, -0 below +0; a NaN loses, or wins if it is to propagate. ``infinity``: that of the type."""
    sign = infinity.bit_length()

    def ordered(bits: Value) -> Value:
        return bits ^ (bits.operation("ashr", sign) & ((1 << sign) - 1))

    better = ordered(a).lt(ordered(b)) if mode == "min" else ordered(a).gt(ordered(b))
    nan_a, nan_b = ((bits & ((1 << sign) - 1)).ugt(infinity) for bits in (a, b))
    chosen = better.select(a, b)
    if propagate:
        return (nan_a | nan_b).select((1 << sign) - 1, chosen)
    return (nan_a & nan_b).select((1 << sign) - 1, nan_a.select(b, nan_b.select(a, chosen)))


def emit_matrix(module: Module, name: str) -> None:
    """``void ...(frame, mask, hosts, registers, offsets)``.

    ``hosts`` has the rows, one for each lane that gives an address, eight for each register.
    """
    kind, _, element = name.partition("_")
    write, transposed = kind == "stmatrix", element[-1] == "t"
    element = element.removesuffix("t")
    c, (frame, mask, hosts, count, offsets) = module.define(f"void {name}(ptr frame, i32 mask, ptr hosts, i32 count, ptr offsets)")
    size = 2 if element == "b16" else 1
    values = matrix_layout(write, element, transposed)
    rows, columns = values.coefficients("R"), values.coefficients("C")
    with c.loop(count.to("i64")) as index:
        register = frame_row(frame, offsets, index)
        with c.each_bit(mask) as lane:
            for part in range(4 // size):
                value = index * (4 // size) + part
                row, column = rows(lane, value), columns(lane, value)
                host = hosts.load("ptr", row)
                held = register.at((lane << 2) + size * part)
                if write:
                    host.at(column * size).store(held.load(f"i{8 * size}", align=size), align=1)
                else:
                    held.store(_element(host, element, column), align=size)


def _element(host: Value, element: str, column: Value) -> Value:
    """One element of a row; those of fewer than 8 bits are packed, low bits first."""
    if element == "b16":
        return host.at(column << 1).load("i16", align=1)
    if element == "b8":
        return host.load("i8", column)
    width = int(element[1:])
    bit = column * width
    # Two bytes hold the element wherever it begins; of the last ones, one.
    low = host.load("i8", bit >> 3).to("i16")
    high = host.load("i8", (bit + (width - 1)) >> 3).to("i16")
    word = ((high << 8) | low) >> (bit & 7).to("i16") & ((1 << width) - 1)
    if element == "s4":
        word = (word ^ 8) - 8
    return word.to("i8")
