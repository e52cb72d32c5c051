"""Lines of text for display under a diagnostic."""

from __future__ import annotations

import re

__all__ = ["clean_line", "window"]

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def clean_line(line: str) -> str:
    r"""Make a line fit for display: tabs and control characters become blanks, so that columns stay.

    Examples
    --------
    >>> clean_line("\tret;\r")
    ' ret;'
    """
    return _UNPRINTABLE.sub(" ", line.rstrip("\r"))


def window(line: str, column: int, length: int, width: int) -> tuple[str, int, int]:
    """Cut a long line to ``width`` characters around a stretch of it; return it with the stretch's new column and length.

    Examples
    --------
    >>> window("a" * 50 + "bcd" + "e" * 50, column=51, length=3, width=21)
    ('…aaaaaaaabcdeeeeeeee…', 10, 3)
    """
    if len(line) <= width:
        return line, column, length
    length = min(length, width - 2)
    first = min(max(column - 1 - (width - length) // 2, 0), len(line) - width)
    cut = line[first : first + width]
    if first > 0:
        cut = "…" + cut[1:]
    if first + width < len(line):
        cut = cut[:-1] + "…"
    return cut, column - first, length
