"""Non-bulk cp.async: copies from global to shared memory, at once or noted in PENDING to be drained later."""

from __future__ import annotations

from ptxlab.engine.context import Word
from ptxlab.engine.faults import Fault
from ptxlab.engine.support.access_maps import mark_lanes
from ptxlab.engine.support.accesses import FAILED, all_addresses, emit_one, fail, lane_address, last_allocation
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.native.builder import Function, Module, Value

__all__ = ["emit_copies"]

_SIZES = (16, 8, 4)
"""The bytes that a cp.async writes."""


def emit_copies(module: Module, source: str) -> None:
    """Emit ``copy_async_SOURCE``, or ``drain`` if no source of addresses is given."""
    emit_one(module, "global")
    _note(module)
    _perform(module)
    if source:
        _copy(module, source)
    else:
        _drain(module)


def _perform(module: Module) -> None:
    """``i32 perform_copy(context, lane, host, address, size, read, op, observed)``: read bytes, then zeros."""
    c, (context, lane, host, address, size, read, op, observed) = module.define(
        "i32 perform_copy(ptr context, i64 lane, ptr host, i64 address, i64 size, i64 read, i32 op, i1 observed)", internal=True
    )
    with c.when(observed):
        c.call("note_copy", "void", context, host, address, size, read)
    with c.when(read.ne(0)):
        data = _source(c, context, lane, address, read, op).convert("inttoptr", "ptr")
        for bytes_ in _SIZES:
            with c.when(read.eq(bytes_) & size.eq(bytes_)):
                host.store(data.load(f"i{8 * bytes_}", align=1), align=1)
                c.ret(0)
        with c.loop(read) as i:
            host.store(data.load("i8", i), i)
    with c.loop(size - read) as i:
        host.store(c.const("i8", 0), read + i)
    c.ret(0)


def _note(module: Module) -> None:
    """``void note_copy(context, host, address, size, read)``: note for an observer where each word comes from."""
    parameters = "ptr context, ptr host, i64 address, i64 size, i64 read"
    c = Function(module, "note_copy", "void", parameters, attributes="noinline", internal=True)
    context, host, address, size, read = c.parameters
    first = (host.convert("ptrtoint", "i64") - context.word(Word.SHARED)) >> 2
    noted = context.pointer(Word.COPIED).at(first * 8)
    words = _SIZES[0] >> 2
    with c.when(read.eq(_SIZES[0]) & size.eq(_SIZES[0])):
        noted.store(address.splat(words) + (c.lanes("i64", words) << 2), align=8)
        c.ret()
    with c.loop(size >> 2) as i:
        noted.store((i * 4).ult(read).select(address + i * 4, NO_SOURCE), i)


def _copy(module: Module, source: str) -> None:
    """``i32 copy_async_SOURCE(context, mask, hosts, row, offset, sizes, ignored, size, op)``."""
    c, (context, mask, hosts, row, offset, sizes, ignored, bytes_, op) = module.define(
        f"i32 copy_async_{source}(ptr context, i32 mask, ptr hosts, ptr row, i64 offset, ptr sizes, i32 ignored, i32 bytes, i32 op)"
    )
    size = bytes_.to("i64")
    place = c.variable("i64")
    observed, deferring = context.word(Word.COPIED).ne(0), context.word(Word.DEFERRED).ne(0)
    with c.when(~observed & ~deferring):
        given = c.variable("<32 x i32>", bytes_.splat(32))
        with c.when(sizes.ne(0)):
            given.set(sizes.load("<32 x i32>", align=64))
        _copy_whole(c, context, mask, hosts, all_addresses(source, row, offset), given.get(), ignored, bytes_)
    with c.each_bit(mask) as lane:
        address = lane_address(source, row, offset, lane)
        place.set(size)
        with c.when(sizes.ne(0)):
            asked = sizes.load("i32", lane).to("i64")
            place.set(asked.ult(size).select(asked, size))
        skipped = (ignored.to("i64") >> lane) & 1
        read = skipped.ne(0).select(0, place.get())
        with c.when(read.ne(0) & (address & (size - 1)).ne(0)):
            fail(context, Fault.MISALIGNED, lane, address, op)
        host = hosts.load("ptr", lane)
        count = context.word(Word.PENDING_COUNT)
        deferred = deferring & count.ult(context.word(Word.PENDING_CAPACITY))
        with c.when(deferred) as otherwise:
            with c.when(read.ne(0)):
                _source(c, context, lane, address, read, op)
            into = context.pointer(Word.PENDING).at(count * 24)
            into.store(host.convert("ptrtoint", "i64") - context.word(Word.SHARED))
            into.store(address, 1)
            into.store(size | (read << 8) | (lane << 16), 2)
            context.set_word(Word.PENDING_COUNT, count + 1)
            otherwise()
            status = c.call("perform_copy", "i32", context, lane, host, address, size, read, op, observed)
            with c.when(status.ne(0)):
                c.ret(status)
    c.ret(0)


def _copy_whole(
    c: Function, context: Value, mask: Value, hosts: Value, addresses: Value, given: Value, ignored: Value, whole: Value
) -> None:
    """Copy and return, if each lane reads nothing, or its whole operand in the allocation that was accessed last."""
    size = whole.to("i64")
    row, limit = last_allocation(c, context, size, c.const("i32", 0))
    inside = addresses - row.word(0)
    nothing = given.eq(0).cast("i32") | ignored
    good = given.uge(whole.splat(32)) & inside.ult(limit) & (addresses & (size - 1)).eq(0)
    with c.when((~(good.cast("i32") | nothing) & mask).eq(0)):
        reading = mask & ~nothing
        mark_lanes(row, reading, inside, size, c.const("i32", 0))
        zeros = c.stack("<2 x i64>", align=16)
        zeros.store(c.const("i64", 0).splat(2), align=16)
        sources = c.stack("<32 x i64>", align=64)
        read = reading.cast("<32 x i1>")
        sources.store(read.select(inside + row.word(2), zeros.convert("ptrtoint", "i64").splat(32)), align=64)
        for bytes_ in _SIZES:
            with c.when(size.eq(bytes_)):
                with c.each_bit(mask) as lane:
                    hosts.load("ptr", lane).store(sources.load("ptr", lane).load(f"i{8 * bytes_}", align=1), align=1)
                c.ret(0)


def _source(c: Function, context: Value, lane: Value, address: Value, read: Value, op: Value) -> Value:
    """The host address of what is read; return if it cannot be."""
    found = c.call("one_global", "i64", context, lane, address, read, c.const("i64", 1), c.const("i32", 0), op)
    with c.when(found.eq(0)):
        c.ret(FAILED)
    return found


def _drain(module: Module) -> None:
    """``i32 drain(context, first, count, lanes)``: perform pending copies of these lanes, in order."""
    c, (context, first, count, lanes) = module.define("i32 drain(ptr context, i64 first, i64 count, i32 lanes)")
    rows, observed = context.pointer(Word.PENDING), context.word(Word.COPIED).ne(0)
    with c.loop(count) as i:
        row = rows.at((first + i) * 24)
        packed = row.load("i64", 2)
        lane = packed >> 16
        with c.when(((lanes.to("i64") >> lane) & 1).ne(0)):
            size, read = packed & 0xFF, (packed >> 8) & 0xFF
            offset = row.load("i64")
            total = context.word(Word.SHARED_SIZE)
            with c.when((offset + size).ugt(total)):
                c.ret(FAILED)
            host = context.pointer(Word.SHARED).at(offset)
            op = context.word(Word.INFO).to("i32")
            status = c.call("perform_copy", "i32", context, lane, host, row.load("i64", 1), size, read, op, observed)
            with c.when(status.ne(0)):
                c.ret(status)
    c.ret(0)
