"""The mutation benchmark: every synchronisation of the tests' kernels, removed or weakened one at a time."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ptxlab.campaign import executors

from .judge import Verdict
from .judging import Choice, judged
from .kernels import keep_compiled, kernels
from .report import as_data, table_of, unexplained


def main() -> None:
    """Run, and print a table, the survivors, and what was proposed in place of the removed instruction."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutations", description=__doc__)
    parser.add_argument("kernels", nargs="*", help="names of kernels, or how they begin (cute_, cuda_, sm90_); default: all")
    parser.add_argument("--model", choices=("practice", "spec"), help="default: both; under spec the removed instruction is tcgen05.fence")
    parser.add_argument("--line", type=int, help="only mutants of this line of the PTX")
    parser.add_argument("--every", type=int, default=1, help="only each n-th mutant of each kernel")
    parser.add_argument("--first", type=int, default=0, help="with --every, the number of the first mutant; default: 0")
    parser.add_argument("--executor", help="what judges the kernels, as of `ptxlab campaign`: processes, processes:N, dask:ADDRESS, ...")
    parser.add_argument("--json", action="store_true", help="print all verdicts as JSON")
    parser.add_argument("--output", type=Path, help="write the JSON to this file after each kernel")
    parser.add_argument("--keep", type=Path, help="only write the kernels that need a compiler to this folder, for --kept elsewhere")
    parser.add_argument("--kept", type=Path, help="take the kernels that need a compiler from this folder")
    options = parser.parse_args()
    if options.keep is not None:
        for source, reason in keep_compiled(options.keep).items():
            Console().print(f"skipped   {source}: {reason}", highlight=False)
        return

    if options.executor and options.executor.startswith("threads"):
        parser.error("a kernel is judged with other parts of the machine in place of its own, which threads would share: name processes")
    makers, skipped = kernels(options.kept)
    begins = tuple(given for given in options.kernels if given not in makers)
    chosen = [name for name in makers if not options.kernels or name in options.kernels or name.startswith(begins)]
    choice = Choice(options.kept, options.model, options.line, options.every, options.first)
    found: dict[str, list[Verdict]] = {name: [] for name in chosen}
    verdicts: list[Verdict] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("kernels", total=len(chosen))
        for name, of_kernel, unsound in judged(chosen, choice, executors(options.executor)):
            found[name] = of_kernel
            verdicts = [each for listed in found.values() for each in listed]
            skipped |= unsound
            progress.update(task, advance=1, description=name)
            if options.output is not None:
                options.output.write_text(json.dumps(as_data(verdicts, skipped), indent=1))
    if options.json:
        print(json.dumps(as_data(verdicts, skipped), indent=1))
        return
    out = Console()
    out.print(table_of(verdicts))
    for source, reason in skipped.items():
        out.print(f"skipped   {source}: {reason}", highlight=False)
    for line in unexplained(verdicts):
        out.print(line, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
