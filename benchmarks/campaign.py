"""Cells of a campaign per second, on processes of this machine: ``python -m benchmarks.campaign``.

A cell is a launch of the GEMM of the examples with all checks, under a schedule of its own. The time begins when each process has ended a
cell or two, so that their start does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from ptxlab.campaign import Source, cells_of, executors, run_cells

__all__ = ["measure", "table_rows"]

LAUNCH = Path(__file__).resolve().parents[1] / "examples" / "gemm" / "launch.toml"
COUNTS = (1, 2, 4, 8, 16)
_BEFORE = 2
"""Cells for each process before the time begins."""


def _rate(count: int, cells: int) -> tuple[float, float]:
    """So many processes run so many cells each: cells per second, and the seconds of a cell in its process."""
    chosen = list(cells_of(Source(LAUNCH), count=count * (cells + _BEFORE)))
    started, seconds = 0.0, []
    for number, result in enumerate(run_cells(chosen, executors(f"processes:{count}"))):
        if not result.ok:
            raise SystemExit(f"{result.cell}: {result.diagnostics}")
        if number == count * _BEFORE - 1:
            started = time.perf_counter()
        elif started:
            seconds.append(result.seconds)
    return len(seconds) / (time.perf_counter() - started), sum(seconds) / len(seconds)


def measure(cells: int, repeats: int) -> list[dict[str, float]]:
    """A row for each number of processes for which this machine has processors; each runs so many cells. They take turns; medians."""
    counts = [count for count in COUNTS if count <= len(os.sched_getaffinity(0))]
    rounds = [[_rate(count, cells) for count in counts] for _ in range(repeats)]
    found = []
    for count, rates in zip(counts, zip(*rounds, strict=True), strict=True):
        per_second, seconds = (median(values) for values in zip(*rates, strict=True))
        found.append({"processes": count, "cells_per_s": per_second, "cell_s": seconds})
    return found


def table_rows(found: list[dict[str, float]]) -> list[tuple[str, ...]]:
    """A header, and a row for each number of processes: the last column is 1 if the processes never wait for a cell."""
    rows = [("processes", "cells per second", "times as many as one", "seconds of a cell", "busy")]
    for row in found:
        count, rate, cell = row["processes"], row["cells_per_s"], row["cell_s"]
        rows.append((f"{count}", f"{rate:.2f}", f"{rate / found[0]['cells_per_s']:.2f}", f"{cell:.2f}", f"{rate * cell / count:.2f}"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.campaign", description=__doc__)
    parser.add_argument("--cells", type=int, default=8, help="of each process")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    found = measure(options.cells, options.repeats)
    header, *rows = table_rows(found)
    table = Table(*header, title="a campaign", title_justify="left")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
