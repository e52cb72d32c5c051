"""The garbage collector pauses, or runs rarely, while many objects are made that refer to each other in no cycle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from threading import Lock

__all__ = ["collection_paused", "collection_rare"]

_MOST = 32
"""So often in a process what has been made counts as old: Python does not know how much that is, and collects old objects too seldom."""
_times = count()
_RARE = 20_000, 20, 100
"""The thresholds of `gc` within `collection_rare`."""


class _Active:
    """How many threads are within `collection_rare`, and the thresholds before the first of them."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0
        self.before = _RARE


_active = _Active()


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
            # Where something is frozen, `unfreeze` would undo what somebody else has done. To ask costs a walk of all that is frozen.
            if next(_times) < _MOST and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@contextmanager
def collection_rare() -> Iterator[None]:
    """A context of any length in which the garbage collector runs rarely, and hardly ever over all objects.

    Examples
    --------
    >>> before = gc.get_threshold()
    >>> with collection_rare():
    ...     gc.get_threshold() == before
    False
    >>> gc.get_threshold() == before
    True
    """
    with _active.lock:
        if not _active.count:
            _active.before = gc.get_threshold()
            gc.set_threshold(*_RARE)
        _active.count += 1
    try:
        yield
    finally:
        with _active.lock:
            _active.count -= 1
            if not _active.count:
                gc.set_threshold(*_active.before)
