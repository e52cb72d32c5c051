"""Non-bulk cp.async: copies from global to shared memory, at once or noted in PENDING to be drained later."""

from __future__ import annotations

from ptxlab.engine.context import Word
from ptxlab.engine.faults import Fault
from ptxlab.engine.llvm.builder import Code, Unit, Value
from ptxlab.engine.support.accesses import FAILED, emit_one

__all__ = ["emit_copies"]


def emit_copies(unit: Unit, source: str) -> None:
    """Emit ``copy_async_SOURCE``, or ``drain`` if no source of addresses is given."""
    emit_one(unit, "global")
    _perform(unit)
    if source:
        _copy(unit, source)
    else:
        _drain(unit)


def _perform(unit: Unit) -> None:
    """``i32 perform_copy(context, lane, host, address, size, read, op)``: read bytes, zeros behind them."""
    params = [("ptr", "context"), ("i64", "lane"), ("ptr", "host"), ("i64", "address"), ("i64", "size"), ("i64", "read"), ("i32", "op")]
    c = Code(unit, "perform_copy", "i32", params, attributes="nounwind", linkage="internal")
    context, lane, host, address, size, read, op = c.params
    whole = c.label("whole")
    some, part = c.label("some"), c.label("part")
    c.branch(read.eq(0), part, some)
    c.place(some)
    source = c.call("one_global", "i64", context, lane, address, read, c.const("i64", 1), c.const("i32", 0), op)
    assert source is not None
    with c.if_(source.eq(0), returns=True):
        c.ret(FAILED)
    data = c.raw(f"inttoptr i64 {source.ref} to ptr", "ptr")
    for bytes_ in (16, 8, 4):
        with c.if_(read.eq(bytes_) & size.eq(bytes_), returns=True):
            c.store(c.load(f"i{8 * bytes_}", data), host)
            c.ret(0)
    with c.repeat(read) as i:
        c.store(c.load("i8", c.at(data, i)), c.at(host, i))
    c.jump(part)
    c.place(part)
    with c.repeat(size - read) as i:
        c.store(c.const("i8", 0), c.at(host, read + i))
    c.jump(whole)
    c.place(whole)
    c.ret(0)
    c.finish()


def _copy(unit: Unit, source: str) -> None:
    """``i32 copy_async_SOURCE(context, mask, hosts, row, offset, sizes, ignored, size, op)``."""
    name = f"copy_async_{source}"
    params = [("ptr", "context"), ("i32", "mask"), ("ptr", "hosts"), ("ptr", "row"), ("i64", "offset"), ("ptr", "sizes")]
    params += [("i32", "ignored"), ("i32", "bytes"), ("i32", "op")]
    c = Code(unit, name, "i32", params, attributes="nounwind")
    context, mask, hosts, row, offset, sizes, ignored, bytes_, op = c.params
    size = bytes_.to("i64")
    place = c.variable("i64")
    with c.each_lane(mask) as lane:
        if source == "32":
            address = (c.load("i32", c.at(row, lane << 2), 4) + offset.to("i32")).to("i64")
        elif source == "64":
            address = c.load("i64", c.at(row, lane << 3), 8) + offset
        else:
            address = offset
        c.store(size, place, 8)
        with c.if_(sizes.ne(0)):
            asked = c.load("i32", c.at(sizes, lane << 2), 4).to("i64")
            c.store(c.select(asked.ult(size), asked, size), place, 8)
        skipped = (ignored.to("i64") >> lane) & 1
        read = c.select(skipped.ne(0), 0, c.load("i64", place, 8))
        with c.if_(read.ne(0) & (address & (size - 1)).ne(0), returns=True):
            c.set_word(context, Word.FAULT, int(Fault.MISALIGNED))
            c.set_word(context, Word.FAULT_LANE, lane)
            c.set_word(context, Word.FAULT_ADDRESS, address)
            c.set_word(context, Word.INFO, op)
            c.ret(FAILED)
        host = c.load("ptr", c.at(hosts, lane << 3), 8)
        count = c.word(context, Word.PENDING_COUNT)
        deferred = c.word(context, Word.DEFERRED).ne(0) & count.ult(c.word(context, Word.PENDING_CAPACITY))
        later, now, done = c.label("later"), c.label("now"), c.label("done")
        c.branch(deferred, later, now)
        c.place(later)
        _check_source(c, context, lane, address, read, op)
        into = c.at(c.pointer(context, Word.PENDING), count * 24)
        target = c.raw(f"ptrtoint ptr {host.ref} to i64", "i64") - c.word(context, Word.SHARED)
        c.store(target, into, 8)
        c.store(address, c.at(into, 8), 8)
        c.store(size | (read << 8) | (lane << 16), c.at(into, 16), 8)
        c.set_word(context, Word.PENDING_COUNT, count + 1)
        c.jump(done)
        c.place(now)
        status = c.call("perform_copy", "i32", context, lane, host, address, size, read, op)
        assert status is not None
        with c.if_(status.ne(0), returns=True):
            c.ret(status)
        c.jump(done)
        c.place(done)
    c.ret(0)
    c.finish()


def _check_source(c: Code, context: Value, lane: Value, address: Value, read: Value, op: Value) -> None:
    with c.if_(read.ne(0)):
        found = c.call("one_global", "i64", context, lane, address, read, c.const("i64", 1), c.const("i32", 0), op)
        assert found is not None
        with c.if_(found.eq(0), returns=True):
            c.ret(FAILED)


def _drain(unit: Unit) -> None:
    """``i32 drain(context, first, count, lanes)``: perform pending copies of these lanes, in order."""
    c = Code(unit, "drain", "i32", [("ptr", "context"), ("i64", "first"), ("i64", "count"), ("i32", "lanes")], attributes="nounwind")
    context, first, count, lanes = c.params
    rows = c.pointer(context, Word.PENDING)
    with c.repeat(count) as i:
        row = c.at(rows, (first + i) * 24)
        packed = c.load("i64", c.at(row, 16), 8)
        lane = packed >> 16
        with c.if_(((lanes.to("i64") >> lane) & 1).ne(0)):
            size, read = packed & 0xFF, (packed >> 8) & 0xFF
            offset = c.load("i64", row, 8)
            total = c.word(context, Word.SHARED_SIZE)
            with c.if_((offset + size).compare("ugt", total), returns=True):
                c.ret(FAILED)
            host = c.at(c.pointer(context, Word.SHARED), offset)
            op = c.word(context, Word.INFO).to("i32")
            status = c.call("perform_copy", "i32", context, lane, host, c.load("i64", c.at(row, 8), 8), size, read, op)
            assert status is not None
            with c.if_(status.ne(0), returns=True):
                c.ret(status)
    c.ret(0)
    c.finish()
