"""Recording: one row of fixed size for each access and each fence of a warp, for observers to read in bulk.

A row is op index | lanes << 32, a number (the address of a tensor memory access; the lanes whose store changed nothing), and the host
addresses of the 32 lanes. Where sources are watched, cp.async has a second row, of the lanes that read their whole source: its index is
the number of ops more.
"""

from __future__ import annotations

from ptxlab.engine.context import Word
from ptxlab.engine.llvm.builder import Code, Unit

__all__ = ["ROW_WORDS", "SAVED_BYTES", "emit_record", "emit_save", "emit_unchanged"]

ROW_WORDS = 34
_WIDEST = 32
"""Bytes of the widest access of a thread."""
SAVED_BYTES = 32 * _WIDEST


def emit_save(unit: Unit) -> None:
    """``void save(context, mask, hosts, size)``: keep what stores are about to overwrite."""
    c = Code(unit, "save", "void", [("ptr", "context"), ("i32", "mask"), ("ptr", "hosts"), ("i32", "size")], attributes="nounwind")
    context, mask, hosts, size = c.params
    saved = c.pointer(context, Word.EVENT_SAVED)
    with c.each_lane(mask) as lane:
        host, place = c.load("ptr", c.at(hosts, lane << 3), 8), c.at(saved, lane * _WIDEST)
        with c.if_(size.eq(4)):
            c.store(c.load("i32", host), place)
        with c.if_(size.ne(4)), c.repeat(size.to("i64")) as i:
            c.store(c.load("i8", c.at(host, i)), c.at(place, i))
    c.ret()
    c.finish()


def emit_unchanged(unit: Unit) -> None:
    """``i32 unchanged(context, mask, hosts, size)``: the lanes whose memory holds what was kept."""
    c = Code(unit, "unchanged", "i32", [("ptr", "context"), ("i32", "mask"), ("ptr", "hosts"), ("i32", "size")], attributes="nounwind")
    context, mask, hosts, size = c.params
    saved = c.pointer(context, Word.EVENT_SAVED)
    same = c.variable("i32", mask)
    with c.each_lane(mask) as lane:
        host, place = c.load("ptr", c.at(hosts, lane << 3), 8), c.at(saved, lane * _WIDEST)
        differs = c.variable("i8")
        c.store(c.const("i8", 0), differs, 1)
        with c.repeat(size.to("i64")) as i:
            change = c.load("i8", c.at(host, i)) ^ c.load("i8", c.at(place, i))
            c.store(c.load("i8", differs, 1) | change, differs, 1)
        with c.if_(c.load("i8", differs, 1).ne(0)):
            c.store(c.load("i32", same, 8) & ~(c.const("i32", 1) << lane.to("i32")), same, 8)
    c.ret(c.load("i32", same, 8))
    c.finish()


def emit_record(unit: Unit) -> None:
    """``void record(context, mask, op, number, hosts)``; ``hosts`` may be null. A full buffer is drained on the spot."""
    params = [("ptr", "context"), ("i32", "mask"), ("i32", "op"), ("i64", "number"), ("ptr", "hosts")]
    c = Code(unit, "record", "void", params, attributes="nounwind")
    context, mask, op, number, hosts = c.params
    with c.if_(mask.eq(0), returns=True):
        c.ret()
    with c.if_(c.word(context, Word.EVENT_COUNT).eq(c.word(context, Word.EVENT_CAPACITY))):
        drain = c.pointer(context, Word.EVENT_DRAIN)
        c.do(f"call void {drain.ref}(ptr {context.ref})")
    count = c.word(context, Word.EVENT_COUNT)
    row = c.at(c.pointer(context, Word.EVENTS), count * (8 * ROW_WORDS))
    c.store(op.to("i64") | (mask.to("i64") << 32), row, 8)
    c.store(number, c.at(row, 8), 8)
    with c.if_(hosts.ne(0)):
        c.store(c.load("<32 x i64>", hosts, 8), c.at(row, 16), 8)
    c.set_word(context, Word.EVENT_COUNT, count + 1)
    c.ret()
    c.finish()
