"""Mirrors of memory: for each byte of an object a byte with its undefined bits, which natives move like the data."""

from __future__ import annotations

from ptxlab.engine.context import Word
from ptxlab.engine.support.accesses import rows_up_to
from ptxlab.native.builder import Function, Module

__all__ = ["MIRROR_ROW", "NO_MIRROR_BYTES", "emit_defined", "emit_mirrors", "emit_moved"]

MIRROR_ROW = 24
"""Bytes of a row of the table behind `Word.MIRRORS`: host address, bytes, address of the mirror. The first word is the number of rows."""
NO_MIRROR_BYTES = 128
"""What is in no object is read as defined, from the first half of this many bytes; what is written there is lost, in the second half."""


def emit_mirrors(module: Module) -> None:
    """``void mirrors(context, mask, hosts, out, write)``: the addresses in the mirrors of the lanes' host addresses."""
    c = Function(module, "mirrors", "void", "ptr context, i32 mask, ptr hosts, ptr out, i32 write")
    context, mask, hosts, out, write = c.parameters
    table = context.pointer(Word.MIRRORS)
    nowhere = context.word(Word.NO_MIRROR) + write.ne(0).select(c.const("i64", NO_MIRROR_BYTES // 2), 0)
    with c.each_bit(mask) as lane:
        host = hosts.load("i64", lane)
        out.store(nowhere, lane)
        after = rows_up_to(table.at(8), MIRROR_ROW, table.word(0), host)
        with c.when(after.ne(0)):
            row = table.at(8).at((after - 1) * MIRROR_ROW)
            inside = host - row.word(0)
            with c.when(inside.ult(row.word(1))):
                out.store(row.word(2) + inside, lane)
    c.ret()


def emit_defined(module: Module) -> None:
    """``void defined(mask, mirrors, size)``: all bits of so many bytes are defined in each lane."""
    c = Function(module, "defined", "void", "i32 mask, ptr mirrors, i32 size")
    mask, mirrors, size = c.parameters
    with c.each_bit(mask) as lane, c.loop(size.to("i64")) as i:
        mirrors.load("ptr", lane).store(c.const("i8", 0), i)
    c.ret()


def emit_moved(module: Module) -> None:
    """``i32 moved(mask, to, from, sizes, size)``: copy undefined bits in each lane, of at most so many bytes; the lanes that have some.

    ``sizes`` are the numbers of bytes that lanes copy, null if all copy ``size``.
    """
    c = Function(module, "moved", "i32", "i32 mask, ptr to, ptr from, ptr sizes, i32 size")
    mask, to, from_, sizes, size = c.parameters
    found, count = c.variable("i32", 0), c.variable("i64")
    with c.each_bit(mask) as lane:
        count.set(size.to("i64"))
        with c.when(sizes.ne(0)):
            asked = sizes.load("i32", lane)
            count.set(asked.ult(size).select(asked, size).to("i64"))
        with c.loop(count.get()) as i:
            bits = from_.load("ptr", lane).load("i8", i)
            to.load("ptr", lane).store(bits, i)
            found.set(found.get() | bits.ne(0).select(c.const("i32", 1) << lane.to("i32"), 0))
    c.ret(found.get())
