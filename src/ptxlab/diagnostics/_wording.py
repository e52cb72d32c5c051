"""Lines of PTX and numbers as the texts of diagnostics have them."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["clean_line", "ranges"]

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def clean_line(line: str) -> str:
    r"""Make a line fit for display: tabs and control characters become blanks, so that columns stay.

    Examples
    --------
    >>> clean_line("\tret;\r")
    ' ret;'
    """
    return _UNPRINTABLE.sub(" ", line.rstrip("\r"))


def ranges(numbers: Iterable[int]) -> list[str]:
    """Numbers in rising order as ranges.

    Examples
    --------
    >>> ranges([0, 1, 2, 3]), ranges([5]), ranges([0, 1, 8, 9])
    (['0-3'], ['5'], ['0-1', '8-9'])
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [str(first) if first == last else f"{first}-{last}" for first, last in runs]
