"""Compare this tree with another one, row by row: ``python -m benchmarks.compare OTHER [--pairs 15] [ROW ...]``.

Both trees run the benchmarks of this one, each in a process of its own. With ``--tree`` the sources of a third tree take the place of those
of this one: so a commit is compared with the one before it. A pair is one measurement of each, one right after the other, in alternating
order; a row's figure is the median of the ratios of its pairs. So what else the machine does in the meantime falls on both.

Launches are compared without checks, and with the checks that both trees have (`common`). The rows with default checks are shown, but no
limit holds for them: a tree may have checks by default that the other one does not have. ``added`` rows are what checks add to a launch
without. In ``detached`` rows a session of the debugger
has begun and ended in the process before it is measured, if the tree has a debugger. Python writes bytecode before a fresh start is
measured, as it does in an installed package.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from .__main__ import byte_code_in
from .approximate import INSTRUCTIONS
from .generated import services
from .numerics import CASES
from .workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[1]
MOST = 1.05
"""The largest median ratio, this tree to the other, that passes unless another one is given."""
MOST_OF_IMPORT = 0.2
"""The most seconds that ``import ptxlab`` may take; its ratio is shown only."""
_FILLING = 3
"""Measurements of the process that fills the code cache."""

Measure = Callable[[], float]


def rows() -> list[str]:
    """The names of all rows; those of ``fresh`` start a new Python for each measurement."""
    launches = [f"launch {name} {check}" for name in WORKLOADS for check in ("none", "common", "default")]
    launches += [f"added {name} {check}" for name in WORKLOADS for check in ("common", "default")]
    launches += [f"detached {name} common" for name in WORKLOADS]
    units = ["scalar", *(f"service {name}" for name in services()), "parse", *(f"prepared {name}" for name in CASES)]
    fresh = ["fresh import", "fresh cold common", "fresh cold default"]
    return [*launches, *units, *(f"approximate {opcode}" for opcode in INSTRUCTIONS), *fresh]


def slower(row: str, seconds: float, ratio: float, most: float = MOST) -> bool:
    """Whether a row of this tree takes longer than it may."""
    if row == "fresh import":
        return seconds > MOST_OF_IMPORT
    return ratio > most and not row.endswith(" default")


@contextmanager
def measuring(tree: Path, row: str, cache: Path) -> Iterator[Measure]:
    """A function that measures a row once with the sources of a tree, in seconds."""
    kind = row.partition(" ")[0]
    path = os.pathsep.join((str(tree / "src"), str(ROOT)))
    env = os.environ | {"PTXLAB_CACHE_DIR": str(cache), "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.paired", row]
    if kind == "fresh":
        env |= byte_code_in(cache)

        def fresh() -> float:
            with tempfile.TemporaryDirectory() as empty:
                run = subprocess.run(command, cwd=ROOT, env=env | {"PTXLAB_CACHE_DIR": empty}, capture_output=True, text=True, check=True)
            return float(run.stdout)

        fresh()
        yield fresh
        return
    # Another process has filled the code cache: functions that are called often are in it, optimised.
    subprocess.run(command, cwd=ROOT, env=env, input="\n" * _FILLING, capture_output=True, text=True, check=True)
    with subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def once() -> float:
            asked.write("\n")
            asked.flush()
            answer = answers.readline()
            if not answer:
                raise SystemExit(f"{row}: the process of {tree} ended")
            return float(answer)

        yield once
        asked.close()


def compare(row: str, tree: Path, other: Path, pairs: int) -> tuple[float, float, float]:
    """Median seconds of a tree and of another, and the median of the ratios of the pairs."""
    with ExitStack() as stack:
        caches = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        ours, theirs = (stack.enter_context(measuring(tree, row, cache)) for tree, cache in zip((tree, other), caches, strict=True))
        found = []
        for number in range(pairs):
            if number % 2:
                second, first = theirs(), ours()
            else:
                first, second = ours(), theirs()
            found.append((first, second))
    return median(a for a, _ in found), median(b for _, b in found), median(a / b for a, b in found)


def main() -> int:
    """Compare, print a table, and return 1 if a row is slower than allowed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("other", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("rows", nargs="*", help="beginnings of row names; default: all rows")
    parser.add_argument("--tree", type=Path, default=ROOT, help="a checkout whose sources are compared in place of those of this one")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--most", type=float, default=MOST, help="the largest median ratio that passes")
    given = parser.parse_intermixed_args()
    chosen = [row for row in rows() if not given.rows or row.startswith(tuple(given.rows))]
    table = Table(title=f"{given.pairs} interleaved pairs a row, medians", title_justify="left")
    for column in ("", "this tree, ms" if given.tree == ROOT else f"{given.tree.name}, ms", "the other, ms", "ratio"):
        table.add_column(column, justify="left" if not column else "right")
    console, failed = Console(), []
    with console.status("") as status:
        for row in chosen:
            status.update(row)
            ours, theirs, ratio = compare(row, given.tree.resolve(), given.other.resolve(), given.pairs)
            failed += [row] if slower(row, ours, ratio, given.most) else []
            table.add_row(row, f"{1e3 * ours:.4g}", f"{1e3 * theirs:.4g}", f"{ratio:.3f}{' slower' if row in failed else ''}")
    console.print(table)
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
