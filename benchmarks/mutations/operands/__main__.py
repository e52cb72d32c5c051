"""The mutation benchmark of operands: descriptors and tensor maps of the tests' kernels, changed one at a time."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ptxlab.campaign import executors

from ..kernels import kernels
from .judge import UNTYPED, Verdict, judge_kernel

_STATES = ("harmless", "warned", "survived", "reported")


def main() -> None:
    """Run, and print a table by operator, the survivors, and findings with other proposals."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutations.operands", description=__doc__)
    parser.add_argument("kernels", nargs="*", help="names of kernels, or how they begin (cute_, cuda_, sm90_); default: all")
    parser.add_argument("--operator", help="only mutants of this operator")
    parser.add_argument("--executor", help="what judges the kernels, as of `ptxlab campaign`: processes, processes:N, dask:ADDRESS, ...")
    parser.add_argument("--output", type=Path, help="write all verdicts to this file after each kernel, as JSON")
    options = parser.parse_args()
    if options.executor and options.executor.startswith("threads"):
        parser.error("a kernel is judged with other programs in place of its own, which threads would share: name processes")
    makers, skipped = kernels()
    chosen = [name for name in makers if not options.kernels or name.startswith(tuple(options.kernels))]
    found: dict[str, list[Verdict]] = {name: [] for name in chosen}
    verdicts: list[Verdict] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("kernels", total=len(chosen))
        calls = ((name, options.operator) for name in chosen)
        for name, found[name], unsound in executors(options.executor).results(judge_kernel, calls):
            verdicts = [verdict for of_kernel in found.values() for verdict in of_kernel]
            skipped |= unsound
            progress.update(task, advance=1, description=name)
            if options.output is not None:
                options.output.write_text(json.dumps([_entry(v) for v in verdicts], indent=1))
    out = Console()
    for title, of in (("operator", lambda v: v.mutant.operator), ("kernel", lambda v: v.kernel)):
        out.print(_table(title, verdicts, of))
    for source, reason in skipped.items():
        out.print(f"skipped   {source}: {reason}", highlight=False)
    for verdict in verdicts:
        head = f"{verdict.kernel}: {verdict.mutant.operator} {verdict.mutant.how}"
        if verdict.state in ("survived", "warned"):
            out.print(f"{verdict.state:9} {head} {' '.join(verdict.codes)}", highlight=False, soft_wrap=True)
        elif verdict.state == "reported" and not verdict.proposed:
            out.print(f"elsewhere {head}: {verdict.fixes[0]}", highlight=False, soft_wrap=True)


def _entry(verdict: Verdict) -> dict[str, Any]:
    mutant = verdict.mutant
    return {
        "kernel": verdict.kernel,
        "operator": mutant.operator,
        "how": mutant.how,
        "lines": mutant.lines,
        "state": verdict.state,
        "codes": verdict.codes,
        "proposed": verdict.proposed,
        "fixes": verdict.fixes,
    }


def _table(title: str, verdicts: list[Verdict], of: Any) -> Table:
    table = Table(title, "mutants", *_STATES, "of those that change a result reported", "original value proposed")
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(of(verdict), []).append(verdict)
    for name, found in (*sorted(groups.items()), ("all", [v for v in verdicts if v.mutant.operator != UNTYPED])):
        states = Counter(v.state for v in found)
        changing = states["reported"] + states["survived"]
        proposed = sum(v.proposed for v in found if v.state == "reported")
        shares = [f"{100 * part / changing:.0f} %" if changing else "-" for part in (states["reported"], proposed)]
        table.add_row(name, str(len(found)), *(str(states[state]) for state in _STATES), *shares)
    return table


if __name__ == "__main__":
    main()
