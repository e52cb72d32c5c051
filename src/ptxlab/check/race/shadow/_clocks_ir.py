"""What the compiled functions of the sanitizer do with the clock of the running agent."""

from __future__ import annotations

from ptxlab.check.model import Component, Row
from ptxlab.check.race.shadow.shadow_words import CLUSTER_SHIFT, StateWord
from ptxlab.check.race.shadow.transfers import LoadState, TransferWord
from ptxlab.native.builder import Function, Value

__all__ = ["CLOCKS", "DONE", "PYTHON", "SLOT", "complete_read_loads", "emit_advance", "emit_tick", "own_clock"]

CLOCKS = "<16 x i32>"
"""Clocks that are joined at a time; the width of the rows is a multiple."""
SLOT = (1 << CLUSTER_SHIFT) - 1
"""The bits of the name of a slot that are its number in the cluster."""
DONE, PYTHON = range(2)
"""The results of functions that process one row: it is processed, or nothing has been done and Python must handle it."""


def own_clock(state: Value) -> Value:
    """Where the rows of the running agent hold its own clock."""
    return state.pointer(StateWord.ROWS).at((state.word(StateWord.SLOT) & SLOT) << 2)


def emit_tick(state: Value, times: Value | int = 1) -> Value:
    """The same as `Clocks.tick`, so many times; the new clock."""
    own = own_clock(state)
    clock = own.load("i32") + times
    for component in Component:
        own.store(clock, component)
    own.at(state.word(StateWord.WIDTH) * (4 * Row.TENSOR)).store(clock, Component.EARLY)
    return clock.to("i64")


def emit_advance(state: Value, slot: Value, component: Component, clock: Value, rows: Value | None = None) -> None:
    """The same as `Clocks.advance`, in the rows of the running agent or in other ``rows`` of the same width."""
    rows = state.pointer(StateWord.ROWS) if rows is None else rows
    for line in (Row.EXECUTION, Row.TENSOR):
        place = rows.at((state.word(StateWord.WIDTH) * line + (slot & SLOT) + component) << 2)
        place.store(clock.intrinsic("umax", place.load("i32")))


def complete_read_loads(c: Function, header: Value, transfers: Value, op: Value, result: int) -> None:
    """Complete the loads from tensor memory whose registers have been read when an instruction takes effect; return if that is not known.

    The same as `TensorMemoryAccesses.consume`, for the agent with the words ``header`` (`StateWord.ROWS` and those after it).
    """
    with c.when(transfers.ne(0)), c.when((transfers.word(TransferWord.HELD) | transfers.word(TransferWord.LOADS)).ne(0)):
        count, known = transfers.word(TransferWord.LOADS), transfers.pointer(TransferWord.READ_BEFORE)
        with c.when(transfers.word(TransferWord.HELD).ne(0)):
            c.ret(result)
        read = c.variable("i64", count)
        with c.loop(count, entered=True) as i:
            load = _held_load(transfers, i).word(0)
            found = known.load("ptr", load).load("i8", op)
            oldest = read.get().eq(count)
            with c.when(oldest & found.eq(LoadState.UNKNOWN)):
                c.ret(result)
            with c.when(oldest & found.eq(LoadState.UNREAD)):
                read.set(i)
        done = read.get()
        with c.when(done.ne(0)):
            newest = _held_load(transfers, done - 1).word(1)
            emit_advance(header, transfers.word(TransferWord.LOAD_SLOT), Component.EARLY, newest.to("i32"))
            with c.loop(count - done) as i:
                left = _held_load(transfers, done + i)
                _held_load(transfers, i).set_words({0: left.word(0), 1: left.word(1)})
            transfers.set_word(TransferWord.LOADS, count - done)


def _held_load(transfers: Value, number: Value) -> Value:
    """The op index and the clock of a load that compiled code holds."""
    return transfers.at((number << 4) + 8 * (TransferWord.LOADS + 1))
