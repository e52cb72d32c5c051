"""Long lists of parameters: `make quick` takes some of them, `make test` all."""

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


def _parameter(value: Any, swept: bool) -> Any:
    return pytest.param(*(value if type(value) is tuple else (value,)), marks=[pytest.mark.sweep] if swept else [])
