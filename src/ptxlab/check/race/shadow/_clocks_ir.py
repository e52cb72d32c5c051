"""What the compiled functions of the sanitizer do with the clock of the running agent."""

from __future__ import annotations

from ptxlab.check.model import Component, Row
from ptxlab.check.race.shadow.shadow_ir import CLUSTER_SHIFT, StateWord
from ptxlab.check.race.shadow.transfers import TransferWord
from ptxlab.native.builder import Function, Value

__all__ = ["CLOCKS", "DONE", "PYTHON", "SLOT", "emit_advance", "emit_tick", "leave_unread_loads", "own_clock"]

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


def leave_unread_loads(c: Function, header: Value, transfers: Value, op: Value, result: int) -> None:
    """The registers of loads from tensor memory have been read when an instruction takes effect; return unless that is known.

    The same as `TensorMemoryAccesses.consume`, for the agent with the words ``header`` (`StateWord.ROWS` and those behind it).
    """
    with c.when(transfers.ne(0)), c.when((transfers.word(TransferWord.HELD) | transfers.word(TransferWord.LOADS)).ne(0)):
        count, known = transfers.word(TransferWord.LOADS), transfers.pointer(TransferWord.READ_BEFORE)
        with c.when(transfers.word(TransferWord.HELD).ne(0)):
            c.ret(result)
        with c.loop(count, entered=True) as i:
            load = transfers.at((i << 4) + 8 * (TransferWord.LOADS + 1)).word(0)
            with c.when(known.load("ptr", load).load("i8", op).eq(0)):
                c.ret(result)
        newest = transfers.at((count << 4) + 8 * TransferWord.LOADS).word(0)
        emit_advance(header, transfers.word(TransferWord.LOAD_SLOT), Component.EARLY, newest.to("i32"))
        transfers.set_word(TransferWord.LOADS, 0)
