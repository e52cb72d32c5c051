"""The results of a campaign: kept in a file while it runs, and reported together."""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self
from xml.etree import ElementTree

from ptxlab.campaign._sources import source_of
from ptxlab.campaign.cell import Cell, CellResult, launched
from ptxlab.campaign.outcome import ORDER_DEPENDENT, differences
from ptxlab.diagnostics import Diagnostic, PtxlabError, diagnose

__all__ = ["Case", "ResultFile", "cases", "junit"]

_MOST_NAMES = 20
_FORMAT = {"format": "ptxlab-campaign-1"}


class ResultFile:
    """Results by line, so that an interrupted campaign goes on where it was.

    Parameters
    ----------
    path : the file; a last line that was not written to its end is dropped

    Raises
    ------
    PtxlabError
        code F111 if another campaign writes to it, or if it holds something else
    OSError
        if it cannot be written

    Attributes
    ----------
    results : the results by the keys of their cells
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise _refused(f"another campaign writes to {path}", "wait until it ends, or give another folder") from None
        self._file.seek(0)
        lines = self._file.read().split(b"\n")
        self._file.truncate(self._file.tell() - len(lines.pop()))
        try:
            if lines and json.loads(lines[0]) != _FORMAT:
                raise ValueError
            found = [CellResult.from_dict(json.loads(line)) for line in lines[1:]]
        except (ValueError, KeyError, TypeError):
            self._file.close()
            raise _refused(f"{path} holds something else than results of a campaign", "give another folder") from None
        if not lines:
            self._write(_FORMAT)
        self.results: dict[str, CellResult] = {result.cell.key: result for result in found}

    def add(self, result: CellResult) -> None:
        """Keep a result."""
        self._write(result.as_dict())
        self.results[result.cell.key] = result

    def _write(self, values: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(values).encode() + b"\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.fsync(self._file.fileno())
        self._file.close()


def _refused(message: str, fix: str) -> PtxlabError:
    return PtxlabError(diagnose("F111", message, fix=fix))


@dataclass(frozen=True, slots=True)
class Case:
    """What one launch gave under all its schedules.

    Attributes
    ----------
    name : launch file, target, sizes and data
    results : by schedule
    diagnostics : each finding once, with the schedules that showed it; arrays whose bits depend on the schedule
    """

    name: str
    results: tuple[CellResult, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def ok(self) -> bool:
        """Whether there is nothing but notes."""
        return not any(d.severity != "note" for d in self.diagnostics)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "case": self.name,
            "ok": self.ok,
            "schedules": len(self.results),
            "seconds": sum(result.seconds for result in self.results),
            "codes": dict(Counter(d.code for d in self.diagnostics)),
            "diagnostics": [d.as_dict() for d in self.diagnostics],
        }


def cases(results: Iterable[CellResult]) -> list[Case]:
    """Group results by case. A case whose arrays differ runs twice more, to name the first element that does."""
    groups: dict[tuple[str, str], list[CellResult]] = {}
    for result in results:
        groups.setdefault((result.cell.source, result.cell.case), []).append(result)
    return [Case(name, tuple(group), _merged(group)) for (_, name), group in groups.items()]


def _merged(group: Sequence[CellResult]) -> tuple[Diagnostic, ...]:
    found: dict[tuple[str, str], tuple[Diagnostic, list[str]]] = {}
    for result in group:
        for each in result.diagnostics:
            found.setdefault((each.code, str(each.place)), (each, []))[1].append(result.cell.schedule)
    listed = [_under(d, names) for d, names in [*found.values(), *_order_dependence(group)]]
    if any(d.code == ORDER_DEPENDENT for d in listed):
        listed = [d for d in listed if d.code != "F106"]
    return tuple(listed)


def _under(finding: Diagnostic, schedules: Sequence[str]) -> Diagnostic:
    """The finding with the schedules that showed it; of many, the first ones."""
    more = f" and {len(schedules) - _MOST_NAMES} more" if len(schedules) > _MOST_NAMES else ""
    return replace(finding, details=(*finding.details, ("found under", ", ".join(schedules[:_MOST_NAMES]) + more)))


def _order_dependence(group: Sequence[CellResult]) -> Iterator[tuple[Diagnostic, list[str]]]:
    """The first array that differs from what the first schedule left, and the schedules under which arrays differ."""
    completed = [result for result in group if result.completed]
    differing = [other for other in completed if other.digests != completed[0].digests]
    if differing:
        first = completed[0]
        found = differences(first.cell.schedule, _arrays(first.cell), differing[0].cell.schedule, _arrays(differing[0].cell))
        yield from ((each, [other.cell.schedule for other in differing]) for each in islice(found, 1))


def _arrays(cell: Cell) -> dict[str, Any]:
    source = source_of(cell.source, None)
    assert source is not None
    return launched(cell, source)[0].arrays


def junit(name: str, found: Sequence[Case]) -> str:
    """The cases as JUnit's XML: a test suite for each case, a test case for each schedule."""
    root = ElementTree.Element("testsuites", name=name)
    for case in found:
        failures = sum(not result.ok for result in case.results)
        suite = ElementTree.SubElement(root, "testsuite", name=case.name, tests=str(len(case.results)), failures=str(failures))
        for result in case.results:
            time = f"{result.seconds:.3f}"
            test = ElementTree.SubElement(suite, "testcase", classname=case.name, name=result.cell.schedule, time=time)
            errors = [d for d in result.diagnostics if d.severity != "note"]
            if errors:
                failure = ElementTree.SubElement(test, "failure", type=errors[0].code, message=errors[0].message)
                failure.text = "\n\n".join(map(str, errors))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
