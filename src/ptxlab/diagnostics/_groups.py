"""Findings of one cause, and the order in which a person reads causes."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import field

from ptxlab._records import dataclass
from ptxlab.diagnostics._codes import READING_ORDER
from ptxlab.diagnostics._diagnostic import Diagnostic

__all__ = ["Group", "grouped"]

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
_SOURCE = re.compile(r"\(source (.+:\d+):\d+\)")
_MOST_LINES = 8
_FACTS = frozenset(("kernel", "origin", "earlier, in the source", "launched at", "found under"))
"""Details in which findings of one cause do not differ."""


_UNREADY = frozenset(("X103", "X105"))
"""Races with an asynchronous operation that nothing has waited for."""
_OUT_OF_STEP = frozenset(("B519", "H601", "H602"))
"""What follows if warps go on too early: phases that nobody waits for, and hangs."""


@dataclass(slots=True)
class Group:
    """Findings that differ only in numbers: the same code, source line and message. The first one stands for all."""

    findings: list[Diagnostic] = field(default_factory=list)

    @property
    def first(self) -> Diagnostic:
        """The finding that was made first."""
        return self.findings[0]

    @property
    def others(self) -> str:
        """What the other findings are, in a line: empty if there are none."""
        rest = self.findings[1:]
        if not rest:
            return ""
        lines = list(dict.fromkeys(str(d.place.line) for d in rest if d.place))
        listed = f" at line{'s' * (len(lines) > 1)} {', '.join(lines[:_MOST_LINES])}{', ...' * (len(lines) > _MOST_LINES)}" if lines else ""
        counts = [(len(lines), "instruction"), (len(self._values("CTA")), "CTA"), (sum(map(_occurrences, rest)), "occurrence")]
        summed = ", ".join(f"{count} {name}{'s' * (count > 1)}" for count, name in counts if count)
        return f"{len(rest)}{listed} ({summed})"

    def _values(self, name: str) -> set[str]:
        return {value for d in self.findings[1:] for key, value in d.details if key == name}


def _occurrences(finding: Diagnostic) -> int:
    return next((int(value) for name, value in finding.details if name == "occurrences" and value.isdecimal()), 1)


def grouped(findings: Iterable[Diagnostic]) -> list[Group]:
    """Group findings, causes before consequences, notes last; findings of equal rank stay in order.

    Findings without a source line are grouped only if they are at one line of the PTX.

    Examples
    --------
    >>> from ptxlab.diagnostics import Diagnostic, Place
    >>> race = Diagnostic("X101", "error", "st.shared writes bytes 0x0-0x3", source=Place("k.py", 4))
    >>> fault = Diagnostic("M402", "error", "write of 4 bytes past the end of argument c")
    >>> [(group.first.code, group.others) for group in grouped([race, race, fault])]
    [('M402', ''), ('X101', '1 (1 occurrence)')]
    """
    groups: dict[Hashable, Group] = {}
    for finding in findings:
        groups.setdefault(_cause(finding), Group()).findings.append(finding)
    unready = any(group.first.code in _UNREADY for group in groups.values())
    return sorted(groups.values(), key=lambda group: _rank(group.first, unready))


def _cause(finding: Diagnostic) -> Hashable:
    place, source = finding.place, finding.source
    where = (source.file, source.line) if source else (place.file, place.line) if place else ()
    facts = tuple((name, _origin(value) if name == "origin" else value) for name, value in finding.details if name in _FACTS)
    return finding.code, finding.severity, where, _NUMBER.sub("#", finding.message), facts


def _origin(text: str) -> str:
    """Where values come from, by the line of the source, if it is known: one line may become many instructions."""
    source = _SOURCE.search(text)
    return source[1] if source else _NUMBER.sub("#", text)


def _rank(finding: Diagnostic, unready: bool) -> tuple[bool, int]:
    """Notes are last. Where a race is about what was not waited for (``unready``), barriers may be out of step because of it."""
    if unready and finding.code in _OUT_OF_STEP:
        return False, max(READING_ORDER.values())
    return finding.severity == "note", next(rank for start, rank in READING_ORDER.items() if finding.code.startswith(start))
