"""What the compiled functions of the sanitizer do with the clock of the running agent."""

from __future__ import annotations

from ptxlab.check.model import Component, Row
from ptxlab.check.race.shadow.shadow_ir import CLUSTER_SHIFT, StateWord
from ptxlab.native.builder import Value

__all__ = ["CLOCKS", "DONE", "PYTHON", "SLOT", "emit_advance", "emit_tick", "own_clock"]

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
