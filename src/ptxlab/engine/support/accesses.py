"""Compiled helpers that reach memory: the only code that follows an address out of PTX.

``resolve_*`` turns the addresses of the executing lanes into host addresses, checking alignment, bounds and permission;
the other functions move data between those and rows of the frame. All lanes are handled at once as vectors; lanes that
fail are looked at one by one.
"""

from __future__ import annotations

from ptxlab.engine.context import Word
from ptxlab.engine.faults import Fault
from ptxlab.engine.llvm.builder import Code, Unit, Value
from ptxlab.isa.address_space import LOCAL_WINDOW, PARAM_BASE, PARAM_WINDOW, SHARED_RANK_SHIFT, SHARED_WINDOW

__all__ = ["COUNTS", "FAILED", "emit_addresses", "emit_move", "emit_one", "fail"]

_NEEDS = {"generic": ("cluster", "global", "local", "param", "generic")}
FAILED = 5
"""What helpers return after they noted a fault (`Status.FAULT`)."""

_V = "<32 x i64>"
_LANES = "<" + ", ".join(f"i64 {i}" for i in range(32)) + ">"

COUNTS = {32: (1, 2, 4), 64: (1, 2), 16: (1,), 8: (1,)}
"""Vector sizes that have a function of their own; all others share one that loops."""


def fail(c: Code, context: Value, fault: Fault, lane: Value | int, address: Value | int, op: Value) -> None:
    """Note a fault."""
    c.set_word(context, Word.FAULT, int(fault))
    c.set_word(context, Word.FAULT_LANE, lane)
    c.set_word(context, Word.FAULT_ADDRESS, address)
    c.set_word(context, Word.INFO, op)


def emit_addresses(unit: Unit, space: str, source: str) -> None:
    """Emit ``resolve_SPACE_SOURCE`` and what it calls."""
    for name in _NEEDS.get(space, (space,)):
        emit_one(unit, name)
    _resolve(unit, space, source)


# ------------------------------------------------------------------------------------------------------------- addresses


def _limit(c: Code, total: Value, size: Value) -> Value:
    """How many start addresses fit an access of ``size`` bytes into ``total`` bytes."""
    return c.select(total.compare("uge", size), total - size + 1, 0)


def emit_one(unit: Unit, space: str) -> None:
    """``i64 one_SPACE(context, lane, address, size, align, write, op)``: host address, or 0 after noting the fault."""
    params = [("ptr", "context"), ("i64", "lane"), ("i64", "address"), ("i64", "size"), ("i64", "align"), ("i32", "write"), ("i32", "op")]
    c = Code(unit, f"one_{space}", "i64", params, attributes="nounwind", linkage="internal")
    context, lane, address, _, align, _, op = c.params
    with c.if_((address & (align - 1)).ne(0), returns=True):
        fail(c, context, Fault.MISALIGNED, lane, address, op)
        c.ret(0)
    bodies = {
        "shared": _one_shared,
        "cluster": _one_cluster,
        "global": _one_global,
        "generic": _one_generic,
        "local": _one_local,
        "param": _one_param,
    }
    bodies[space](c, *c.params)
    c.finish()


def _one_shared(c: Code, context: Value, lane: Value, address: Value, size: Value, align: Value, write: Value, op: Value) -> None:
    rank = c.word(context, Word.SHARED_RANK)
    inside = address - rank
    with c.if_(inside.ult(_limit(c, c.word(context, Word.SHARED_SIZE), size)), returns=True):
        c.ret(c.word(context, Word.SHARED) + inside)
    named = address >> SHARED_RANK_SHIFT
    with c.if_(named.ult(c.word(context, Word.CLUSTER_SIZE)) & named.ne(rank >> SHARED_RANK_SHIFT), returns=True):
        fail(c, context, Fault.SHARED_PEER, lane, address, op)
        c.ret(0)
    fail(c, context, Fault.SHARED_RANGE, lane, address, op)
    c.ret(0)


def _one_cluster(c: Code, context: Value, lane: Value, address: Value, size: Value, align: Value, write: Value, op: Value) -> None:
    named = address >> SHARED_RANK_SHIFT
    with c.if_(named.compare("uge", c.word(context, Word.CLUSTER_SIZE)), returns=True):
        fail(c, context, Fault.SHARED_GONE, lane, address, op)
        c.ret(0)
    row = c.at(c.pointer(context, Word.CLUSTER), named << 4)
    total = c.load("i64", c.at(row, 8), 8)
    with c.if_(total.eq(0), returns=True):
        fail(c, context, Fault.SHARED_GONE, lane, address, op)
        c.ret(0)
    inside = address & ((1 << SHARED_RANK_SHIFT) - 1)
    with c.if_(inside.ult(_limit(c, total, size)), returns=True):
        c.ret(c.load("i64", row, 8) + inside)
    fail(c, context, Fault.SHARED_RANGE, lane, address, op)
    c.ret(0)


def _one_global(c: Code, context: Value, lane: Value, address: Value, size: Value, align: Value, write: Value, op: Value) -> None:
    rows = c.pointer(context, Word.ALLOCATIONS)
    low = c.variable("i64", 0)
    high = c.variable("i64", c.word(context, Word.ALLOCATION_COUNT))
    head, body, done = c.label("search"), c.label("step"), c.label("found")
    c.jump(head)
    c.place(head)
    a, b = c.load("i64", low, 8), c.load("i64", high, 8)
    c.branch(a.ult(b), body, done)
    c.place(body)
    middle = (a + b) >> 1
    base = c.load("i64", c.at(rows, middle << 5), 8)
    before = base.compare("ule", address)
    c.store(c.select(before, middle + 1, a), low, 8)
    c.store(c.select(before, b, middle), high, 8)
    c.jump(head)
    c.place(done)
    after = c.load("i64", low, 8)
    with c.if_(after.ne(0)):
        row = c.at(rows, (after - 1) << 5)
        inside = address - c.load("i64", row, 8)
        flags = c.load("i64", c.at(row, 24), 8)
        need = c.select(write.ne(0), c.const("i64", 3), c.const("i64", 1))
        fits = inside.ult(_limit(c, c.load("i64", c.at(row, 8), 8), size)) & (flags & need).eq(need)
        with c.if_(fits, returns=True):
            c.set_word(context, Word.LAST_ALLOCATION, after - 1)
            c.ret(c.load("i64", c.at(row, 16), 8) + inside)
    with c.if_(write.ne(0), returns=True):
        fail(c, context, Fault.GLOBAL_WRITE, lane, address, op)
        c.ret(0)
    fail(c, context, Fault.GLOBAL_READ, lane, address, op)
    c.ret(0)


def _one_generic(c: Code, context: Value, lane: Value, address: Value, size: Value, align: Value, write: Value, op: Value) -> None:
    window = address >> 32
    inside = address & 0xFFFFFFFF
    for base, space in ((SHARED_WINDOW, "cluster"), (LOCAL_WINDOW, "local"), (PARAM_WINDOW, "param")):
        with c.if_(window.eq(base >> 32), returns=True):
            found = c.call(f"one_{space}", "i64", context, lane, inside, size, align, write, op)
            assert found is not None
            with c.if_(found.eq(0)):
                c.set_word(context, Word.FAULT_ADDRESS, address)
            c.ret(found)
    found = c.call("one_global", "i64", context, lane, address, size, align, write, op)
    assert found is not None
    c.ret(found)


def _one_local(c: Code, context: Value, lane: Value, address: Value, size: Value, align: Value, write: Value, op: Value) -> None:
    total = c.word(context, Word.LOCAL_SIZE)
    with c.if_(address.ult(_limit(c, total, size)), returns=True):
        c.ret(c.word(context, Word.LOCAL) + lane * total + address)
    fail(c, context, Fault.LOCAL_RANGE, lane, address, op)
    c.ret(0)


def _one_param(c: Code, context: Value, lane: Value, address: Value, size: Value, align: Value, write: Value, op: Value) -> None:
    with c.if_(write.ne(0), returns=True):
        fail(c, context, Fault.PARAM_WRITE, lane, address, op)
        c.ret(0)
    inside = address - PARAM_BASE
    with c.if_(inside.ult(_limit(c, c.word(context, Word.PARAM_SIZE), size)), returns=True):
        c.ret(c.word(context, Word.PARAM) + inside)
    fail(c, context, Fault.PARAM_RANGE, lane, address, op)
    c.ret(0)


def _resolve(unit: Unit, space: str, source: str) -> None:
    """``i32 resolve_SPACE_SOURCE(context, mask, row, offset, size, write, op, out)``; out: i64[32]; 0 or `FAILED`.

    SOURCE tells the width of the addresses in the row; ``u``: the offset is the address, in all lanes.
    """
    name = f"resolve_{space}_{source}"
    params = [
        ("ptr", "context"),
        ("i32", "mask"),
        ("ptr", "row"),
        ("i64", "offset"),
        ("i32", "bytes"),
        ("i32", "write"),
        ("i32", "op"),
        ("ptr", "out"),
    ]
    c = Code(unit, name, "i32", params, attributes="nounwind")
    context, mask, row, offset, bytes_, write, op, out = c.params
    if source == "32":
        narrow = c.load("<32 x i32>", row, 4) + c.splat(offset.to("i32"), 32)
        address = narrow.to(_V)
    elif source == "64":
        address = c.load(_V, row, 8) + c.splat(offset, 32)
    else:
        address = c.splat(offset, 32)
    size = bytes_.to("i64")
    if space in ("shared", "cluster"):
        inside = address - c.splat(c.word(context, Word.SHARED_RANK), 32)
        limit = _limit(c, c.word(context, Word.SHARED_SIZE), size)
        host = inside + c.splat(c.word(context, Word.SHARED), 32)
    elif space in ("global", "generic"):
        known = c.word(context, Word.LAST_ALLOCATION).ult(c.word(context, Word.ALLOCATION_COUNT))
        limit, host, inside = _last_allocation(c, context, address, size, write, known)
    elif space == "local":
        total = c.word(context, Word.LOCAL_SIZE)
        inside, limit = address, _limit(c, total, size)
        lanes = Value(c, _V, _LANES)
        host = lanes * c.splat(total, 32) + c.splat(c.word(context, Word.LOCAL), 32) + address
    else:
        inside = address - PARAM_BASE
        limit = c.select(write.eq(0), _limit(c, c.word(context, Word.PARAM_SIZE), size), 0)
        host = inside + c.splat(c.word(context, Word.PARAM), 32)
    good = inside.ult(c.splat(limit, 32)) & (address & c.splat(size - 1, 32)).eq(0)
    c.store(host, out, 8)
    bad = ~good.cast("i32") & mask
    with c.if_(bad.ne(0)):
        addresses = c.variable("[32 x i64]", align=64)
        c.store(address, addresses, 64)
        with c.each_lane(bad) as lane:
            at = c.load("i64", c.at(addresses, lane << 3), 8)
            found = c.call(f"one_{space}", "i64", context, lane, at, size, size, write, op)
            assert found is not None
            with c.if_(found.eq(0), returns=True):
                c.ret(FAILED)
            c.store(found, c.at(out, lane << 3), 8)
    c.ret(0)
    c.finish()


def _last_allocation(c: Code, context: Value, address: Value, size: Value, write: Value, known: Value) -> tuple[Value, Value, Value]:
    """Limit, host addresses and offsets if all lanes are in the allocation that was hit last."""
    last = c.select(known, c.word(context, Word.LAST_ALLOCATION), 0)
    rows = c.pointer(context, Word.ALLOCATIONS)
    nothing = c.variable("[4 x i64]")
    for i in range(4):
        c.store(c.const("i64", 0), c.at(nothing, 8 * i), 8)
    row = c.select(known, c.at(rows, last << 5), nothing)
    base, total, data, flags = (c.load("i64", c.at(row, 8 * i), 8) for i in range(4))
    need = c.select(write.ne(0), c.const("i64", 3), c.const("i64", 1))
    limit = c.select((flags & need).eq(need), _limit(c, total, size), 0)
    inside = address - c.splat(base, 32)
    return limit, inside + c.splat(data, 32), inside


# ----------------------------------------------------------------------------------------------------- rows of the frame


def emit_move(unit: Unit, write: bool, memory: int, register: int, signed: bool, count: int) -> None:
    """``void load...(frame, mask, hosts, count, offsets)`` and ``store...``: between the hosts' addresses and rows, lower lanes first.

    Widths in memory and register are part of the name, and the number of elements of a vector unless it is 0 (any number).
    """
    if write:
        name = f"store{memory}from{register}x{count or 'n'}"
    else:
        name = f"load{memory}to{register}{'s' if signed else ''}x{count or 'n'}"
    params = [("ptr", "frame"), ("i32", "mask"), ("ptr", "hosts"), ("i32", "count"), ("ptr", "offsets")]
    c = Code(unit, name, "void", params, attributes="nounwind")
    frame, mask, hosts, many, offsets = c.params

    def element(host: Value, row: Value, lane: Value) -> None:
        if memory == 128:
            for half in range(2):
                cell, place = c.at(host, 8 * half), c.at(c.at(row, 256 * half), lane << 3)
                source, target = (place, cell) if write else (cell, place)
                c.store(c.load("i64", source, 1), target, 1)
            return
        place = c.at(row, lane * (register // 8))
        if write:
            c.store(c.load(f"i{register}", place, register // 8).to(f"i{memory}"), host, 1)
            return
        value = c.load(f"i{memory}", host, 1)
        c.store(value.sext(f"i{register}") if signed else value.to(f"i{register}"), place, register // 8)

    def one_lane(lane: Value) -> None:
        host = c.load("ptr", c.at(hosts, lane << 3), 8)
        for k, row in enumerate(rows):
            element(c.at(host, k * memory // 8), row, lane)
        if not count:
            with c.repeat(many.to("i64")) as n:
                element(c.at(host, n * (memory // 8)), c.at(frame, _offset(c, offsets, n << 2)), lane)

    rows = [c.at(frame, _offset(c, offsets, 4 * k)) for k in range(count)]
    if count:
        with c.if_(mask.eq(-1), returns=True):
            with c.repeat(32) as lane:
                one_lane(lane)
            c.ret()
    with c.each_lane(mask) as lane:
        one_lane(lane)
    c.ret()
    c.finish()


def _offset(c: Code, table: Value, at: Value | int) -> Value:
    """An entry of a table of frame offsets."""
    return c.load("i32", c.at(table, at), 4).to("i64")
