"""The garbage collector waits while many objects are made that refer to each other in no cycle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collection_paused"]


@contextmanager
def collection_paused() -> Iterator[None]:
    """A stretch in which Python looks for no cycles: it would walk all that is being made, again and again.

    What it makes then counts as old, without a walk: Python looks at it when it next collects all generations.

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
            if not gc.get_freeze_count():  # else `unfreeze` would undo what somebody else has done
                gc.freeze()
                gc.unfreeze()
            gc.enable()
