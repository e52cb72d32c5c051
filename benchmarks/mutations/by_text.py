"""How many of the mutants that a run reports lint finds in the text: a table by what was removed or changed.

``python -m benchmarks.mutations.by_text VERDICTS`` reads what ``python -m benchmarks.mutations --output VERDICTS`` wrote. What lint calls
an error in other mutants is listed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ptxlab.check.static.dataflow import analyse
from ptxlab.diagnostics import diagnose

from .kernels import Kernel, kernels
from .mutants import mutants

__all__ = ["Share", "found_in", "shares"]


@dataclass
class Share:
    """Of one operator: the mutants that a run reports, those of them that lint finds, and errors of lint in other mutants."""

    reported: int = 0
    found: int = 0
    errors: list[str] = field(default_factory=list)


Finding = tuple[str, str, bool]
"""Code, message without its lines, and whether it is an error."""


def found_in(program: Any, target: str) -> Counter[Finding]:
    """What lint finds in a program, and at how many instructions."""
    found: Counter[Finding] = Counter()
    for report in analyse(program, target):
        made = diagnose(report.code, re.sub(r"line \d+", "line", report.message), severity=report.severity)
        found[made.code, made.message, made.severity == "error"] += 1
    return found


def shares(verdicts: Iterable[dict[str, Any]], of: dict[str, Kernel]) -> dict[str, Share]:
    """Lint each mutant of the model of practice; ``of`` are the kernels by name."""
    found: dict[str, Share] = {}
    by_kernel: dict[str, list[dict[str, Any]]] = {}
    for verdict in verdicts:
        if verdict["model"] == "practice" and verdict["kernel"] in of:
            by_kernel.setdefault(verdict["kernel"], []).append(verdict)
    for name, listed in by_kernel.items():
        subject = _Linted(of[name])
        for verdict in listed:
            new = subject.found_in_mutant(verdict)
            share = found.setdefault(verdict["family"], Share())
            if verdict["state"] == "reported":
                share.reported += 1
                share.found += bool(new)
            else:
                share.errors += [f"{name} line {verdict['line']}: {code}: {text}" for code, text, error in new if error]
    return found


class _Linted:
    """A kernel whose mutants are linted."""

    def __init__(self, made: Kernel) -> None:
        self.made = made
        self.program, self.target = made.kernel.variant(False, True)[0], made.kernel.module.ast.target
        self.known = found_in(self.program, self.target)
        self.mutants = {(m.line, m.family, m.how): m for m in mutants(self.program, "practice")}

    def found_in_mutant(self, verdict: dict[str, Any]) -> list[Finding]:
        """What lint finds in a mutant and not, or at fewer instructions, in the kernel as it stands."""
        mutant = self.mutants[verdict["line"], verdict["family"], verdict["how"]]
        new = found_in(mutant.of(self.program), self.target)
        return list(new - self.known)


def table_of(found: dict[str, Share]) -> Table:
    """A line for each operator."""
    table = Table("removed or changed", "reported by a run", "found in the text", "share", "errors in others")
    for family, share in sorted(found.items()):
        percent = f"{100 * share.found / share.reported:.0f} %" if share.reported else "-"
        table.add_row(family, str(share.reported), str(share.found), percent, str(len(share.errors)))
    return table


def main() -> None:
    """Read the verdicts, lint their mutants, and print the table and the errors that no run confirms."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutations.by_text", description=__doc__)
    parser.add_argument("verdicts", type=Path)
    parser.add_argument("--kept", type=Path, help="take the kernels that need a compiler from this folder")
    options = parser.parse_args()
    verdicts = json.loads(options.verdicts.read_text())["verdicts"]
    makers, _ = kernels(options.kept)
    names = dict.fromkeys(verdict["kernel"] for verdict in verdicts)
    found = shares(verdicts, {name: makers[name]() for name in names if name in makers})
    out = Console()
    out.print(table_of(found))
    for share in found.values():
        for line in share.errors:
            out.print(line, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
