"""Streams and events, as Triton's benchmarks and torch.cuda offer them, of a device on which every call is synchronous."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["Event", "Stream", "current_device", "current_stream", "default_stream", "synchronize"]


class Event:
    """A point in time; the time between two is that of the simulation."""

    def __init__(self, **_: Any) -> None:
        self.seconds = 0.0

    def record(self, stream: Any = None) -> None:
        self.seconds = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds; never zero, because benchmarks divide by it."""
        return max((end.seconds - self.seconds) * 1e3, 1e-3)

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True


class Stream:
    """Launches run at once, in order."""

    cuda_stream = 0

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        pass


def current_device() -> int:
    return 0


def current_stream(device: Any = None) -> Stream:
    return Stream()


def default_stream(device: Any = None) -> Stream:
    return Stream()


def synchronize(device: Any = None) -> None:
    pass
