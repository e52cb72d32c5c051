"""The compiled part of the sanitizer that handles waits for mbarrier objects and arrivals on them (`MbarrierClock`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxlab.check.model import Component, Row
from ptxlab.check.race.clocks.mbarrier_clock import MbarrierWord, WarpWord
from ptxlab.check.race.shadow._clocks_ir import CLOCKS, DONE, PYTHON, SLOT, complete_read_loads, emit_advance, emit_tick, own_clock
from ptxlab.check.race.shadow.shadow_words import ANNOUNCES, LANES_ARRIVE, AgentWord, OpWord, PipeWord, StateWord
from ptxlab.engine.arrivals import COMPLETE_SHIFT, CTAS_SHIFT, OFFSET_MASK
from ptxlab.native.builder import Function, Module, Value

__all__ = [
    "emit_completion",
    "emit_mbarrier_functions",
    "first_arrival",
    "object_of",
    "unless_initialised",
    "unless_may_arrive",
    "words_of_warp",
]

_OP = 0xFFFF_FFFF
_CARRIED = Row.TENSOR + 1
"""The rows that synchronisation objects carry."""
_CTAS = (1 << COMPLETE_SHIFT - CTAS_SHIFT) - 1


def emit_mbarrier_functions(module: Module) -> None:
    """The functions below, for rows of services that compiled code has completed. Each does what Python does for its row, or nothing."""
    _initialised(module)
    _may_arrive(module)
    _gather(module)
    _complete(module)
    _wait(module)
    _arrival(module)
    _commit(module)


def words_of_warp(state: Value, about: Value) -> Value:
    """The words of the running agent (`WarpWord`); the slots before its own are those of the grid before and of the other warps."""
    return about.at((state.word(StateWord.SLOT) & SLOT) * (8 * WarpWord.END // len(Component)))


def _wait(module: Module) -> None:
    """``i64 mbarrier_wait(state, row)``: the end of a wait for a phase of an mbarrier object, as `Barriers.acquired` does; or `PYTHON`."""
    c = Function(module, "mbarrier_wait", "i64", "ptr state, ptr row", internal=True)
    state, row = c.parameters
    table, suspects = state.pointer(StateWord.AGENT).pointer(AgentWord.MBARRIERS), state.word(StateWord.SUSPECT_COUNT)
    with c.when(table.eq(0) | suspects.ne(0)):
        c.ret(PYTHON)
    about = table.load("ptr", row.word(1) >> 3)
    with c.when(about.eq(0)):
        c.ret(PYTHON)
    done, width, words = about.pointer(MbarrierWord.DONE), state.word(StateWord.WIDTH), words_of_warp(state, about)
    python = about.word(MbarrierWord.PYTHON).ne(0)
    with c.when(python | about.word(MbarrierWord.DONE_WIDTH).ne(width)):
        c.ret(PYTHON)
    unless_initialised(c, state, about)
    clock, head, lanes = emit_tick(state), words.word(WarpWord.WAIT_HEAD), row.word(0)
    is_new = words.word(WarpWord.WAIT_CLOCK).eq(0)
    with c.when(is_new):
        noted = about.word(MbarrierWord.NOTED) + 1
        about.set_word(MbarrierWord.NOTED, noted)
        words.set_word(WarpWord.WAIT_ORDER, noted)
    op = ((head ^ lanes) & _OP).eq(0)
    with c.when(~is_new & op & (head & lanes & ~_OP).eq(0)) as otherwise:
        words.set_word(WarpWord.WAIT_HEAD, head | lanes)
        otherwise()
        words.set_word(WarpWord.WAIT_HEAD, lanes)
        words.set_word(WarpWord.WAIT_CLOCK, clock)
    with c.loop((width >> 4) * _CARRIED) as i:
        place = state.pointer(StateWord.ROWS).at(i << 6)
        place.store(place.load(CLOCKS).intrinsic("umax", done.at(i << 6).load(CLOCKS)))
    c.ret(DONE)


def _arrival(module: Module) -> None:
    """``i64 mbarrier_arrival(state, row, info)``: the same as `Barriers.performed` for an instruction that is no commit; or `PYTHON`."""
    c = Function(module, "mbarrier_arrival", "i64", "ptr state, ptr row, ptr info", internal=True)
    state, row, info = c.parameters
    head, arrived, kind = row.word(0), row.word(1), info.word(OpWord.DETAIL)
    _leave_if_pending(c, state, head & _OP)
    rank = (arrived >> CTAS_SHIFT).lowest_bit()
    about = object_of(c, state, rank, arrived & OFFSET_MASK)
    unless_initialised(c, state, about)
    with c.when(kind.eq(ANNOUNCES)):
        c.ret(DONE)
    completes, words = arrived >> COMPLETE_SHIFT, words_of_warp(state, about)
    unless_may_arrive(c, state, about, completes)
    with c.when(kind.eq(LANES_ARRIVE)):
        emit_tick(state, (head >> 32).to("i32").intrinsic("ctpop") - 1)  # the last one releases what all do
    c.call("gather", "void", state, about)
    with c.when(words.word(WarpWord.ARRIVAL_CLOCK).eq(0)):
        words.set_word(WarpWord.ARRIVAL_ORDER, first_arrival(about))
    words.set_words({WarpWord.ARRIVAL_CLOCK: own_clock(state).load("i32").to("i64"), WarpWord.ARRIVAL_OP: head & _OP})
    emit_tick(state)
    with c.when(completes.ne(0)):
        c.call("complete", "void", about)
    c.ret(DONE)


def _commit(module: Module) -> None:
    """``i64 tensor_commit(state, row)``: the same as `Operations.commit` and `Barriers.performed`; or `PYTHON`."""
    c = Function(module, "tensor_commit", "i64", "ptr state, ptr row", internal=True)
    state, row = c.parameters
    head, arrived, agent = row.word(0), row.word(1), state.pointer(StateWord.AGENT)
    ctas, completes = (arrived >> CTAS_SHIFT) & _CTAS, arrived >> COMPLETE_SHIFT
    _leave_if_pending(c, state, head & _OP)
    pipes = agent.pointer(AgentWord.PIPES)
    with c.when(pipes.eq(0)):
        c.ret(PYTHON)
    pipe = pipes.at((head >> 32).lowest_bit() * (8 * PipeWord.END))
    slot, clock = pipe.word(PipeWord.NAME) & SLOT, pipe.word(PipeWord.CLOCK)
    for rank, about in _objects(c, state, ctas, arrived):
        unless_initialised(c, state, about)
        unless_may_arrive(c, state, about, (completes >> rank) & 1)
        before = words_of_warp(state, about).word(WarpWord.COMMIT_HEAD)
        with c.when(slot.eq(0) | (before.ne(0) & (before >> 32).ne(slot))):
            c.ret(PYTHON)
    for rank, about in _objects(c, state, ctas, arrived):
        emit_completion(c, state, about, [(slot, clock)])
        words = words_of_warp(state, about)
        with c.when(words.word(WarpWord.COMMIT_HEAD).eq(0)):
            words.set_word(WarpWord.COMMIT_ORDER, first_arrival(about))
        words.set_words({WarpWord.COMMIT_CLOCK: clock, WarpWord.COMMIT_HEAD: (slot << 32) | (head & _OP)})
        with c.when(((completes >> rank) & 1).ne(0)):
            c.call("complete", "void", about)
    pipe.set_word(PipeWord.CLOCK, clock + 1)
    state.pointer(StateWord.ROWS).at((state.word(StateWord.WIDTH) * Row.TENSOR + slot + Component.EARLY) << 2).store((clock + 1).to("i32"))
    c.ret(DONE)


def emit_completion(c: Function, state: Value, about: Value, slots: Sequence[tuple[Value, Value]]) -> None:
    """The completion of an operation of the running agent arrives, which releases the accesses of these slots up to a clock each.

    The same as `PendingCompletion` says.
    """
    width, own = state.word(StateWord.WIDTH), state.word(StateWord.SLOT) & SLOT
    gathered, taken = about.pointer(MbarrierWord.GATHERED), about.word(MbarrierWord.TAKEN).ne(0)
    places = [gathered.at((width * line + own + Component.DONE) << 2) for line in range(_CARRIED)]
    kept = [taken.select(place.load("i32"), 0) for place in places]
    c.call("gather", "void", state, about)
    for place, before in zip(places, kept, strict=True):
        place.store(before)  # what the warp itself has accessed is not released
    for slot, clock in slots:
        for component in Component:
            emit_advance(state, slot, component, clock.to("i32"), gathered)


def _leave_if_pending(c: Function, state: Value, op: Value) -> None:
    """Leave a row to Python if accesses are to be judged, or registers of loads may be unread, or Python handles all arrivals."""
    agent = state.pointer(StateWord.AGENT)
    with c.when(state.word(StateWord.SUSPECT_COUNT).ne(0) | agent.word(AgentWord.CLUSTER_MBARRIERS).eq(0)):
        c.ret(PYTHON)
    complete_read_loads(c, state, agent.pointer(AgentWord.TRANSFERS), op, PYTHON)


def object_of(c: Function, state: Value, rank: Value, offset: Value) -> Value:
    """The words of the object at an offset of a CTA of the cluster (`MbarrierWord`), which must be known."""
    table = state.pointer(StateWord.AGENT).pointer(AgentWord.CLUSTER_MBARRIERS).load("ptr", rank)
    with c.when(table.eq(0)):
        c.ret(PYTHON)
    about = table.load("ptr", offset >> 3)
    with c.when(about.eq(0)):
        c.ret(PYTHON)
    return about


def _objects(c: Function, state: Value, ctas: Value, arrived: Value) -> Iterator[tuple[Value, Value]]:
    """Emit code for each CTA of a mask; yields its rank, and the words of its object."""
    with c.each_bit(ctas) as rank:
        yield rank, object_of(c, state, rank, arrived & OFFSET_MASK)


def first_arrival(about: Value) -> Value:
    """A slot arrives for the first time: its place in their order."""
    order = about.word(MbarrierWord.ARRIVED) + 1
    about.set_word(MbarrierWord.ARRIVED, order)
    return order


def unless_initialised(c: Function, state: Value, about: Value) -> None:
    """Leave a row to Python unless the initialisation is known to be ordered before the uses of the warp."""
    with c.when(c.call("initialised", "i64", state, about).eq(0)):
        c.ret(PYTHON)


def _initialised(module: Module) -> None:
    """``i64 initialised(state, about)``: whether the initialisation is ordered before what the running agent does, which is noted."""
    c = Function(module, "initialised", "i64", "ptr state, ptr about", internal=True)
    state, about = c.parameters
    words, width, slot = words_of_warp(state, about), state.word(StateWord.WIDTH), about.word(MbarrierWord.INIT_SLOT)
    with c.when(words.word(WarpWord.CHECKED).ne(0)):
        c.ret(1)
    known = state.pointer(StateWord.ROWS).load("i32", width * Row.EXECUTION + slot)
    ordered = known.to("i64").uge(about.word(MbarrierWord.INIT_CLOCK)).to("i64")
    words.set_word(WarpWord.CHECKED, ordered)
    c.ret(ordered)


def unless_may_arrive(c: Function, state: Value, about: Value, completes: Value) -> None:
    """Leave a row to Python unless compiled code may release what the warp has done to an object."""
    with c.when(c.call("may_arrive", "i64", state, about, completes).eq(0)):
        c.ret(PYTHON)


def _may_arrive(module: Module) -> None:
    """``i64 may_arrive(state, about, completes)``: whether its rows are as wide as the agent's, and nothing is to report.

    If the arrival ``completes`` a phase, all waits for the phase before are ordered before it.
    """
    c = Function(module, "may_arrive", "i64", "ptr state, ptr about, i64 completes", internal=True)
    state, about, completes = c.parameters
    width = state.word(StateWord.WIDTH)
    with c.when(about.word(MbarrierWord.PYTHON).ne(0) | about.word(MbarrierWord.GATHERED_WIDTH).ne(width)):
        c.ret(0)
    with c.when(completes.eq(0) | about.word(MbarrierWord.NOTED).eq(0)):
        c.ret(1)
    rows, gathered, taken = state.pointer(StateWord.ROWS), about.pointer(MbarrierWord.GATHERED), about.word(MbarrierWord.TAKEN).ne(0)
    with c.loop(about.word(MbarrierWord.WARPS)) as warp:
        words = about.at((warp + 1) * (8 * WarpWord.END))
        clock = words.word(WarpWord.WAIT_CLOCK)
        with c.when(clock.ne(0)):
            latest = c.const("i32", 0)
            for line in (Row.EXECUTION, Row.TENSOR):
                column = (width * line + (warp + 1) * len(Component) + Component.EARLY) << 2
                before = taken.select(gathered.at(column).load("i32"), 0)
                latest = latest.intrinsic("umax", before).intrinsic("umax", rows.at(column).load("i32"))
            with c.when(latest.to("i64").ult(clock)):
                c.ret(0)
    c.ret(1)


def _gather(module: Module) -> None:
    """``void gather(state, about)``: the same as `MbarrierClock.take` with the rows of the running agent."""
    c = Function(module, "gather", "void", "ptr state, ptr about", internal=True)
    state, about = c.parameters
    rows, gathered, taken = state.pointer(StateWord.ROWS), about.pointer(MbarrierWord.GATHERED), about.word(MbarrierWord.TAKEN).ne(0)
    with c.loop((state.word(StateWord.WIDTH) >> 4) * _CARRIED) as i:
        place, released = gathered.at(i << 6), rows.at(i << 6).load(CLOCKS)
        place.store(taken.select(place.load(CLOCKS), c.const(CLOCKS, 0)).intrinsic("umax", released))
    about.set_word(MbarrierWord.TAKEN, 1)
    c.ret()


def _complete(module: Module) -> None:
    """``void complete(about)``: the same as `MbarrierClock.complete`; all waits for the phase before are forgotten."""
    c = Function(module, "complete", "void", "ptr about", internal=True)
    (about,) = c.parameters
    with c.when(about.word(MbarrierWord.NOTED).ne(0)), c.loop(about.word(MbarrierWord.WARPS)) as warp:
        about.at((warp + 1) * (8 * WarpWord.END)).set_word(WarpWord.WAIT_CLOCK, 0)
    done, gathered = ([about.word(first), about.word(first + 1)] for first in (MbarrierWord.DONE, MbarrierWord.GATHERED))
    about.set_words(
        {
            MbarrierWord.DONE: gathered[0],
            MbarrierWord.DONE_WIDTH: gathered[1],
            MbarrierWord.GATHERED: done[0],
            MbarrierWord.GATHERED_WIDTH: done[1],
            MbarrierWord.TAKEN: 0,
            MbarrierWord.NOTED: 0,
        }
    )
    c.ret()
