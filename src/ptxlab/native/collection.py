"""The garbage collector waits while many objects are made that refer to each other in no cycle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collection_paused"]


@contextmanager
def collection_paused() -> Iterator[None]:
    """A stretch in which Python looks for no cycles: it would walk all that is being made, again and again.

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
            gc.enable()
