"""Compiled code completes barriers of a CTA, and lets the next warp run where one waits at such a barrier, for an mbarrier or for wgmma.

The machine shares with it the warps that can run (`TurnWord`), and the state of the barriers (`BarrierCell`). A phase of a barrier is
counted either by compiled code or by the machine: at the first arrival that the machine must handle it takes over the warps that compiled
code has blocked (`ptxlab.machine.schedule.turns`). The same holds for those who wait for an mbarrier object (`Cell.WAITERS`), or for
groups of wgmma (`GroupWord.WAITERS`).
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import BY_PARITY, OF_GROUPS, Status, Word
from ptxlab.engine.direct_services import MBARRIER_TOKEN
from ptxlab.engine.mbarrier_rows import Cell, is_complete, row_address
from ptxlab.engine.program import Program
from ptxlab.engine.support.event_rows import note_row
from ptxlab.isa.effects import Completion, CtaBarrier, MbarrierWait, WaitGroup
from ptxlab.isa.operands import Const, Op, Unused
from ptxlab.isa.warpgroup_words import NEVER, GroupWord
from ptxlab.native.builder import Function, Module, Value

__all__ = [
    "BARRIERS",
    "MACHINE_ONLY",
    "MOST_WARPS",
    "NO_LIMIT",
    "POLL_TURNS",
    "SLICE",
    "BarrierCell",
    "TurnWord",
    "arrivals",
    "emit_turns",
    "has_waits",
    "resume",
]

BARRIERS = 16
"""The barriers of a CTA."""
MOST_WARPS = 32
"""The warps of a CTA."""
SLICE = 100_000
"""Warp-instructions before another warp gets its turn."""
POLL_TURNS = 32
"""The scheduler tests the waits of a cluster that have no list of waiters each time that so many turns of its warps have ended."""
NO_LIMIT = (1 << 62) - 1
"""The limit of converged lanes when no other lanes of the warp stand at a later instruction."""
MACHINE_ONLY = 1
"""In an entry of `TurnWord.RING`: only the machine can continue the warp."""
_MOST_THREADS = 1024
_STATED_SHIFT, _WHOLE_SHIFT, _WAITS_SHIFT = 8, 32, 33


class TurnWord(IntEnum):
    """The words that the scheduler and compiled code share."""

    CURRENT = 0
    """out: address of the context that has stopped"""
    DISPATCH = 1
    """in: address of ``i32 dispatch(context, table)``, which runs one warp"""
    ARRIVALS = 2
    """in: address of an int64 for each op (`arrivals`)"""
    COUNTS = 3
    """in: address of an int64 for each op, the executions of services"""
    RING = 4
    """in: address of the contexts of the warps that can run, in their order (and `MACHINE_ONLY`)"""
    RING_MASK = 5
    HEAD = 6
    TAIL = 7
    """in/out: the position of the first one, and the position behind the last one; they never decrease"""
    CLOCK = 8
    """in: `Word.CLOCK` of a warp whose turn would begin now, without `USED`"""
    ALLOWED = 9
    """in: how many warp-instructions may be executed in turns that end before the scheduler looks at its budget"""
    USED = 10
    """in/out: warp-instructions that have been executed in turns that compiled code has ended"""
    ENDED = 11
    """in/out: how many turns compiled code has ended; it never decreases"""
    ARRIVED = 12
    """in/out: how many arrivals have been part of phases that compiled code has completed; it never decreases"""
    ARRIVES = 13
    """in: 1 if the warp has stopped at an arrival because of rows, which have been processed since: it begins with the arrival"""
    END = 16


class BarrierCell(IntEnum):
    """The int64 of the barriers of a CTA (`Word.BARRIERS`)."""

    ARRIVED = 0
    """for each barrier the threads whose arrivals compiled code has counted in the current phase"""
    MACHINE = BARRIERS
    """for each barrier 1 if the machine counts the current phase"""
    BLOCKED = 2 * BARRIERS
    """for each barrier how many warps compiled code has blocked"""
    ALL_BLOCKED = 3 * BARRIERS
    """the sum of these"""
    GENERATION = ALL_BLOCKED + 1
    """for each barrier how many phases are complete"""
    CLUSTER_TURNS = GENERATION + BARRIERS
    """of the CTA with rank 0: the turns that warps of its cluster have had"""
    RESET = CLUSTER_TURNS + 1
    """the cells up to here are 0 when a CTA starts"""
    STATED = RESET
    """for each barrier the number of threads that the first arrival names, 0 for all threads of the CTA"""
    LIVE = STATED + BARRIERS
    """the threads of the CTA that have not exited"""
    TURNS = LIVE + 1
    """address of `CLUSTER_TURNS`"""
    COMPLETES = TURNS + 1
    """1 if compiled code completes barriers"""
    WHOLE = COMPLETES + 1
    """so many threads must take part in a phase that compiled code completes; 0: any number"""
    MAY_BLOCK = WHOLE + 1
    """address of ``i32 may_block(context)``: 0 if the machine must handle the arrival of a warp; or no function"""
    COMPLETED = MAY_BLOCK + 1
    """address of ``void completed(about)``, which is called when a phase is complete, or no function"""
    ABOUT = COMPLETED + 1
    WAITING = ABOUT + 1
    """for each barrier the contexts of the blocked warps, `MOST_WARPS` each, in the order of their arrivals"""
    END = WAITING + BARRIERS * MOST_WARPS


def arrivals(program: Program) -> NDArray[np.int64]:
    """For each op 0, or how its warp waits at a barrier of its CTA and does nothing else."""
    found = np.zeros(max(len(program.ops), 1), np.int64)
    for op in program.ops:
        found[op.index] = _arrival(op)
    return found


def _arrival(op: Op) -> int:
    effects = op.effects
    if not isinstance(effects, CtaBarrier) or not effects.waits or effects.reduces:
        return 0
    number, count = op.operands[:2]
    if not isinstance(number, Const) or not 0 <= number.value < BARRIERS:
        return 0
    if isinstance(count, Unused):
        return 1 << _WAITS_SHIFT | number.value
    if not isinstance(count, Const) or count.value % 32 or not 0 < count.value <= _MOST_THREADS:
        return 0
    return 1 << _WAITS_SHIFT | op.aligned << _WHOLE_SHIFT | count.value << _STATED_SHIFT | number.value


def has_waits(program: Program) -> bool:
    """Whether warps wait for phases of mbarrier objects, or for groups of wgmma."""
    return any(
        (isinstance(effects, MbarrierWait) and effects.blocks) or (isinstance(effects, WaitGroup) and effects.of is Completion.WGMMA_GROUP)
        for effects in (op.effects for op in program.ops)
    )


def emit_turns(module: Module) -> None:
    """``i32 turns(context, table, words)``: run a warp; and others, as long as each only waits as compiled code lets it wait.

    The module has ``groupwait`` (`ptxlab.engine.warpgroups`), too. The first one begins with its arrival if `TurnWord.ARRIVES` says so. The
    result is the status of the last one, `TurnWord.CURRENT`. After `Status.BLOCKED` its turn has ended.
    """
    c, (context, table, words) = module.define("i32 turns(ptr context, ptr table, ptr words)")
    current = context.variable()
    head = c.label()
    c.jump(head)
    c.begin(head)
    warp = current.get()
    words.store(warp, TurnWord.CURRENT)
    with c.when(words.word(TurnWord.ARRIVES).eq(0) & warp.word(Word.AWAITS).eq(0)):
        ended = c.call(words.pointer(TurnWord.DISPATCH), "i32", warp, table)
        with c.when(ended.ne(Status.SERVICE)):
            c.ret(ended)
    words.set_word(TurnWord.ARRIVES, 0)
    op, cells = warp.word(Word.INFO), warp.pointer(Word.BARRIERS)
    with c.when(warp.word(Word.AWAITS).ne(0)):
        awaits = _begin_wait(c, warp)
        for is_such, wait in ((awaits.eq(OF_GROUPS), _wait_for_groups), (awaits.ne(0), _wait)):
            with c.when(is_such):
                with c.when(wait(c, warp, words, op, awaits)):
                    current.set(_next_turn(c, words, cells))
                c.jump(head)
    arrival = words.pointer(TurnWord.ARRIVALS).load("i64", op)
    with c.when(arrival.eq(0)):
        c.ret(Status.SERVICE)
    number, lanes, live = arrival & (BARRIERS - 1), warp.word(Word.ACTIVE), warp.word(Word.LIVE)
    left = (warp.word(Word.EXITED) | warp.word(Word.EVENT_COUNT)).ne(0) | lanes.ne(live) | warp.word(Word.MASK).ne(live)
    with c.when(left | cells.word(BarrierCell.COMPLETES).eq(0) | cells.load("i64", number + BarrierCell.MACHINE).ne(0)):
        c.ret(Status.SERVICE)
    stated, before, whole = (arrival >> _STATED_SHIFT) & 0xFFFF, cells.load("i64", number), cells.word(BarrierCell.WHOLE)
    needed = stated.ne(0).select(stated, cells.word(BarrierCell.LIVE))
    arrived = before + ((arrival >> _WHOLE_SHIFT) & 1).ne(0).select(c.const("i64", 32), lanes.intrinsic("ctpop"))
    others = before.ne(0) & cells.load("i64", number + BarrierCell.STATED).ne(stated)
    with c.when(others | arrived.ugt(needed) | (whole.ne(0) & whole.ne(needed))):
        c.ret(Status.SERVICE)
    may_block = cells.pointer(BarrierCell.MAY_BLOCK)
    with c.when(may_block.ne(0)), c.when(c.call(may_block, "i32", warp).eq(0)):
        c.ret(Status.SERVICE)
    _count(words, op)
    with c.when(arrived.eq(needed)):
        _complete(c, words, cells, number)
        c.jump(head)
    cells.store(arrived, number)
    cells.store(stated, number + BarrierCell.STATED)
    _block(c, warp, words, cells, number)
    current.set(_next_turn(c, words, cells))
    c.jump(head)


def _count(words: Value, op: Value) -> None:
    """Count an execution of a service."""
    counts = words.pointer(TurnWord.COUNTS)
    counts.store(counts.load("i64", op) + 1, op)


def _begin_wait(c: Function, warp: Value) -> Value:
    """Lanes wait; a warp that has been blocked waits once more. For what they wait (`Word.AWAITS`), which the context forgets.

    The function returns where the machine must handle the wait.
    """
    awaits = warp.word(Word.AWAITS)
    warp.set_word(Word.AWAITS, 0)
    left = (warp.word(Word.EXITED) | warp.word(Word.EVENT_COUNT)).ne(0) | warp.word(Word.MASK).ne(warp.word(Word.LIVE))
    with c.when(left):
        c.ret(Status.SERVICE)
    return awaits


def _wait_for_groups(c: Function, warp: Value, words: Value, op: Value, awaits: Value) -> Value:
    """The wait is for groups of wgmma: whether the warp is blocked. The function returns where handlers have blocked others before."""
    group = warp.pointer(Word.WARPGROUP)
    with c.when(group.word(GroupWord.AWAITED).ne(NEVER)):
        c.ret(Status.SERVICE)
    _count(words, op)
    is_blocked = c.call("groupwait", "i64", warp, warp.word(Word.AWAITED_RESULT)).ne(0)
    with c.when(is_blocked) as otherwise:
        _block_in(c, group.at(8 * GroupWord.WAITERS), warp, words)
        otherwise()
        with c.when(warp.word(Word.EVENTS).ne(0)):
            note_row(warp, op, warp.word(Word.ACTIVE), c.const("i64", 0))
    return is_blocked


def _block_in(c: Function, waiters: Value, warp: Value, words: Value) -> None:
    """A warp becomes the last one of those who wait for the same, and its turn ends; ``waiters`` is where the first one is named."""
    link = waiters.variable()
    with c.loop_while(lambda: link.get().word(0).ne(0)):
        link.set(link.get().pointer(0).at(8 * Word.NEXT_WAITER))
    link.get().store(warp)
    warp.set_word(Word.NEXT_WAITER, 0)
    _end_turn(c, warp, words)


def _wait(c: Function, warp: Value, words: Value, op: Value, awaits: Value) -> Value:
    """The wait is for a phase of an mbarrier object: whether the warp is blocked. The function returns where there is no object."""
    shared, offset = warp.pointer(Word.SHARED), awaits & (BY_PARITY - 1)
    place = row_address(shared, warp.word(Word.SHARED_SIZE), offset)
    after, active = place.load("i32", Cell.PHASES).to("i64"), warp.word(Word.ACTIVE)
    with c.when(after.eq(0) | shared.at(offset).word(0).ne(MBARRIER_TOKEN)):
        c.ret(Status.SERVICE)
    _count(words, op)
    is_over = is_complete(after, warp.word(Word.AWAITED_PHASE), (awaits & BY_PARITY).ne(0))
    with c.when(is_over) as otherwise:
        result = warp.pointer(Word.AWAITED_RESULT)
        with c.when(result.ne(0)):
            result.store(result.load("i32") | active.to("i32"))
        with c.when(warp.word(Word.EVENTS).ne(0)):
            note_row(warp, op, active, offset)
        otherwise()
        warp.set_word(Word.AWAITS, awaits)
        _block_in(c, place.at(4 * Cell.WAITERS), warp, words)
    return ~is_over


def _complete(c: Function, words: Value, cells: Value, number: Value) -> None:
    """A phase is complete: the blocked warps can run."""
    completed = cells.pointer(BarrierCell.COMPLETED)
    with c.when(completed.ne(0)):
        c.call(completed, "void", cells.pointer(BarrierCell.ABOUT))
    blocked = cells.load("i64", number + BarrierCell.BLOCKED)
    waiting = cells.at((number * MOST_WARPS + BarrierCell.WAITING) * 8)
    with c.loop(blocked) as i:
        resume(words, waiting.load("ptr", i))
    words.set_word(TurnWord.ARRIVED, words.word(TurnWord.ARRIVED) + blocked + 1)
    cells.set_word(BarrierCell.ALL_BLOCKED, cells.word(BarrierCell.ALL_BLOCKED) - blocked)
    cells.store(cells.load("i64", number + BarrierCell.GENERATION) + 1, number + BarrierCell.GENERATION)
    for cell in (BarrierCell.ARRIVED, BarrierCell.BLOCKED):
        cells.store(c.const("i64", 0), number + cell)


def resume(words: Value, warp: Value) -> None:
    """A warp that compiled code has blocked can run."""
    tail = words.word(TurnWord.TAIL)
    warp.set_word(Word.QUEUED, 1)
    words.pointer(TurnWord.RING).store(warp, tail & words.word(TurnWord.RING_MASK))
    words.set_word(TurnWord.TAIL, tail + 1)


def _block(c: Function, warp: Value, words: Value, cells: Value, number: Value) -> None:
    """A warp waits for the others."""
    blocked = cells.load("i64", number + BarrierCell.BLOCKED)
    cells.store(warp, number * MOST_WARPS + blocked + BarrierCell.WAITING)
    cells.store(blocked + 1, number + BarrierCell.BLOCKED)
    cells.set_word(BarrierCell.ALL_BLOCKED, cells.word(BarrierCell.ALL_BLOCKED) + 1)
    _end_turn(c, warp, words)


def _end_turn(c: Function, warp: Value, words: Value) -> None:
    """The turn of a warp ends. It begins a new slice next time if the launch has made progress since it did so last."""
    counts = warp.pointer(Word.BLOCKED_COUNTS)
    with c.when(counts.ne(0)):
        count = counts.at(warp.word(Word.INFO) * warp.word(Word.BLOCKED_STRIDE))
        count.set_word(0, count.word(0) + 1)
    fuel, progress = warp.word(Word.FUEL), warp.pointer(Word.PROGRESS).load("i64")
    fresh, whole = warp.word(Word.SEEN_PROGRESS).ne(progress), c.const("i64", SLICE)
    warp.set_words(
        {
            Word.AHEAD: 1,
            Word.SEEN_PROGRESS: progress,
            Word.FUEL_LEFT: fresh.select(whole, (fuel + warp.word(Word.SLICE_REST)).max(1)),
            Word.LAST_SLICE: fresh.select(whole, warp.word(Word.LAST_SLICE)),
        }
    )
    used = words.word(TurnWord.USED) + (warp.word(Word.GRANTED) - fuel)
    words.set_words({TurnWord.USED: used, TurnWord.ENDED: words.word(TurnWord.ENDED) + 1})


def _next_turn(c: Function, words: Value, cells: Value) -> Value:
    """The context of the warp whose turn begins; the function returns if there is none, or if the scheduler has something else to do."""
    first, used = words.word(TurnWord.HEAD), words.word(TurnWord.USED)
    turns = cells.pointer(BarrierCell.TURNS)
    ended = turns.load("i64") + 1
    other = first.eq(words.word(TurnWord.TAIL)) | used.ugt(words.word(TurnWord.ALLOWED)) | (ended & (POLL_TURNS - 1)).eq(0)
    with c.when(other):
        c.ret(Status.BLOCKED)
    entry = words.pointer(TurnWord.RING).load("i64", first & words.word(TurnWord.RING_MASK))
    with c.when((entry & MACHINE_ONLY).ne(0)):
        c.ret(Status.BLOCKED)
    following = entry.convert("inttoptr", "ptr")
    turns.store(ended)
    words.set_word(TurnWord.HEAD, first + 1)
    left = following.word(Word.FUEL_LEFT)
    granted = left.ne(0).select(left, c.const("i64", SLICE))
    clock = words.word(TurnWord.CLOCK) + used
    following.set_words({Word.FUEL: granted, Word.GRANTED: granted, Word.SLICE_REST: 0})
    following.set_words({Word.LIMIT: NO_LIMIT, Word.CLOCK: clock, Word.QUEUED: 0})
    return following
