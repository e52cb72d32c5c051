"""How many of the mutants that a run reports lint finds in the text: a table by what was removed or changed.

``python -m benchmarks.mutations.by_text VERDICTS`` reads what ``python -m benchmarks.mutations --output VERDICTS`` wrote.
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

from .kernels import kernels
from .mutants import mutants

__all__ = ["Share", "found_in", "shares"]


@dataclass
class Share:
    """Of one operator: the mutants that a run reports, those of them that lint finds, and other mutants that lint calls wrong."""

    reported: int = 0
    found: int = 0
    errors: list[str] = field(default_factory=list)


def found_in(program: Any, target: str) -> Counter[tuple[str, str, bool]]:
    """What lint finds in a program: code, message without its lines, and whether it is an error."""
    made = [diagnose(r.code, re.sub(r"line \d+", "line", r.message), severity=r.severity) for r in analyse(program, target)]
    return Counter((d.code, d.message, d.severity == "error") for d in made)


def shares(verdicts: Iterable[dict[str, Any]], of: dict[str, Any]) -> dict[str, Share]:
    """Lint each mutant of the model of practice; ``of`` are the kernels by name."""
    found: dict[str, Share] = {}
    by_kernel: dict[str, list[dict[str, Any]]] = {}
    for verdict in verdicts:
        if verdict["model"] == "practice" and verdict["kernel"] in of:
            by_kernel.setdefault(verdict["kernel"], []).append(verdict)
    for name, listed in by_kernel.items():
        kernel = of[name]
        program, target = kernel.variant(False, True)[0], kernel.module.ast.target
        known = found_in(program, target)
        made = {(m.line, m.family, m.how): m for m in mutants(program, "practice")}
        for verdict in listed:
            mutant = made[verdict["line"], verdict["family"], verdict["how"]]
            new = found_in(mutant.of(program), target) - known
            share = found.setdefault(verdict["family"], Share())
            if verdict["state"] == "reported":
                share.reported += 1
                share.found += bool(new)
            else:
                share.errors += [f"{name} line {verdict['line']}: {code}: {text}" for code, text, error in new if error]
    return found


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
    options = parser.parse_args()
    verdicts = json.loads(options.verdicts.read_text())["verdicts"]
    makers, _ = kernels()
    names = dict.fromkeys(verdict["kernel"] for verdict in verdicts)
    found = shares(verdicts, {name: makers[name]().kernel for name in names if name in makers})
    out = Console()
    out.print(table_of(found))
    for share in found.values():
        for line in share.errors:
            out.print(line, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
