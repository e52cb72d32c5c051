"""Footprints: which sectors of device memory each CTA of a launch reads and writes, and which all of them do.

`Word.FOOTPRINT` is the address of a block of words for each CTA (`Block`). A bitmap has a bit for each sector of the allocations, those of
each allocation after one another; a row of `RowWord` says where they begin. A sector that is new to the CTA is counted in the row.
"""

from __future__ import annotations

from enum import IntEnum

from ptxlab.engine.context import Word
from ptxlab.engine.support.accesses import rows_up_to
from ptxlab.native.builder import Module, Value

__all__ = ["BLOCK_WORDS", "HOST_ROW_WORDS", "PADDING", "ROW_WORDS", "SECTOR", "Block", "RowWord", "emit_touch", "emit_touch_ranges"]

SECTOR = 32
"""Bytes of a sector."""
_SHIFT = SECTOR.bit_length() - 1
_TOGETHER = 57
"""Bits that one unaligned word of a bitmap holds, wherever they begin in its first byte."""
PADDING = 64
"""Bits behind those of an allocation, which belong to none."""


class Block(IntEnum):
    """Index of a word of the block of a CTA; each pair holds the address of what is read, and of what is written."""

    OWN = 0
    """bitmaps of the CTA"""
    ALL = 2
    """bitmaps of all CTAs"""
    ROWS = 4
    """address of the rows of allocations by address"""
    COUNT = 5
    """how many there are"""
    LAST = 6
    """in/out: address of the row that was hit last"""


class RowWord(IntEnum):
    """Index of a word of the row of an allocation."""

    BASE = 0
    SIZE = 1
    FIRST = 2
    """the bit of its first sector"""
    READ = 3
    """in/out: sectors that CTAs have read, the sum over the CTAs of the different sectors of each"""
    WRITTEN = 4
    """in/out: the same of written ones"""


BLOCK_WORDS, ROW_WORDS, HOST_ROW_WORDS = len(Block) + 2, len(RowWord), 3
"""The words of a block, of a row, and of a row by host address: that address, the size, and the address of the allocation's row."""


def _emit_mark(module: Module) -> None:
    """``void mark(block, row, sector, bits, write)``: sectors of an allocation, at most `_TOGETHER` of which ``sector`` is the first."""
    c, (block, row, sector, bits, write) = module.define("void mark(ptr block, ptr row, i64 sector, i64 bits, i64 write)", internal=True)
    at = row.word(RowWord.FIRST) + sector - (row.word(RowWord.BASE) >> _SHIFT)
    wanted = bits << (at & 7)
    own = block.at(write << 3).load("ptr").at(at >> 3)
    before = own.load("i64", align=1)
    new = wanted & ~before
    with c.when(new.ne(0)):
        own.store(before | new, align=1)
        every = block.at((write + Block.ALL) << 3).load("ptr").at(at >> 3)
        every.store(every.load("i64", align=1) | new, align=1)
        count = row.at((write + RowWord.READ) << 3)
        count.store(count.load("i64") + new.intrinsic("ctpop"))
    c.ret()


def _row_of(block: Value, address: Value, size: int | Value) -> tuple[Value, Value]:
    """The row of an allocation, and whether it holds so many bytes at an address; the row that was hit last is tried first."""
    c = block.function
    row = block.pointer(Block.LAST).variable()
    inside = address - row.get().word(RowWord.BASE)
    with c.when(inside.uge(row.get().word(RowWord.SIZE))):
        rows = block.pointer(Block.ROWS)
        after = rows_up_to(rows, 8 * ROW_WORDS, block.word(Block.COUNT), address)
        row.set(rows.at(after.ne(0).select(after - 1, 0) * (8 * ROW_WORDS)))
    found = row.get()
    distance, total = address - found.word(RowWord.BASE), found.word(RowWord.SIZE)
    holds = distance.ult(total) & (total - distance).uge(size)
    with c.when(holds):
        block.set_word(Block.LAST, found.convert("ptrtoint", "i64"))
    return found, holds


def _mark_lanes(block: Value, row: Value, mask: Value, places: Value, write: Value) -> None:
    """The same as ``mark`` for each lane, whose addresses lie in one allocation: what does not depend on the lane is read once."""
    c = block.function
    own, every = (block.at((write + first) << 3).load("ptr") for first in (Block.OWN, Block.ALL))
    before = row.word(RowWord.FIRST) - (row.word(RowWord.BASE) >> _SHIFT)
    count = c.variable("i64", 0)
    with c.each_bit(mask) as lane:
        at = (places.load("i64", lane) >> _SHIFT) + before
        bit, byte = (c.const("i64", 1) << (at & 7)).to("i8"), at >> 3
        known = own.at(byte).load("i8")
        with c.when((known & bit).eq(0)):
            own.at(byte).store(known | bit)
            every.at(byte).store(every.at(byte).load("i8") | bit)
            count.set(count.get() + 1)
    total = row.at((write + RowWord.READ) << 3)
    total.store(total.load("i64") + count.get())


def emit_touch(module: Module) -> None:
    """``void touch(context, mask, addresses, size, write)``: lanes access as many bytes each at ``addresses``, i64[32]."""
    _emit_mark(module)
    c, (context, mask, places, size, write) = module.define(
        "void touch(ptr context, i32 mask, ptr addresses, i64 size, i64 write)", internal=True
    )
    block = context.pointer(Word.FOOTPRINT)
    addresses, active = places.load("<32 x i64>"), mask.cast("<32 x i1>")
    first = active.select(addresses, c.const("<32 x i64>", -1)).reduce("umin")
    last = active.select(addresses, c.const("<32 x i64>", 0)).reduce("umax")
    sector = first >> _SHIFT
    row, holds = _row_of(block, first, last - first + size)
    with c.when(holds):
        with c.when(((last >> _SHIFT) - sector).ult(_TOGETHER)) as apart:
            bits = active.select(c.const("<32 x i64>", 1) << ((addresses >> _SHIFT) - sector), c.const("<32 x i64>", 0)).reduce("or")
            c.call("mark", "void", block, row, sector, bits, write)
            apart()
            _mark_lanes(block, row, mask, places, write)
        c.ret()
    with c.each_bit(mask) as lane:
        address = places.load("i64", lane)
        row, holds = _row_of(block, address, size)
        with c.when(holds):
            c.call("mark", "void", block, row, address >> _SHIFT, c.const("i64", 1), write)
    c.ret()


def emit_touch_ranges(module: Module) -> None:
    """``void touchranges(block, rows, count, starts, sizes, step, number, write)``: ranges of host memory are accessed.

    Rows are those by host address; what lies in none of them is left out. ``step`` is the distance of the sizes in bytes, 0 if there is one
    for all ranges.
    """
    _emit_mark(module)
    c, (block, rows, count, starts, sizes, step, number, write) = module.define(
        "void touchranges(ptr block, ptr rows, i64 count, ptr starts, ptr sizes, i64 step, i64 number, i64 write)"
    )
    with c.loop(number) as k:
        start, size = starts.load("i64", k), sizes.at(k * step).load("i32").to("i64")
        after = rows_up_to(rows, 8 * HOST_ROW_WORDS, count, start)
        with c.when(after.ne(0) & size.ne(0)):
            found = rows.at((after - 1) * (8 * HOST_ROW_WORDS))
            inside = start - found.word(0)
            with c.when(inside.ult(found.word(1))):
                row = found.pointer(2)
                address = row.word(RowWord.BASE) + inside
                at = c.variable("i64", address >> _SHIFT)
                end = ((address + size.min(found.word(1) - inside) - 1) >> _SHIFT) + 1
                with c.loop_while(lambda: at.get().ult(end)):
                    part = (end - at.get()).min(_TOGETHER)
                    c.call("mark", "void", block, row, at.get(), (c.const("i64", 1) << part) - 1, write)
                    at.set(at.get() + part)
    c.ret()
