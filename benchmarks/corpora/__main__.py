"""Run the programs of a checkout under ``ptxlab exec``, and write a table of how they end."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

from rich.console import Console

from .building import BuildFailure, built
from .outcome import Outcome, run
from .programs import Collection, Program, collections, programs
from .table import LONGEST, AnotherTable, Table


def commit(checkout: Path) -> str:
    """The commit of a checkout, or of the file ``.commit`` in one that was exported without git."""
    named = checkout / ".commit"
    if named.exists():
        return named.read_text().strip()
    done = subprocess.run(["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def versions(python: str, packages: tuple[str, ...]) -> list[str]:
    """Packages of an interpreter, with their versions."""
    code = "import importlib.metadata as m, sys; [print(name, m.version(name)) for name in sys.argv[1:]]"
    done = subprocess.run([python, "-c", code, *packages], capture_output=True, text=True)
    return done.stdout.splitlines()


def end_of(program: Program, collection: Collection, checkout: Path, folder: Path, options: argparse.Namespace) -> Outcome:
    """Build a program, if it must be built, and run it."""
    root = checkout / collection.folder
    try:
        executable = built(program, root, checkout, folder) if program.build and not program.left_out else None
    except BuildFailure as failure:
        return Outcome(program, "not built", message=str(failure).replace(str(checkout), "CHECKOUT"))
    return run(program, root, options.python, options.seconds, executable)


def main() -> None:
    known = collections()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpora", description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of the collection's repository")
    parser.add_argument("--collection", choices=known, default=next(iter(known)))
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="programs whose path matches; the table keeps its other rows"
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="a sample: each Nth program")
    parser.add_argument("--seconds", type=int, help="a limit below that of the programs")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the programs")
    parser.add_argument("--executables", type=Path, default=Path("build/corpora"), help="where programs in CUDA C++ are built")
    parser.add_argument("--output", type=Path, help="write the table to this file, after each program")
    options = parser.parse_args()
    console = Console(highlight=False)
    collection, checkout = known[options.collection], options.checkout.resolve()
    upstream, packages = commit(checkout), versions(options.python, collection.packages)
    found = programs(collection, checkout)
    chosen = [p for p in found if not options.only or any(fnmatch(p.path, each) for each in options.only)]
    table, counts = Table(collection, upstream, packages), Counter[str]()
    if options.only and options.output is not None and options.output.exists():
        try:
            table = table.with_rows_of(options.output.read_text(), found)
        except AnotherTable as error:
            parser.error(f"--output {options.output}: {error}")
    folder = (options.executables / collection.name).resolve()
    for program in chosen[:: options.every]:
        end = end_of(program, collection, checkout, folder, options)
        table = table.with_outcome(end)
        counts[end.kind] += 1
        console.print(f"{end.kind:9} {end.seconds:5.0f} s  {program.path}  {end.message[:LONGEST]}", markup=False, soft_wrap=True)
        if options.output is not None:
            options.output.write_text(table.page())
    console.print(", ".join(f"{kind} {count}" for kind, count in counts.most_common()))


if __name__ == "__main__":
    main()
