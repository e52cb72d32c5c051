"""Launches watched by another observer than the sanitizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from ptxlab.engine.support.event_rows import ROW_WORDS
from ptxlab.machine.launch import launch
from ptxlab.machine.observe.event_buffer import EventBuffer
from ptxlab.machine.observe.observer import Observer

__all__ = ["Recorder", "observed_by", "reached"]


@contextmanager
def observed_by(observe: Callable[[Any], Observer]) -> Iterator[None]:
    """Launches that ask for the sanitizer get this observer in its place."""
    with patch.object(launch, "observer_for", lambda launch, *_: observe(launch)):
        yield


class Recorder(Observer):
    """Reads the rows that warps record, in order."""

    def __init__(self, launch: Any) -> None:
        self.launch = launch
        self._buffer = EventBuffer(launch, self.drain)

    def fill(self, warp: Any) -> None:
        """Let a warp's recorded rows go into the buffer."""
        self._buffer.fill(warp)

    def drain(self, warp: Any) -> None:
        """Hand over what a warp has left."""
        count = self._buffer.take(warp)
        if count:
            self.recorded(warp, self._buffer.rows[:count].reshape(count, ROW_WORDS))

    def recorded(self, warp: Any, rows: Any) -> None:
        """Rows of a warp: op and lanes, a number, host addresses."""


class _Reached(Recorder):
    def __init__(self, launch: Any, ops: set[int]) -> None:
        super().__init__(launch)
        self._ops = ops

    def recorded(self, warp: Any, rows: Any) -> None:
        self._ops.update((rows[:, 0] & 0xFFFFFFFF).tolist())

    def serviced(self, warp: Any, op: Any) -> None:
        self._ops.add(op.index)


def reached(launch: Callable[[], object]) -> frozenset[int]:
    """The instructions that a launch executes, among those that an observer hears of: all that synchronise."""
    ops: set[int] = set()
    with observed_by(lambda observed: _Reached(observed, ops)):
        launch()
    return frozenset(ops)
