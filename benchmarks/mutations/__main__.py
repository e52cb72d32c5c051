"""The mutation benchmark: every synchronisation of the tests' kernels, removed or weakened one at a time."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from .judge import Verdict, judge, models
from .mutants import Mutant

TESTS = Path(__file__).resolve().parents[2] / "tests"


def _kernels(names: list[str]) -> dict[str, object]:
    sys.path.insert(0, str(TESTS))
    from kernels.cases import CASES
    from kernels_sm90.cases import CASES as SM90

    every = {**CASES, **SM90}
    return {name: family for name, family in every.items() if not names or name in names}


def _row(table: Table, name: str, model: str, verdicts: list[Verdict]) -> None:
    states = Counter(v.state for v in verdicts)
    reported = states["reported"]
    rest = reported + states["survived"]
    proposed = sum(v.proposed for v in verdicts)
    share = (f"{100 * part / whole:.0f} %" if whole else "-" for part, whole in ((reported, rest), (proposed, reported)))
    table.add_row(name, model, *map(str, (len(verdicts), states["redundant"], reported, states["survived"])), *share)


def main() -> None:
    """Run, and print a table and the survivors."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutations", description=__doc__)
    parser.add_argument("kernels", nargs="*", help="names of kernels in tests/kernels and tests/kernels_sm90; default: all")
    parser.add_argument("--model", choices=("practice", "spec"), help="default: both; under spec the removed instruction is tcgen05.fence")
    parser.add_argument("--line", type=int, help="only mutants of this line of the PTX")
    parser.add_argument("--every", type=int, default=1, help="only each n-th mutant")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    options = parser.parse_args()
    from kernels.case import kernel  # type: ignore[import-not-found]

    def wanted(number: int, mutant: Mutant) -> bool:
        return number % options.every == 0 and options.line in (None, mutant.line)

    families = _kernels(options.kernels)
    verdicts: list[Verdict] = []
    console = Console(stderr=True)
    table = Table("kernel", "model", "mutants", "redundant", "reported", "survived", "of the rest reported", "proposed")
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("kernels", total=len(families))
        for name, family in families.items():
            progress.update(task, description=name)
            case = family(next(iter(family.sizes)))  # type: ignore[attr-defined, operator]
            for model in models(kernel(name)):
                if options.model in (None, model):
                    found = list(judge(name, kernel(name), case, model, wanted))
                    verdicts += found
                    _row(table, name, model, found)
            progress.advance(task)
    for model in dict.fromkeys(v.model for v in verdicts):
        _row(table, "all", model, [v for v in verdicts if v.model == model])
    _row(table, "all", "", verdicts)
    if options.json:
        rows = [
            {
                "kernel": v.kernel,
                "model": v.model,
                "line": v.mutant.line,
                "family": v.mutant.family,
                "how": v.mutant.how,
                "state": v.state,
                "codes": v.codes,
            }
            | {"proposed": v.proposed}
            for v in verdicts
        ]
        print(json.dumps(rows, indent=1))
        return
    out = Console()
    out.print(table)
    for v in verdicts:
        if v.state == "survived" or (v.state == "reported" and not v.proposed):
            out.print(
                f"{v.state:9} {v.kernel} ({v.model}) line {v.mutant.line}: {v.mutant.family} {v.mutant.how} {' '.join(v.codes)}",
                highlight=False,
            )


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))
    main()
