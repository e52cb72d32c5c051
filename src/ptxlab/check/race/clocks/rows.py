"""Rows of vector clocks, and how they are joined."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rows", "join", "joined"]

Rows: TypeAlias = NDArray[np.uint32]


def join(target: Rows, source: Rows) -> None:
    """Raise ``target`` to the componentwise maximum of both; the source may be narrower."""
    if target.size == source.size:
        np.maximum(target, source, out=target)
        return
    width = source.shape[-1]
    np.maximum(target[..., :width], source, out=target[..., :width])


def joined(first: Rows | None, second: Rows) -> Rows:
    """The componentwise maximum as a new array, as wide as the wider one."""
    if first is None:
        return second.copy()
    wide, narrow = (first, second) if first.shape[-1] >= second.shape[-1] else (second, first)
    made = wide.copy()
    join(made, narrow)
    return made
