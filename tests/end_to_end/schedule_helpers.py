"""The schedules under which compiled kernels run: one or three for each case, in the slow run twelve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["EVERY", "IN_TURN", "Schedules", "few", "in_turn"]

IN_TURN: tuple[dict[str, Any], ...] = ({"policy": "eager"}, {"policy": "lazy"}, {"policy": "random"})
EVERY: tuple[dict[str, Any], ...] = (*IN_TURN[:2], *({"policy": "random", "seed": seed} for seed in range(10)))

Schedules = Callable[..., Sequence[dict[str, Any]]]
"""Launch options for the case of a number, one or as many as are asked for."""


def few(number: int) -> tuple[dict[str, Any], ...]:
    """Eager, lazy, and a random schedule whose seed the number chooses.

    Examples
    --------
    >>> few(13)[1:]
    ({'policy': 'lazy'}, {'policy': 'random', 'seed': 3})
    """
    return (*EVERY[:2], EVERY[2 + number % 10])


def in_turn(number: int, count: int = 1) -> list[dict[str, Any]]:
    """The schedules of a case.

    Examples
    --------
    >>> in_turn(7), in_turn(2, 2)
    ([{'policy': 'lazy'}], [{'policy': 'random'}, {'policy': 'eager'}])
    """
    return [IN_TURN[(number + i) % len(IN_TURN)] for i in range(count)]
