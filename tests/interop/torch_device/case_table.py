"""The cases of `device_cases`, by name, and what they have in common."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

__all__ = ["CASES", "case", "raises"]

CASES: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


def raises(kind: type[BaseException], text: str, function: Callable[[], object]) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        function()
