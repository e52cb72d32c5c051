"""Mutated inputs, as many as asked for: ``python -m tests.end_to_end.fuzz --inputs 1000000 --executor processes``.

Every input must be read, or refused with a diagnostic, soon and in bounded memory. The exit status is 1 if one is not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ptxlab.campaign import executors

from .batches_helpers import KINDS, Batch, run_batch


def batches(kinds: Sequence[str], inputs: int, size: int, first: int) -> list[tuple[str, int, int]]:
    """Kind, seed and number of inputs of each batch."""
    starts = range(0, inputs, size)
    return [(kind, first + number, min(size, inputs - start)) for kind in kinds for number, start in enumerate(starts)]


def _table(found: list[Batch]) -> Table:
    made = Table("inputs", "number", "accepted", "launches that ended well", "failures", title="mutated inputs", title_justify="left")
    for kind in dict.fromkeys(batch.kind for batch in found):
        of_kind = [batch for batch in found if batch.kind == kind]
        sums = (sum(getattr(batch, name) for batch in of_kind) for name in ("inputs", "accepted", "finished"))
        made.add_row(kind, *(f"{value:,}" for value in sums), str(sum(len(batch.failures) for batch in of_kind)))
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print a table and the failures, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.end_to_end.fuzz", description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS), help="what is done with inputs; default: all")
    parser.add_argument("--inputs", type=int, default=10_000, help="of each kind")
    parser.add_argument("--batch", type=int, default=1000, help="inputs that one process mutates and tries at a time")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first batch")
    parser.add_argument("--executor", help="what runs the batches, as of `ptxlab campaign`: processes, processes:N, dask:ADDRESS, ...")
    parser.add_argument("--keep", type=Path, help="write the inputs that fail to this folder")
    parser.add_argument("--json", action="store_true", help="print all batches as JSON")
    options = parser.parse_args(arguments)
    if options.executor and options.executor.startswith("threads"):
        parser.error("a batch measures the time and the memory of its process, which threads would share: name processes")
    asked = batches(options.kinds, options.inputs, options.batch, options.first)
    found: list[Batch] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("batches", total=len(asked))
        for batch in executors(options.executor).results(run_batch, asked):
            found.append(batch)
            progress.update(task, advance=1)
    found.sort(key=lambda batch: (batch.kind, batch.seed))
    failures = [failure for batch in found for failure in batch.failures]
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        for failure in failures:
            raw = failure.text.encode(errors="surrogateescape")
            (options.keep / f"{hashlib.sha256(raw).hexdigest()[:16]}.txt").write_bytes(raw)
    if options.json:
        print(json.dumps([asdict(batch) for batch in found], indent=1))
    else:
        out = Console()
        out.print(_table(found))
        for failure in failures:
            out.print(failure.problem, failure.text, "", sep="\n", markup=False, highlight=False)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
