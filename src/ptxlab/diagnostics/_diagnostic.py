"""One finding: code, severity, place in the PTX and in the source, message, reason, fix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, Self

from ptxlab._records import dataclass
from ptxlab.diagnostics._codes import CODES, Severity

__all__ = ["Diagnostic", "Place", "Severity", "diagnose"]


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a text: file, 1-based line and column, and how many characters it spans (0: unknown)."""

    file: str
    line: int
    column: int = 1
    length: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"


_FIRST_DETAILS = 40
_MOST_DETAILS = 60
_LONGEST_NAME = 400


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A refusal or finding.

    Attributes
    ----------
    code, severity : stable code (``CODES`` explains it) and ``"error"``, ``"warning"`` or ``"note"``
    message : what is wrong, one or two sentences without a final line break
    reason : why: the rule, with the section title of the PTX ISA
    fix : what to do
    place : where in the PTX text
    source : where in the program that the PTX was compiled from (``.loc``)
    excerpt : the PTX line that ``place`` points into
    details : further facts in reading order, e.g. ``("CTA", "(0, 0, 0)"), ("lanes", "0-15")``
    """

    code: str
    severity: Severity
    message: str
    reason: str = ""
    fix: str = ""
    place: Place | None = None
    source: Place | None = None
    excerpt: str = ""
    details: tuple[tuple[str, str], ...] = ()

    def at(self, place: Place | None, excerpt: str = "", source: Place | None = None) -> Diagnostic:
        """Return the same finding with a place."""
        return replace(self, place=place, excerpt=excerpt, source=source)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; empty fields are left out."""
        fields: dict[str, Any] = {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "reason": self.reason,
            "fix": self.fix,
            "place": self.place and asdict(self.place),
            "source": self.source and asdict(self.source),
            "excerpt": self.excerpt,
            "details": self._named_details(),
        }
        return {key: value for key, value in fields.items() if value}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the diagnostic whose `as_dict` went through JSON; details of one name stand together.

        Examples
        --------
        >>> found = diagnose("M401", "out of bounds", details=[("CTA", "(0, 0, 0)")]).at(Place("k.ptx", 7))
        >>> Diagnostic.from_dict(found.as_dict()) == found
        True
        """
        places = {name: Place(**values[name]) for name in ("place", "source") if name in values}
        named = ((name, value if isinstance(value, list) else [value]) for name, value in values.get("details", {}).items())
        return cls(**{**values, **places, "details": tuple((name, each) for name, listed in named for each in listed)})

    def _named_details(self) -> dict[str, str | list[str]]:
        """The values by their names: a list if a name occurs several times."""
        values: dict[str, list[str]] = {}
        for name, value in self.details:
            values.setdefault(name, []).append(value)
        return {name: found[0] if len(found) == 1 else found for name, found in values.items()}

    def shown_details(self) -> Iterator[tuple[str, str]]:
        """The details that the text output shows: a long list is shortened in the middle, and long names at the end."""
        left_out = len(self.details) - _MOST_DETAILS
        for number, (name, value) in enumerate(self.details):
            if left_out > 0 and number == _FIRST_DETAILS:
                yield "further", f"{left_out} more like these, all of them in the JSON output"
            if left_out <= 0 or not _FIRST_DETAILS <= number < _FIRST_DETAILS + left_out:
                yield (name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]} ..."), value

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        lines = [f"{where}{self.severity}[{self.code}]: {self.message}"]
        if self.excerpt and self.place:
            start = f"  {self.place.line} | "
            lines += [start + self.excerpt, " " * (len(start) + max(self.place.column - 1, 0)) + "^" * max(self.place.length, 1)]
        if self.source:
            lines.append(f"  source: {self.source}")
        lines += [f"  {name}: {value}" for name, value in self.shown_details()]
        lines += [f"  {name}: {value}" for name, value in (("why", self.reason), ("fix", self.fix)) if value]
        return "\n".join(lines)


def diagnose(
    code: str,
    message: str,
    *,
    severity: Severity | None = None,
    reason: str = "",
    fix: str = "",
    details: Iterable[tuple[str, str]] = (),
) -> Diagnostic:
    """Make a diagnostic of a registered code; severity and reason default to the code's own.

    Raises
    ------
    KeyError
        if the code is not registered: an internal error
    """
    info = CODES[code]
    return Diagnostic(code, severity or info.severity, message, reason or info.section, fix, details=tuple(details))
