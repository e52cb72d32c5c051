"""The event buffer: rows that compiled code records for an observer, and what happens when the buffer is full."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Word
from ptxlab.engine.support.event_rows import ROW_WORDS, SAVED_BYTES
from ptxlab.native import callback_address

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["CAPACITY", "EventBuffer"]

CAPACITY = 1024
"""Rows."""
_COUNT = int(Word.EVENT_COUNT)
_DRAIN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class EventBuffer:
    """One buffer for all warps of a launch.

    Attributes
    ----------
    rows : uint64[row, word]
    saved : what the store that wants to be noted has overwritten, while a full buffer is drained
    address : of the rows, in host memory
    heads : the words of all rows, one after the other
    """

    def __init__(self, launch: Launch, full: Callable[[Warp], None]) -> None:
        self.rows: NDArray[np.uint64] = np.empty((CAPACITY, ROW_WORDS), np.uint64)
        self.saved: NDArray[np.uint8] = np.zeros(SAVED_BYTES, np.uint8)
        self.address = int(self.rows.ctypes.data)
        self._saved_address = int(self.saved.ctypes.data)
        self.heads = self.rows.reshape(-1).data.cast("B").cast("Q")
        self._launch = launch
        self._full = full
        overflow = self._overflow()
        next(overflow)
        self._callback = _DRAIN(overflow.send)
        self._overflow_address = callback_address(self._callback)
        self._raised: BaseException | None = None

    def fill(self, warp: Warp) -> None:
        """Let a warp's recorded rows go into the buffer."""
        words = warp.words
        words[Word.EVENTS] = self.address
        words[Word.EVENT_CAPACITY] = CAPACITY
        words[Word.EVENT_DRAIN] = self._overflow_address
        words[Word.EVENT_SAVED] = self._saved_address

    def take(self, warp: Warp) -> int:
        """How many rows a warp has left, which are now to be read; raises what was raised while a full buffer was drained."""
        words = warp.words
        count = words[_COUNT]
        if count:
            words[_COUNT] = 0
        if self._raised is not None:
            error, self._raised = self._raised, None
            raise error
        return count

    def _overflow(self) -> Generator[None, int]:
        """Drain a full buffer each time that compiled code sends its context.

        What is raised here compiled code cannot pass on: it stops with rows to be read, and `take` raises it. A generator stands inside its
        ``try`` when it is called; an interrupt that arrived during compiled code would be raised before the first line of the function.
        """
        while True:
            try:
                while True:
                    yield
                    self._full(self._current())
            except GeneratorExit:
                return
            except BaseException as error:
                self._raised = error
                words = self._current().words
                words[Word.FUEL], words[_COUNT], words[Word.EVENT_REPLAY] = 0, 1, 0

    def _current(self) -> Warp:
        """The warp whose code calls."""
        warp = self._launch.scheduler.running_warp()
        assert warp is not None
        return warp
