"""The support functions with which a cluster cancels one that has not started, and does its work: clusterlaunchcontrol.try_cancel.

Nothing is done where the handler must be called: for errors, and where the scheduler has blocked those who wait for the response.
"""

from __future__ import annotations

from ptxlab.engine.arrivals import ObjectRow, emit_progress, emit_wake, find_object, shared_of, unless, unless_awaited, window_place
from ptxlab.engine.context import Word
from ptxlab.engine.repetitions import CALLS, MOST_RECEIVERS, CopyWord, emit_calls
from ptxlab.engine.turns.words import GridWord
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.native.builder import Module, Value

__all__ = ["cancel_name", "emit_cancel"]

_BYTES = 16
"""Of a response."""


def cancel_name(everywhere: bool) -> str:
    """The name of a function that `emit_cancel` writes."""
    return f"cancel_{'cluster' if everywhere else 'cta'}"


def emit_cancel(module: Module, everywhere: bool) -> None:
    """``i64 cancel_*(context, known, response, barrier, lane)``: cancel the next cluster, and complete the bytes of the response.

    ``known`` is an execution of `ptxlab.engine.repetitions`; ``everywhere``: all CTAs of the cluster receive the response. Returns 0; -1,
    and nothing is done, where the handler must be called.
    """
    emit_wake(module)
    c, (context, known, response, barrier, lane) = module.define(
        f"i64 {cancel_name(everywhere)}(ptr context, ptr known, i64 response, i64 barrier, i64 lane)"
    )
    grid, own = context.pointer(Word.GRID), context.word(Word.SHARED_RANK) >> SHARED_RANK_SHIFT
    unless(c, grid.word(GridWord.HANDLED).eq(0))
    (rank, offset), (home, at) = window_place(response), window_place(barrier)
    unless(c, rank.eq(own) & home.eq(own) & (offset & (_BYTES - 1)).eq(0))
    one, added = c.const("i64", 1), c.const("i64", -_BYTES)
    receivers = (one << context.word(Word.CLUSTER_SIZE)) - 1 if everywhere else one << own
    told = c.stack(f"[{MOST_RECEIVERS * CopyWord.COORDINATES} x i64]")
    further = told.variable()
    with c.each_bit(receivers) as each:
        shared, size = shared_of(c, context, each)
        unless(c, (offset + _BYTES).ule(size))
        row = find_object(c, context, each, at, added)
        unless_awaited(c, row, row.transactions.ne(0))
        words: dict[int, Value | int] = {
            CopyWord.LANE: lane,
            CopyWord.HOST: shared.at(offset).convert("ptrtoint", "i64"),
            CopyWord.SIZE: _BYTES,
            CopyWord.RANK: each,
            CopyWord.OFFSET: offset,
            CopyWord.BARRIER_RANK: each,
            CopyWord.BARRIER_OFFSET: at,
            CopyWord.COMPLETES: (row.pending | row.transactions).eq(0).to("i64"),
            CopyWord.SHARES: 0,
        }
        here = further.get()
        here.set_words(words)
        further.set(here.at(8 * CopyWord.COORDINATES))
        here.set_word(CopyWord.NEXT, further.get().convert("ptrtoint", "i64"))
    further.get().at(-8 * CopyWord.COORDINATES).set_word(CopyWord.NEXT, 0)
    emit_calls(c, context, known.pointer(CALLS), told, -1)
    answer = [c.variable("i64", 0) for _ in range(4)]
    position = grid.word(GridWord.NEXT)
    with c.when(position.lt(grid.word(GridWord.COUNT))):
        grid.set_words({GridWord.NEXT: position + 1, GridWord.CANCELED: grid.word(GridWord.CANCELED) + 1})
        order, index = grid.pointer(GridWord.ORDER), position.variable()
        with c.when(order.ne(0)):
            index.set(order.load("i64", position))
        across, down = grid.word(GridWord.ACROSS), grid.word(GridWord.DOWN)
        line = index.get().operation("udiv", across)
        plane = line.operation("udiv", down)
        for axis, value in enumerate((index.get() - line * across, line - plane * down, plane)):
            answer[axis].set(value * grid.word(GridWord.SIZE + axis))
        answer[3].set(1)
    with c.each_bit(receivers) as each:
        home_row = context.pointer(Word.CLUSTER).at(each << 4)
        target = home_row.pointer(0).at(offset)
        for word, part in enumerate(answer):
            target.store(part.get().to("i32"), word)
        ObjectRow.read(each, home_row.pointer(0), home_row.word(1), at, added).perform(c.const("i64", 0))
    emit_progress(context, receivers.intrinsic("ctpop") + 1 + answer[3].get())
    c.ret(0)
