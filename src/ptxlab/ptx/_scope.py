"""The names of one scope, to refuse a second declaration; ``%r<10>`` counts as %r0 to %r9."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field

from ptxlab._records import dataclass

__all__ = ["Scope"]

_DIGITS = "0123456789"
_TRAILING_DIGITS = re.compile(r"[0-9]{1,20}\Z")


def _splits(name: str) -> Iterator[tuple[str, int]]:
    """The ways to read a name as prefix and number: ``%r10`` as (%r1, 0) and (%r, 10)."""
    m = _TRAILING_DIGITS.search(name)
    if m is None:
        return
    for i in range(len(name) - 1, m.start() - 1, -1):
        if name[i] != "0" or i == len(name) - 1:
            yield name[:i], int(name[i:])


@dataclass(slots=True)
class Scope:
    """Names declared so far, each with the line that declared it."""

    names: dict[str, int] = field(default_factory=dict)
    _ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    _stems: set[str] = field(default_factory=set)
    _lowest: dict[str, tuple[int, int]] = field(default_factory=dict)
    _unsplit: list[str] = field(default_factory=list)

    def declare(self, name: str, line: int) -> int | None:
        """Enter a name; the line of an earlier declaration, if there is one."""
        earlier = self.names.get(name)
        if earlier is not None:
            return earlier
        if name.rstrip(_DIGITS) in self._stems:
            for prefix, number in _splits(name):
                count, at = self._ranges.get(prefix, (0, 0))
                if number < count:
                    return at
        self._unsplit.append(name)
        self.names[name] = line
        return None

    def declare_range(self, prefix: str, count: int, line: int) -> int | None:
        """Enter ``prefix<count>``; the line of an earlier declaration of one of its names, if there is one."""
        if prefix in self._ranges:
            return self._ranges[prefix][1]
        for name in self._unsplit:
            self._note(name, self.names[name])
        self._unsplit.clear()
        lowest, at = self._lowest.get(prefix, (count, 0))
        if lowest < count:
            return at
        for shorter, number in _splits(prefix + "0"):
            other, at = self._ranges.get(shorter, (0, 0))
            if shorter != prefix and number < other and count:
                return at
        if count:
            self._note(prefix + "0", line)
        self._ranges[prefix] = (count, line)
        self._stems.add(prefix.rstrip(_DIGITS))
        return None

    def _note(self, name: str, line: int) -> None:
        for prefix, number in _splits(name):
            if prefix not in self._lowest or number < self._lowest[prefix][0]:
                self._lowest[prefix] = (number, line)
