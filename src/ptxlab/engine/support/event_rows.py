"""What compiled code writes for observers, who read it in bulk: events, and additions of floating-point numbers.

There is one row of fixed size for each access and each fence of a warp. A row is op index | lanes << 32, a number, and the host addresses
of the 32 lanes. The number is the address of a tensor memory access, the lanes whose store changed nothing, or the bytes that each lane of
a cp.async accesses; of services that compiled code completes, the offset of the mbarrier that is waited for, or `Word.ARRIVED`. A cp.async
whose source is watched has further rows for what it reads, one for each number of bytes; their index is larger by the number of ops. That
of the end of a block (`ptxlab.engine.program.Program.noted_ends`) is that of its last op, larger by twice the number of ops.

The table of additions is there to tell which results depend on the order of atomics. A row is (address, agent, additions, flags); an
element's row is found by a hash of its address, and a later element takes it over. After these comes a row with the agent of the next bulk
reduction, and then a row for each op: the element with the most additions of those that it added to, once several agents had added there
and a sum was rounded.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxlab.engine.context import Word
from ptxlab.native.builder import Function, Module, Value

__all__ = [
    "FIRST_OP",
    "NEXT_AGENT",
    "ROUNDED",
    "ROW_BYTES",
    "ROW_WORDS",
    "SAVED_BYTES",
    "SEVERAL",
    "SLOTS",
    "SLOT_BITS",
    "emit_observe",
    "emit_record",
    "emit_replay",
    "emit_save",
    "emit_unchanged",
    "note_addition",
    "note_row",
]

ROW_WORDS = 34
_WIDEST = 32
"""Bytes of the widest access of a thread."""
SAVED_BYTES = 32 * _WIDEST


def emit_observe(module: Module) -> None:
    """``void observe(context, op, mask)``: undefined bits leave the thread in these lanes."""
    c, (context, op, mask) = module.define("void observe(ptr context, i32 op, i32 mask)")
    with c.when(context.word(Word.OBSERVE).ne(0)):
        context.set_words({Word.OBSERVE_OP: op.to("i64"), Word.OBSERVE_MASK: mask.to("i64")})
        c.call(context.pointer(Word.OBSERVE), "void", context)
    c.ret()


def emit_save(module: Module) -> None:
    """``void save(context, mask, hosts, size)``: save the bytes that stores are about to overwrite."""
    c, (context, mask, hosts, size) = module.define("void save(ptr context, i32 mask, ptr hosts, i32 size)")
    saved = context.pointer(Word.EVENT_SAVED)
    with c.each_bit(mask) as lane:
        host, place = hosts.load("ptr", lane), saved.at(lane * _WIDEST)
        for type, at in _parts(c, size.to("i64")):
            place.at(at).store(host.at(at).load(type, align=1), align=1)


def emit_unchanged(module: Module) -> None:
    """``i32 unchanged(context, mask, hosts, size)``: the lanes whose memory holds what was kept."""
    c, (context, mask, hosts, size) = module.define("i32 unchanged(ptr context, i32 mask, ptr hosts, i32 size)")
    saved = context.pointer(Word.EVENT_SAVED)
    same = c.variable("i32", mask)
    with c.each_bit(mask) as lane:
        host, place = hosts.load("ptr", lane), saved.at(lane * _WIDEST)
        differs = c.variable("i64", 0)
        for type, at in _parts(c, size.to("i64")):
            change = host.at(at).load(type, align=1) ^ place.at(at).load(type, align=1)
            differs.set(differs.get() | change.to("i64"))
        with c.when(differs.get().ne(0)):
            same.set(same.get() & ~(c.const("i32", 1) << lane.to("i32")))
    c.ret(same.get())


def _parts(c: Function, size: Value) -> Iterator[tuple[str, Value]]:
    """Emit code for each part of ``size`` bytes: words of 64 bits, then one of each narrower type; yields the type and the first byte."""
    with c.loop(size >> 3) as i:
        yield "i64", i << 3
    for bytes_ in (4, 2, 1):
        with c.when((size & bytes_).ne(0)):
            yield f"i{8 * bytes_}", size & -2 * bytes_


def emit_replay(c: Function, context: Value) -> None:
    """Let the observer's compiled code process the rows, if it has any."""
    words = context.pointer(Word.EVENT_REPLAY)
    with c.when(words.ne(0)):
        c.call(words.pointer(0), "void", context, words)


def emit_record(module: Module) -> None:
    """``void record(context, mask, op, number, hosts)``; ``hosts`` may be null. A full buffer is drained on the spot."""
    c, (context, mask, op, number, hosts) = module.define("void record(ptr context, i32 mask, i32 op, i64 number, ptr hosts)")
    with c.when(mask.eq(0)):
        c.ret()
    with c.when(context.word(Word.EVENT_COUNT).eq(context.word(Word.EVENT_CAPACITY))):
        emit_replay(c, context)
        with c.when(context.word(Word.EVENT_COUNT).ne(0)):
            c.call(context.pointer(Word.EVENT_DRAIN), "void", context)
    row = note_row(context, op.to("i64"), mask.to("i64"), number)
    with c.when(hosts.ne(0)):
        row.store(hosts.load("<32 x i64>"), 2)


def note_row(context: Value, op: Value, mask: Value, number: Value) -> Value:
    """Write a row without addresses, for which there is a place; returns its address."""
    count = context.word(Word.EVENT_COUNT)
    row = context.pointer(Word.EVENTS).at(count * (8 * ROW_WORDS))
    row.set_words({0: op | (mask << 32), 1: number})
    context.set_word(Word.EVENT_COUNT, count + 1)
    return row


# ----------------------------------------------------------------------------------------------------------- additions

SLOT_BITS = 15
SLOTS = 1 << SLOT_BITS
NEXT_AGENT, FIRST_OP = SLOTS, SLOTS + 1
ROW_BYTES = 32
HASH = 0x9E3779B97F4A7C15
ROUNDED, SEVERAL = 1, 2


def note_addition(c: Function, table: Value, op: Value, agent: Value, cell: Value, rounded: Value) -> None:
    """Note one addition to the element at ``cell``."""
    key = cell.convert("ptrtoint", "i64")
    row = table.at((((key >> 1) * HASH) >> (64 - SLOT_BITS)) * ROW_BYTES)
    agent_at, count_at, flags_at = (row.at(8 * i) for i in (1, 2, 3))
    same = row.load("i64").eq(key)
    other = (agent_at.load("i64").ne(agent) & same).to("i64") * SEVERAL
    count = same.select(count_at.load("i64"), 0) + 1
    flags = same.select(flags_at.load("i64"), 0) | other | rounded.to("i64")
    for value, place in ((key, row), (agent, agent_at), (count, count_at), (flags, flags_at)):
        place.store(value)
    with c.when(flags.eq(ROUNDED | SEVERAL)):
        found = table.at((op.to("i64") + FIRST_OP) * ROW_BYTES)
        most = found.load("i64", 2)
        with c.when(most.ult(count)):
            found.store(key)
            found.store(count, 2)
