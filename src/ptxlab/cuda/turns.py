"""How launches of several streams share the machine: one executes at a time, and they take turns."""

from __future__ import annotations

import threading
import time
from collections import deque
from ctypes import byref, c_uint32
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.cuda.core_types import MOST_RANGES, access_rows
from ptxlab.cuda.memory import DriverMemory

__all__ = ["STREAM_THREAD", "Turns"]

_PAUSE = 0.001
_RECENT = 0.2
"""Seconds of processor time that a launch may take from one stall to the next; one that takes more makes progress. Other threads of the
program and other processes may hold the launch up for any time."""
_HOPELESS, _HOPELESS_BESIDE_THREADS = 1.0, 30.0
"""Seconds without anything new, while the program waits, after which a launch that waits counts as hung; the second, if the program has a
thread that does not wait."""

STREAM_THREAD = "ptxlab stream"
"""The name of the threads that execute launches."""


class Turns:
    """A lock that is handed on in order; `ptxlab.machine` asks it between the time slices of warps.

    Parameters
    ----------
    library : the driver, which knows whether the program waits and whether other streams go on
    memory : what launches share
    """

    def __init__(self, library: Any, memory: DriverMemory) -> None:
        self._library = library
        self._memory = memory
        self._handed_over: set[int] = set()
        """Threads whose launches have let others go on, and have not ended."""
        self._guard = threading.Lock()
        self._taken = False
        self._queue: deque[threading.Lock] = deque()
        self._seen: dict[int, set[int]] = {}
        self._stalls: dict[int, float] = {}
        """For each thread the processor time at which its launch has last stalled."""
        self._news = 0.0
        self._interrupted = False

    def __enter__(self) -> Turns:
        """Wait for the machine, and take it for a launch."""
        mine: threading.Lock | None = None
        with self._guard:
            if self._taken:
                mine = threading.Lock()
                mine.acquire()
                self._queue.append(mine)
            self._taken = True
        if mine is not None:
            mine.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        with self._guard:
            if self._queue:
                self._queue.popleft().release()
            else:
                self._taken = False

    def ended(self) -> None:
        """Forget the launch of this thread."""
        thread = threading.get_ident()
        self._seen.pop(thread, None)
        self._stalls.pop(thread, None)
        self._handed_over.discard(thread)
        self._news = time.monotonic()
        self._interrupted = False

    def interrupt(self) -> None:
        """End the launch that executes, or the next one, with a KeyboardInterrupt."""
        self._interrupted = True

    def turn(self) -> None:
        """Let another launch execute, if one waits."""
        if self._interrupted:
            raise KeyboardInterrupt
        if time.thread_time() - self._stalls.get(threading.get_ident(), 0.0) > _RECENT:
            self._news = time.monotonic()
        if self._queue:
            self._hand_over()
            self.__enter__()

    def _hand_over(self) -> None:
        """Let others go on before the launch of this thread has ended: they may write memory that it reads."""
        self._handed_over.add(threading.get_ident())
        self._memory.forget_mirrors()
        self.__exit__()

    def overlapped(self) -> bool:
        """Whether others may have written memory since the launch of this thread began."""
        return bool(self._handed_over) or not self._memory.is_current()

    def wants_accesses(self) -> bool:
        """Whether the order of the launch of this thread and other work is checked."""
        return bool(self._library.ptxlab_order_is_wanted())

    def accessed(self, ranges: NDArray[np.uint64]) -> None:
        """Tell the driver what the launch of this thread has accessed."""
        self._library.ptxlab_accessed(access_rows(ranges[:MOST_RANGES]), min(len(ranges), MOST_RANGES))

    @staticmethod
    def _patience(waiting: int) -> float:
        """How long a launch may wait while so many threads of the program wait."""
        threads = sum(thread.name != STREAM_THREAD for thread in threading.enumerate())
        return _HOPELESS_BESIDE_THREADS if threads > waiting else _HOPELESS

    def stalled(self, state: int) -> bool:
        """Let others go on for a while; return False if the program waits and nothing new has happened for long.

        Parameters
        ----------
        state : a digest of the state of the launch
        """
        thread, now = threading.get_ident(), time.monotonic()
        self._library.ptxlab_stalled()
        seen = self._seen.setdefault(thread, set())
        waiting, moving = c_uint32(), c_uint32()
        self._library.ptxlab_activity(byref(waiting), byref(moving))
        if state not in seen or moving.value or not waiting.value:
            self._news = now
        seen.add(state)
        if now - self._news > _HOPELESS and now - self._news > self._patience(waiting.value):
            self._news = now
            return False
        self._stalls[thread] = time.thread_time()
        self._hand_over()
        time.sleep(_PAUSE)
        self.__enter__()
        return True
