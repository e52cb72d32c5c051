"""Which launches of a program run, and how many of their CTAs: for programs whose sizes are fixed."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import islice, product
from typing import Any

from ptxlab.machine import Kernel
from ptxlab.machine.launch.configuration import dimensions
from ptxlab.machine.launch.options import Option, refuse

__all__ = ["first_ctas", "is_selected", "launch_numbers", "name_patterns"]

LaunchNumbers = tuple[int, int | None]
"""The first and the last launch, from 1; None: to the end."""


def _accept_numbers(name: str, value: Any) -> LaunchNumbers | None:
    if value is None:
        return None
    pair = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else ()
    whole = len(pair) == 2 and all(isinstance(n, int) and not isinstance(n, bool) for n in pair if n is not None)
    if not whole or pair[0] is None or pair[0] < 1 or (pair[1] is not None and pair[1] < pair[0]):
        raise refuse("A310", f"{name} takes the first and the last launch, counted from 1, not {value!r}", fix="as text: 4, 3:5, 3: or :5")
    return pair[0], pair[1]


def _read_numbers(text: str) -> Any:
    first, colon, last = text.partition(":")
    try:
        start = int(first) if first or not colon else 1
        return start, int(last) if last else (None if colon else start)
    except ValueError:
        return text


def launch_numbers(help: str) -> Option:
    """Make an option that is a range of launches: ``4``, ``3:5``, ``3:`` or ``:5``, counted from 1 with both ends."""
    return Option(help, _accept_numbers, _read_numbers, "FIRST:LAST")


def _accept_patterns(name: str, value: Any) -> tuple[str, ...]:
    given = tuple(value.split(",")) if isinstance(value, str) else value
    if not isinstance(given, tuple | list) or not all(isinstance(each, str) and each for each in given):
        raise refuse("A310", f"{name} takes names of kernels or patterns such as 'fill_*', separated by commas, not {value!r}")
    return tuple(given)


def name_patterns(help: str) -> Option:
    """Make an option that is a list of patterns, separated by commas."""
    return Option(help, _accept_patterns, str, "PATTERNS")


def is_selected(number: int, kernel: str, launches: LaunchNumbers | None, skipped: Iterable[str]) -> bool:
    """Whether a launch runs.

    Examples
    --------
    >>> [is_selected(number, "gemm", (2, 3), ()) for number in (1, 2, 3, 4)]
    [False, True, True, False]
    >>> is_selected(1, "fill_ones", None, ("fill_*",))
    False
    """
    first, last = launches or (1, None)
    return first <= number and (last is None or number <= last) and not any(fnmatchcase(kernel, pattern) for pattern in skipped)


def first_ctas(kernel: Kernel, limit: int, grid: Any, cluster: Any = None) -> tuple[tuple[int, int, int], ...]:
    """One CTA of each of the first clusters that have ``limit`` CTAs together; at least one cluster."""
    if cluster is None and (required := kernel.program.directives.get("reqnctapercluster")):
        cluster = tuple(map(int, required))
    size = dimensions("cluster", 1 if cluster is None else cluster)
    width, height, depth = size
    starts = product(*(range(0, extent, step) for extent, step in zip(reversed(dimensions("grid", grid)), reversed(size), strict=True)))
    return tuple((x, y, z) for z, y, x in islice(starts, max(1, limit // (width * height * depth))))
