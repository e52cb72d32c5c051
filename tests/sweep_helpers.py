"""Long lists of parameters: `make quick` takes some of them, `make test` all or a part, `make test-all` all."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import product
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


def spread(count: int, *axes: Iterable[Any]) -> list[Any]:
    """The product of axes as parameters, of which `make test` runs one in so many; the others have the marker `slow`.

    It runs those whose places in their axes add up to a multiple of the count. So each value of each axis is run, and each pair of values
    of two axes if there is a third one that is as long as the count.
    """
    listed = [list(axis) for axis in axes]
    assert sum(len(axis) >= count for axis in listed) > 1, "a value of an axis would not be run"
    cells = product(*(enumerate(axis) for axis in listed))
    return [
        pytest.param(*(value for _, value in cell), marks=[pytest.mark.slow] if sum(place for place, _ in cell) % count else [])
        for cell in cells
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
