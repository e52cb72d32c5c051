"""Support functions that perform tcgen05.commit: at once, or when the operations have performed that it tracks."""

from __future__ import annotations

from ptxlab.engine.arrivals import emit_progress, emit_wake, find_arrival, find_object, place_in, unless, window_place
from ptxlab.engine.context import Word
from ptxlab.engine.pending_products import ProductRow
from ptxlab.engine.turns.pending import PendingRow, row_at
from ptxlab.engine.turns.words import QueueWord
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.isa.repeating import ORDER_BASE
from ptxlab.native.builder import Function, Module, Value

__all__ = ["emit_commit"]


def emit_commit(module: Module, pair: bool, multicast: bool) -> None:
    """``i64 commit_*(context, mask, address, ctas, op)``: tcgen05.commit of the lanes of a mask.

    ``ctas`` is the CTA mask of a multicast. Where operations of the thread have not performed, it arrives when the last of them does.
    Returns 0; -1, and nothing is done, where the handler must be called.
    """
    emit_wake(module)
    _emit_arrive(module, pair, multicast)
    name = f"commit_{'pair' if pair else 'cta'}_{'multicast' if multicast else 'one'}"
    c, (context, mask, address, ctas, op) = module.define(f"i64 {name}(ptr context, i32 mask, i64 address, i64 ctas, i64 op)")
    wide, committers = mask.to("i64"), context.word(Word.COMMITTERS)
    unless(c, (wide & (wide - 1)).eq(0) & (committers & wide).ne(0) & (committers >> 32).eq(2 if pair else 1))
    if pair:
        peer = (context.word(Word.SHARED_RANK) >> SHARED_RANK_SHIFT) ^ 1
        unless(c, context.pointer(Word.CLUSTER).at(peer << 4).word(1).ne(0))
    with c.when(context.word(Word.DEFERRED).ne(0)):
        row = _last_pending(c, context, wide)
        with c.when(row.ne(0)):
            unless(c, (row.word(PendingRow.IS_TOLD) | row.word(ProductRow.SIGNAL)).eq(0))
            rank, offset = window_place(address)
            if not multicast:
                find_object(c, context, rank, offset, c.const("i64", 0))
            else:
                _legal_multicast(c, context, rank, ctas)
                with c.each_bit(ctas) as each:
                    find_object(c, context, each, offset, c.const("i64", 0))
            row.store(Value(c, "ptr", "@arrive"), ProductRow.SIGNAL)
            row.set_words({ProductRow.SIGNAL_PLACE: place_in(rank, offset), ProductRow.SIGNAL_CTAS: ctas, ProductRow.SIGNAL_OP: op})
            row.set_word(PendingRow.ARRIVES, 1)
            c.ret(0)
    c.ret(c.call("arrive", "i64", context, address, ctas))


def _last_pending(c: Function, context: Value, lanes: Value) -> Value:
    """The row of the last operation of a thread that has not performed, or null.

    The function returns -1 if the machine must look for it.
    """
    bases, queue = context.pointer(Word.REPEATED_IN).pointer(1), context.pointer(Word.QUEUE)
    unless(c, bases.ne(0))
    order, thread = bases.word(ORDER_BASE), context.convert("ptrtoint", "i64")
    place, found = queue.word(QueueWord.PENDING).variable(), c.variable("ptr", c.const("ptr", 0))
    with c.loop_while(lambda: place.get().ne(0) & found.get().eq(0)):
        place.set(place.get() - 1)
        row = row_at(queue, queue.pointer(QueueWord.ORDER).load("i64", place.get()))
        with c.when(row.word(PendingRow.ORDER).eq(order)):
            unless(c, row.word(PendingRow.PERFORM).ne(0))
            with c.when(row.word(PendingRow.CONTEXT).eq(thread) & (lanes >> row.word(PendingRow.LANE)).eq(1)):
                found.set(row)
    return found.get()


def _legal_multicast(c: Function, context: Value, rank: Value, ctas: Value) -> None:
    """The function returns -1 unless a CTA mask is legal."""
    table, size = context.pointer(Word.CLUSTER), context.word(Word.CLUSTER_SIZE)
    unless(c, rank.ult(size))
    unless(c, table.at(rank << 4).word(1).ne(0) & ctas.ne(0) & (ctas >> size).eq(0))


def _emit_arrive(module: Module, pair: bool, multicast: bool) -> None:
    """``i64 arrive(context, address, ctas)``: arrive for a commit; -1, and nothing is done, where the handler must be called."""
    c, (context, address, ctas) = module.define("i64 arrive(ptr context, i64 address, i64 ctas)", internal=True)
    rank, offset = window_place(address)
    one, nothing = c.const("i64", 1), c.const("i64", 0)
    if not multicast:
        context.set_word(Word.ARRIVED, offset | find_arrival(c, context, rank, offset, one, nothing).perform(one))
        emit_progress(context, c.const("i64", 2))
        c.ret(0)
        return
    _legal_multicast(c, context, rank, ctas)
    with c.each_bit(ctas) as each:
        find_arrival(c, context, each, offset, one, nothing)
    arrived = c.variable("i64", offset)
    with c.each_bit(ctas) as each:
        arrived.set(arrived.get() | find_arrival(c, context, each, offset, one, nothing).perform(one))
    context.set_word(Word.ARRIVED, arrived.get())
    emit_progress(context, ctas.intrinsic("ctpop") + 1)
    c.ret(0)
