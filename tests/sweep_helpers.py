"""Long lists of parameters: `make quick` takes some of them, `make test` all or a part, `make test-all` all."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pytest


def first_of_each(values: Iterable[Any], key: Callable[[Any], Hashable]) -> list[Any]:
    """Parameters, each a value or a tuple of several; all but the first of each key have the marker `sweep`."""
    found: list[Any] = []
    seen: set[Hashable] = set()
    for value in values:
        found.append(_parameter(value, key(value) in seen))
        seen.add(key(value))
    return found


def one_in(count: int, values: Iterable[Any]) -> list[Any]:
    """Parameters, each a value or a tuple of several; all but one in so many have the marker `sweep`."""
    return [_parameter(value, number % count != 0) for number, value in enumerate(values)]


def part(parameters: Iterable[Any], of_part: Callable[..., bool]) -> list[Any]:
    """Parameters of `first_of_each` or `one_in`, or values without one that is quick.

    What is neither quick nor of the part has the marker `slow`.
    """
    made = [each if hasattr(each, "marks") else _parameter(each, True) for each in parameters]
    kept = [of_part(*each.values) or not each.marks for each in made]
    return [
        each if keep else pytest.param(*each.values, id=each.id, marks=[*each.marks, pytest.mark.slow])
        for each, keep in zip(made, kept, strict=True)
    ]


def first_seen(key: Callable[..., Hashable]) -> Callable[..., bool]:
    """Whether values are the first ones of their key."""
    seen: set[Hashable] = set()

    def first(*values: Any) -> bool:
        known = len(seen)
        seen.add(key(*values))
        return len(seen) > known

    return first


def _parameter(value: Any, swept: bool) -> Any:
    return pytest.param(*(value if type(value) is tuple else (value,)), marks=[pytest.mark.sweep] if swept else [])
