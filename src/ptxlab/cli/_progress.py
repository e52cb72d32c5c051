"""A line on a terminal about a launch that runs for seconds."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["ProgressLine"]

_CLEAR = "\r\x1b[K"


class ProgressLine:
    """Shows kernel, launch, CTAs and time of a launch that runs for longer than ``delay`` seconds, and clears the line at its end.

    One thread looks at the launch that is running, so that short launches cost nothing.
    """

    def __init__(self, stream: TextIO, delay: float = 1.0, interval: float = 0.5) -> None:
        self._stream = stream
        self._delay, self._interval = delay, interval
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._running: tuple[str, int, float] | None = None
        self._ctas = 0, 0
        self._shown = False

    @contextmanager
    def launch(self, kernel: str, number: int) -> Iterator[Callable[[int, int], None]]:
        """Show a launch while it runs; yields what is called with the CTAs that have ended, and all CTAs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="ptxlab progress", daemon=True)
            self._thread.start()
        self._ctas = 0, 0
        self._running = kernel, number, time.monotonic()
        try:
            yield self._note
        finally:
            with self._lock:
                self._running = None
                if self._shown:
                    self._write(_CLEAR)
                    self._shown = False

    def _note(self, done: int, total: int) -> None:
        self._ctas = done, total

    def _watch(self) -> None:
        while True:
            time.sleep(self._interval)
            with self._lock:
                if self._running is not None:
                    self._show(*self._running)

    def _show(self, kernel: str, number: int, started: float) -> None:
        seconds = time.monotonic() - started
        if seconds < self._delay:
            return
        done, total = self._ctas
        line = f"ptxlab: {kernel}, launch {number}: {done} of {total} CTAs, {seconds:.0f} s"
        self._write(f"{_CLEAR}{line[: shutil.get_terminal_size().columns - 1]}")
        self._shown = True

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
