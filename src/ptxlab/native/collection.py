"""The garbage collector waits while many objects are made that refer to each other in no cycle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

__all__ = ["collection_paused"]

_MOST = 32
"""So often in a process what has been made counts as old: Python does not know how much that is, and collects old objects too seldom."""
_times = count()


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
