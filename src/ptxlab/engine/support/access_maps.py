"""Access maps: which bytes of an allocation of device memory have been read, and which have been written.

A map has a bit for each byte that has been read, in whole groups of `GROUP_BYTES`, and the same again for those that have been written.
Its address stands in the flags of the allocation's row (`Word.ALLOCATIONS`); without a map there is only the test whether there is one.
"""

from __future__ import annotations

from ptxlab.engine.context import MAP_ADDRESS
from ptxlab.native.builder import Module, Value

__all__ = ["GROUP_BITMAP_BYTES", "GROUP_BYTES", "PAIR_BYTES", "WORD_BYTES", "emit_mark", "mark_lanes", "mark_one", "mark_pair"]

_GROUP_SHIFT = 9
GROUP_BYTES = 1 << _GROUP_SHIFT
GROUP_BITMAP_BYTES = GROUP_BYTES // 8
WORD_BYTES = 32
"""Bytes of memory whose bits are one word of a map; no access of a thread crosses a multiple of it."""
PAIR_BYTES = 2 * WORD_BYTES
"""Bytes of memory whose bits are two words of a map, which are written at once."""


def emit_mark(module: Module) -> None:
    """``void mark(flags, total, inside, size, write)``: bytes of an allocation are accessed, within one word of its map."""
    c, (flags, total, inside, size, write) = module.define(
        "void mark(i64 flags, i64 total, i64 inside, i64 size, i32 write)", internal=True
    )
    word = _map(flags, total, write).at((inside >> 5) << 2)
    bits = ((c.const("i64", 1) << size) - 1) << (inside & (WORD_BYTES - 1))
    word.store(word.load("i32") | bits.to("i32"))
    c.ret()


def _map(flags: Value, total: Value, write: Value) -> Value:
    """The map of what has been read, or of what has been written."""
    written = ((total + (GROUP_BYTES - 1)) >> _GROUP_SHIFT) * GROUP_BITMAP_BYTES
    return (flags & MAP_ADDRESS).convert("inttoptr", "ptr").at(write.ne(0).select(written, 0))


def mark_pair(flags: Value, total: Value, inside: Value, write: Value) -> None:
    """Mark an access to `PAIR_BYTES` bytes; ``inside`` is a multiple of that."""
    _map(flags, total, write).at(inside >> 3).store(flags.constant(-1))


def mark_one(row: Value, inside: Value, size: Value, write: Value) -> None:
    """Mark an access to the allocation of a row, if it has a map."""
    c, flags = row.function, row.word(3)
    with c.when((flags & MAP_ADDRESS).ne(0)):
        c.call("mark", "void", flags, row.word(1), inside, size, write)


def mark_lanes(row: Value, mask: Value, inside: Value, size: Value, write: Value) -> None:
    """Mark the accesses of lanes to the allocation of a row, if it has a map; ``inside`` is a vector of multiples of the size."""
    c, flags = row.function, row.word(3)
    with c.when((flags & MAP_ADDRESS).ne(0)):
        offsets = c.stack("<32 x i64>", align=64)
        offsets.store(inside, align=64)
        marks = _map(flags, row.word(1), write)
        with c.when(size.eq(16)) as narrower:
            with c.each_bit(mask) as lane:
                marks.at(offsets.load("i64", lane) >> 3).store(c.const("i16", -1))
            narrower()
            with c.each_bit(mask) as lane:
                c.call("mark", "void", flags, row.word(1), offsets.load("i64", lane), size, write)
