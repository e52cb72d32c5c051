"""What lanes load from global memory and store to shared memory as it is: the addresses, noted for an observer."""

from __future__ import annotations

from ptxlab.engine.context import NO_SOURCE, Word
from ptxlab.native.builder import Module

__all__ = ["emit_loaded_from", "emit_stored_from"]


def emit_loaded_from(module: Module, source: str) -> None:
    """Emit ``loadedfrom_SOURCE``: note the addresses of a load in its row, and zeros for the lanes that are skipped.

    SOURCE is the width in bits of the addresses in the row; ``u``: the address is uniform, it is the offset.
    """
    c, (context, mask, skipped, row, offset, place) = module.define(
        f"void loadedfrom_{source}(ptr context, i32 mask, i32 skipped, ptr row, i64 offset, ptr place)"
    )
    with c.when(context.word(Word.COPIED).ne(0)):
        with c.each_bit(mask) as lane:
            if source == "32":
                address = (row.load("i32", lane) + offset.to("i32")).to("i64")
            elif source == "64":
                address = row.load("i64", lane) + offset
            else:
                address = offset
            place.store(address, lane)
        with c.each_bit(skipped) as lane:
            place.store(c.const("i64", NO_SOURCE), lane)
    c.ret()


def emit_stored_from(module: Module) -> None:
    """Emit ``storedfrom``: note from where the words come that lanes store.

    The table has two numbers for each word: the frame offset of the row of its load, -1 for none, and the byte in what that has loaded.
    """
    c, (context, mask, hosts, frame, count, table) = module.define(
        "void storedfrom(ptr context, i32 mask, ptr hosts, ptr frame, i32 count, ptr table)"
    )
    with c.when(context.word(Word.COPIED).ne(0)), c.each_bit(mask) as lane:
        inside = hosts.load("i64", lane) - context.word(Word.SHARED)
        with c.when(inside.ult(context.word(Word.SHARED_SIZE))):
            noted = context.pointer(Word.COPIED).at((inside >> 2) * 8)
            with c.loop(count.to("i64")) as i:
                row = table.load("i32", i * 2)
                known = row.ne(-1)
                address = frame.at(known.select(row, 0).to("i64")).load("i64", lane)
                byte = table.load("i32", i * 2 + 1).to("i64")
                noted.store(known.select(address.ugt(NO_SOURCE).select(address + byte, address), 0), i)
    c.ret()
