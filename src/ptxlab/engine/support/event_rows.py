"""Recording: one row of fixed size for each access and each fence of a warp, for observers to read in bulk.

A row is op index | lanes << 32, a number (the address of a tensor memory access; the lanes whose store changed nothing), and the host
addresses of the 32 lanes. Where sources are watched, cp.async has a second row, of the lanes that read their whole source: its index is
the number of ops more.
"""

from __future__ import annotations

from ptxlab.engine.context import Word
from ptxlab.native.builder import Function, Module

__all__ = ["ROW_WORDS", "SAVED_BYTES", "emit_observe", "emit_record", "emit_save", "emit_unchanged"]

ROW_WORDS = 34
_WIDEST = 32
"""Bytes of the widest access of a thread."""
SAVED_BYTES = 32 * _WIDEST


def emit_observe(module: Module) -> None:
    """``void observe(context, op, mask)``: undefined bits leave the thread in these lanes."""
    c = Function(module, "observe", "void", "ptr context, i32 op, i32 mask")
    context, op, mask = c.parameters
    with c.when(context.word(Word.OBSERVE).ne(0)):
        context.set_words({Word.OBSERVE_OP: op.to("i64"), Word.OBSERVE_MASK: mask.to("i64")})
        c.call(context.pointer(Word.OBSERVE), "void", context)
    c.ret()


def emit_save(module: Module) -> None:
    """``void save(context, mask, hosts, size)``: save the bytes that stores are about to overwrite."""
    c = Function(module, "save", "void", "ptr context, i32 mask, ptr hosts, i32 size")
    context, mask, hosts, size = c.parameters
    saved = context.pointer(Word.EVENT_SAVED)
    with c.each_bit(mask) as lane:
        host, place = hosts.load("ptr", lane), saved.at(lane * _WIDEST)
        with c.when(size.eq(4)):
            place.store(host.load("i32", align=1), align=1)
        with c.when(size.ne(4)), c.loop(size.to("i64")) as i:
            place.at(i).store(host.load("i8", i), align=1)


def emit_unchanged(module: Module) -> None:
    """``i32 unchanged(context, mask, hosts, size)``: the lanes whose memory holds what was kept."""
    c = Function(module, "unchanged", "i32", "ptr context, i32 mask, ptr hosts, i32 size")
    context, mask, hosts, size = c.parameters
    saved = context.pointer(Word.EVENT_SAVED)
    same = c.variable("i32", mask)
    with c.each_bit(mask) as lane:
        host, place = hosts.load("ptr", lane), saved.at(lane * _WIDEST)
        differs = c.variable("i8", 0)
        with c.loop(size.to("i64")) as i:
            change = host.load("i8", i) ^ place.load("i8", i)
            differs.set(differs.get() | change)
        with c.when(differs.get().ne(0)):
            same.set(same.get() & ~(c.const("i32", 1) << lane.to("i32")))
    c.ret(same.get())


def emit_record(module: Module) -> None:
    """``void record(context, mask, op, number, hosts)``; ``hosts`` may be null. A full buffer is drained on the spot."""
    c = Function(module, "record", "void", "ptr context, i32 mask, i32 op, i64 number, ptr hosts")
    context, mask, op, number, hosts = c.parameters
    with c.when(mask.eq(0)):
        c.ret()
    with c.when(context.word(Word.EVENT_COUNT).eq(context.word(Word.EVENT_CAPACITY))):
        c.call(context.pointer(Word.EVENT_DRAIN), "void", context)
    count = context.word(Word.EVENT_COUNT)
    row = context.pointer(Word.EVENTS).at(count * (8 * ROW_WORDS))
    row.store(op.to("i64") | (mask.to("i64") << 32))
    row.store(number, 1)
    with c.when(hosts.ne(0)):
        row.store(hosts.load("<32 x i64>"), 2)
    context.set_word(Word.EVENT_COUNT, count + 1)
