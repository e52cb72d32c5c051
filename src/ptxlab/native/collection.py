"""The garbage collector waits, or works seldom, while many objects are made that refer to each other in no cycle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from threading import Lock

__all__ = ["collection_paused", "collection_seldom"]

_MOST = 32
"""So often in a process what has been made counts as old: Python does not know how much that is, and collects old objects too seldom."""
_times = count()
_SELDOM = 20_000, 20, 100
"""The thresholds of `gc` in a stretch in which Python seldom looks for cycles."""


class _Stretches:
    """How many threads are in such a stretch, and the thresholds before the first of them."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0
        self.before = _SELDOM


_stretches = _Stretches()


@contextmanager
def collection_paused() -> Iterator[None]:
    """A stretch in which Python looks for no cycles: it would walk all that is being made, again and again.

    What the first of them in a process make then counts as old, without a walk: Python looks at it when it next collects all generations.

    Examples
    --------
    >>> with collection_paused():
    ...     gc.isenabled()
    False
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            # Where something is frozen, `unfreeze` would undo what somebody else has done.
            if not gc.get_freeze_count() and next(_times) < _MOST:
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@contextmanager
def collection_seldom() -> Iterator[None]:
    """A stretch of any length, in which Python seldom looks for cycles, and hardly ever among all objects.

    Examples
    --------
    >>> before = gc.get_threshold()
    >>> with collection_seldom():
    ...     gc.get_threshold() == before
    False
    >>> gc.get_threshold() == before
    True
    """
    with _stretches.lock:
        if not _stretches.count:
            _stretches.before = gc.get_threshold()
            gc.set_threshold(*_SELDOM)
        _stretches.count += 1
    try:
        yield
    finally:
        with _stretches.lock:
            _stretches.count -= 1
            if not _stretches.count:
                gc.set_threshold(*_stretches.before)
