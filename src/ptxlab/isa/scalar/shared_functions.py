"""Functions of lanes that all programs share: each is compiled once, by itself and with optimisation, and not with every program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxlab._records import dataclass

__all__ = ["NAMES", "SHARED", "TWO_VECTORS", "SharedFunction", "shared", "two_vectors"]

LaneFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class SharedFunction:
    """A function of a vocabulary and of ``operands`` values of a type; the result has the same type."""

    body: LaneFunction
    type: str
    operands: int


SHARED: dict[str, SharedFunction] = {}
"""The functions by name."""
NAMES: dict[LaneFunction, str] = {}
"""Their names."""
TWO_VECTORS: set[LaneFunction] = set()
"""The semantics of instructions that `two_vectors` has entered."""


def shared(name: str, type: str, operands: int, body: LaneFunction) -> LaneFunction:
    """Enter a function under a name without ``_``; returned as it is."""
    SHARED[name] = SharedFunction(body, type, operands)
    NAMES[body] = name
    return body


def two_vectors(semantics: LaneFunction) -> LaneFunction:
    """Enter the semantics of an instruction that takes less time for two vectors of lanes at once: 16-bit parts of two fill one."""
    TWO_VECTORS.add(semantics)
    return semantics
