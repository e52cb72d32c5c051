"""Compiled code completes barriers, and lets the next warp run where one waits at a barrier, for an mbarrier or for wgmma.

What it shares with the machine is said in `ptxlab.engine.turns.words`.
"""

from __future__ import annotations

from ptxlab.engine.context import BY_CLUSTER, BY_PARITY, OF_GROUPS, Status, Word
from ptxlab.engine.direct_services import MBARRIER_TOKEN
from ptxlab.engine.mbarrier_rows import Cell, is_complete, row_address
from ptxlab.engine.support.event_rows import note_row
from ptxlab.engine.turns._cluster_barriers import emit_cluster_arrival, emit_cluster_wait
from ptxlab.engine.turns.emission import count_service, end_turn, end_turn_in, link_waiter, resume
from ptxlab.engine.turns.next_turn import emit_next_turn
from ptxlab.engine.turns.waiting_lanes import emit_begin_others, emit_end_others, others_can_run
from ptxlab.engine.turns.words import (
    BARRIERS,
    CLUSTER_ARRIVES,
    CLUSTER_WAITS,
    MOST_WARPS,
    STATED_SHIFT,
    WHOLE_SHIFT,
    BarrierCell,
    ClusterCell,
    TurnWord,
)
from ptxlab.isa.warpgroup_words import NEVER, GroupWord
from ptxlab.native.builder import Function, Module, Value

__all__ = ["emit_turns"]


def emit_turns(module: Module) -> None:
    """``i32 turns(context, table, words)``: run a warp; and others, as long as each only waits as compiled code lets it wait.

    The module has ``groupwait`` (`ptxlab.engine.warpgroups`), too. The first one begins with its arrival if `TurnWord.ARRIVES` says so. The
    result is the status of the last one, `TurnWord.CURRENT`. After `Status.BLOCKED` its turn has ended.
    """
    emit_next_turn(module)
    c, (context, table, words) = module.define("i32 turns(ptr context, ptr table, ptr words)")
    current = context.variable()
    head = c.label()
    c.jump(head)
    c.begin(head)
    warp = current.get()
    words.store(warp, TurnWord.CURRENT)
    with c.when(words.word(TurnWord.ARRIVES).eq(0) & (warp.word(Word.AWAITS).eq(0) | warp.word(Word.LANES_ACTIVE).ne(0))):
        ended = c.call(words.pointer(TurnWord.DISPATCH), "i32", warp, table)
        with c.when(warp.word(Word.LANES_ACTIVE).ne(0)):
            emit_end_others(c, warp, words, ended)
            current.set(_next_turn(c, warp, words))
            c.jump(head)
        with c.when(ended.ne(Status.SERVICE)):
            c.ret(ended)
    words.set_word(TurnWord.ARRIVES, 0)
    op, cells = warp.word(Word.INFO), warp.pointer(Word.BARRIERS)
    with c.when((warp.word(Word.AWAITS) & BY_CLUSTER).ne(0)):
        warp.set_word(Word.AWAITS, 0)  # it waits once more
    with c.when(warp.word(Word.AWAITS).ne(0)):
        awaits = _begin_wait(c, warp)
        for is_such, wait in ((awaits.eq(OF_GROUPS), _wait_for_groups), (awaits.ne(0), _wait)):
            with c.when(is_such):
                with c.when(wait(c, warp, words, op, awaits)):
                    current.set(_next_turn(c, warp, words))
                c.jump(head)
    arrival = words.pointer(TurnWord.ARRIVALS).load("i64", op)
    with c.when(arrival.eq(0)):
        c.ret(Status.SERVICE)
    number, lanes, live = arrival & (BARRIERS - 1), warp.word(Word.ACTIVE), warp.word(Word.LIVE)
    left = _is_for_scheduler(warp) | lanes.ne(live) | warp.word(Word.MASK).ne(live)
    with c.when((arrival & (CLUSTER_ARRIVES | CLUSTER_WAITS)).ne(0)):
        cluster = cells.pointer(BarrierCell.CLUSTER)
        with c.when(left | cluster.word(ClusterCell.COMPLETES).eq(0)):
            c.ret(Status.SERVICE)
        with c.when((arrival & CLUSTER_ARRIVES).ne(0)) as otherwise:
            emit_cluster_arrival(c, warp, words, cluster, arrival)
            otherwise()
            with c.when(emit_cluster_wait(c, warp, words, cluster)):
                current.set(_next_turn(c, warp, words))
        c.jump(head)
    with c.when(left | cells.word(BarrierCell.COMPLETES).eq(0) | cells.load("i64", number + BarrierCell.MACHINE).ne(0)):
        c.ret(Status.SERVICE)
    stated, before = (arrival >> STATED_SHIFT) & 0xFFFF, cells.load("i64", number)
    needed = stated.ne(0).select(stated, cells.word(BarrierCell.LIVE))
    arrived = before + ((arrival >> WHOLE_SHIFT) & 1).ne(0).select(c.const("i64", 32), lanes.intrinsic("ctpop"))
    others = before.ne(0) & cells.load("i64", number + BarrierCell.STATED).ne(stated)
    with c.when(others | arrived.ugt(needed)):
        c.ret(Status.SERVICE)
    may_block = cells.pointer(BarrierCell.MAY_BLOCK)
    with c.when(may_block.ne(0)), c.when(c.call(may_block, "i32", warp).eq(0)):
        c.ret(Status.SERVICE)
    count_service(words, op)
    with c.when(arrived.eq(needed)):
        _complete(c, warp, words, cells, number)
        c.jump(head)
    cells.store(arrived, number)
    cells.store(stated, number + BarrierCell.STATED)
    _block(c, warp, words, cells, number)
    current.set(_next_turn(c, warp, words))
    c.jump(head)


def _begin_wait(c: Function, warp: Value) -> Value:
    """Lanes wait; a warp that has been blocked waits once more. For what they wait (`Word.AWAITS`), which the context forgets.

    The function returns where the machine must handle the wait.
    """
    awaits = warp.word(Word.AWAITS)
    warp.set_word(Word.AWAITS, 0)
    others_stand = warp.word(Word.OTHER_LANES).ne(0) & warp.word(Word.OTHER_OP).ne(0)
    are_parted = (others_stand | others_can_run(warp)) & warp.word(Word.PC).ult(warp.word(Word.LIMIT))
    with c.when(_is_for_scheduler(warp) | ~(warp.word(Word.MASK).eq(warp.word(Word.LIVE)) | are_parted)):
        c.ret(Status.SERVICE)
    return awaits


def _is_for_scheduler(warp: Value) -> Value:
    """Whether the machine must handle what a warp does next. The warp may have a turn to come since lanes of it could run that waited."""
    return (warp.word(Word.EXITED) | warp.word(Word.EVENT_COUNT) | warp.word(Word.QUEUED)).ne(0)


def _wait_for_groups(c: Function, warp: Value, words: Value, op: Value, awaits: Value) -> Value:
    """The wait is for groups of wgmma: whether the warp is blocked. The function returns where handlers have blocked others before."""
    group = warp.pointer(Word.WARPGROUP)
    with c.when(group.word(GroupWord.AWAITED).ne(NEVER)):
        c.ret(Status.SERVICE)
    count_service(words, op)
    is_blocked = c.call("groupwait", "i64", warp, warp.word(Word.AWAITED_RESULT)).ne(0)
    with c.when(is_blocked) as otherwise:
        end_turn_in(c, group.at(8 * GroupWord.WAITERS), warp, words)
        otherwise()
        with c.when(warp.word(Word.EVENTS).ne(0)):
            note_row(warp, op, warp.word(Word.ACTIVE), c.const("i64", 0))
    return is_blocked


def _wait(c: Function, warp: Value, words: Value, op: Value, awaits: Value) -> Value:
    """The wait is for a phase of an mbarrier object: whether the warp is blocked. The function returns where there is no object.

    Other lanes of the warp that can run go on first.
    """
    shared, offset = warp.pointer(Word.SHARED), awaits & (BY_PARITY - 1)
    place = row_address(shared, warp.word(Word.SHARED_SIZE), offset)
    after, active = place.load("i32", Cell.PHASES).to("i64"), warp.word(Word.ACTIVE)
    with c.when(after.eq(0) | shared.at(offset).word(0).ne(MBARRIER_TOKEN)):
        c.ret(Status.SERVICE)
    count_service(words, op)
    is_over = is_complete(after, warp.word(Word.AWAITED_PHASE), (awaits & BY_PARITY).ne(0))
    others_run = others_can_run(warp)
    with c.when(is_over) as otherwise:
        result = warp.pointer(Word.AWAITED_RESULT)
        with c.when(result.ne(0)):
            result.store(result.load("i32") | active.to("i32"))
        with c.when(warp.word(Word.EVENTS).ne(0)):
            note_row(warp, op, active, offset)
        otherwise()
        warp.set_word(Word.AWAITS, awaits)
        link_waiter(c, place.at(4 * Cell.WAITERS), warp)
        with c.when(others_run) as otherwise:
            emit_begin_others(c, warp, op)
            otherwise()
            end_turn(c, warp, words)
    return ~(is_over | others_run)


def _complete(c: Function, warp: Value, words: Value, cells: Value, number: Value) -> None:
    """A phase is complete with the arrival of a warp: the blocked ones can run."""
    blocked = cells.load("i64", number + BarrierCell.BLOCKED)
    waiting = cells.at((number * MOST_WARPS + BarrierCell.WAITING) * 8)
    completed = cells.pointer(BarrierCell.COMPLETED)
    with c.when(completed.ne(0)):
        c.call(completed, "void", waiting, blocked, warp)
    with c.loop(blocked) as i:
        resume(waiting.load("ptr", i))
    words.set_word(TurnWord.ARRIVED, words.word(TurnWord.ARRIVED) + blocked + 1)
    cells.set_word(BarrierCell.ALL_BLOCKED, cells.word(BarrierCell.ALL_BLOCKED) - blocked)
    cells.store(cells.load("i64", number + BarrierCell.GENERATION) + 1, number + BarrierCell.GENERATION)
    for cell in (BarrierCell.ARRIVED, BarrierCell.BLOCKED):
        cells.store(c.const("i64", 0), number + cell)


def _block(c: Function, warp: Value, words: Value, cells: Value, number: Value) -> None:
    """A warp waits for the others."""
    blocked = cells.load("i64", number + BarrierCell.BLOCKED)
    cells.store(warp, number * MOST_WARPS + blocked + BarrierCell.WAITING)
    cells.store(blocked + 1, number + BarrierCell.BLOCKED)
    cells.set_word(BarrierCell.ALL_BLOCKED, cells.word(BarrierCell.ALL_BLOCKED) + 1)
    end_turn(c, warp, words)


def _next_turn(c: Function, warp: Value, words: Value) -> Value:
    """The context of the warp whose turn begins; the function returns if there is none, or if the scheduler has something else to do."""
    following = c.call("nextturn", "ptr", warp, words)
    with c.when(following.eq(0)):
        c.ret(Status.BLOCKED)
    return following
