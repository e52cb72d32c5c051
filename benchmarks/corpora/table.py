"""The table of a collection as Markdown: how its programs ended, written and read back."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from .outcome import KINDS, Outcome
from .programs import Collection, Program

__all__ = ["LONGEST", "AnotherTable", "Table"]

LONGEST = 140
"""The most characters of a message."""

_HEAD = "| program | target | options | result | seconds | launches | first diagnostic or error | judged |"
_BAR = re.compile(r"(?<!\\)\|")


class AnotherTable(Exception):
    """A table is of another commit, or was made with other packages."""


@dataclass(frozen=True, slots=True)
class Table:
    """How programs of a collection ended.

    Attributes
    ----------
    upstream : the commit
    packages : the packages that programs use, with their versions
    outcomes : a row each
    notes : lines between the counts and the rows that are written by hand
    """

    collection: Collection
    upstream: str
    packages: list[str]
    outcomes: tuple[Outcome, ...] = ()
    notes: tuple[str, ...] = ()

    def page(self) -> str:
        """Return the table as Markdown."""
        counts = Counter(each.kind for each in self.outcomes)
        judged = sum(each.kind == "finding" and bool(each.judgement) for each in self.outcomes)
        ran = len(self.outcomes) - counts["left out"]
        programs, made = self._origin()
        lines = [
            f"# {self.collection.name}",
            "",
            programs,
            f"{made}{counts['passed']} of {ran} passed; {judged} of {counts['finding']} findings are judged.",
            "",
            *self.notes,
            *(f"- {kind}: {counts[kind]} ({meaning})" for kind, meaning in KINDS.items() if counts[kind]),
            "",
            _HEAD,
            "|---|---|---|---|---|---|---|---|",
            *(_row(each) for each in self.outcomes),
        ]
        return "\n".join(lines) + "\n"

    def with_outcome(self, outcome: Outcome) -> Table:
        """Return this table with a row more, or with another row in place of the program's."""
        rows = {each.program.path: each for each in (*self.outcomes, outcome)}
        return replace(self, outcomes=tuple(rows[path] for path in sorted(rows, key=PurePosixPath)))

    def with_rows_of(self, text: str, programs: list[Program]) -> Table:
        """Return this table with the notes and rows of a page.

        Parameters
        ----------
        text : the page
        programs : programs that are known now; rows are judged as these are

        Raises
        ------
        AnotherTable
            if the page is of another commit, or was made with other packages
        """
        lines = text.splitlines()
        for expected, line in zip(self._origin(), lines[2:4], strict=True):
            if not line.startswith(expected):
                raise AnotherTable(f"its rows are of another run: {line!r} does not begin with {expected!r}")
        head = lines.index(_HEAD)
        counts = next(number for number in range(4, head) if lines[number].startswith("- ") or number == head - 1)
        judged = {each.path: each.judged for each in programs}
        return replace(self, notes=tuple(lines[5:counts]), outcomes=tuple(_outcome(line, judged) for line in lines[head + 2 :]))

    def _origin(self) -> tuple[str, str]:
        """The two lines that say of which programs the table is and how it was made, without the counts."""
        named, packages = self.collection, ", ".join(self.packages)
        return (
            f"Programs of {named.repository}, folder `{named.folder}`, commit `{self.upstream}`, unmodified, under `ptxlab exec`.",
            f"Made by `python -m benchmarks.corpora CHECKOUT --collection {named.name}`{' with ' * bool(packages)}{packages}. ",
        )


def _row(outcome: Outcome) -> str:
    program = outcome.program
    tests = ("pytest", shlex.join(program.tests)) if program.tests else ()
    calls = ("calls", "; ".join(program.calls)) if program.calls else ()
    options = " ".join((*program.options, *tests, *calls, *program.ptxlab))
    message = outcome.message.replace("|", "\\|")
    message = message if len(message) <= LONGEST else message[: LONGEST - 3] + "..."
    seconds, launches = f"{outcome.seconds:.0f}", str(outcome.launches)
    return f"| {' | '.join((program.path, program.target, options, outcome.kind, seconds, launches, message, outcome.judgement))} |"


def _outcome(row: str, judged: dict[str, dict[str, str]]) -> Outcome:
    """What a row says, judged as its program is now."""
    path, target, options, kind, seconds, launches, message, _ = (cell.strip() for cell in _BAR.split(row)[1:-1])
    program = Program(path, target, tuple(options.split()), judged=judged.get(path, {}))
    return Outcome(program, kind, float(seconds), int(launches), message.replace("\\|", "|"))
