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
from .outcome import KINDS, Outcome, run
from .programs import Collection, Program, collections, programs

_LONGEST = 140


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


def page(collection: Collection, upstream: str, outcomes: list[Outcome], packages: list[str]) -> str:
    """The table as Markdown."""
    counts = Counter(each.kind for each in outcomes)
    judged = sum(each.kind == "finding" and bool(each.judgement) for each in outcomes)
    ran = len(outcomes) - counts["left out"]
    lines = [
        f"# {collection.name}",
        "",
        f"Programs of {collection.repository}, folder `{collection.folder}`, commit `{upstream}`, unmodified, under `ptxlab exec`.",
        f"Made by `python -m benchmarks.corpora CHECKOUT --collection {collection.name}`{' with ' * bool(packages)}{', '.join(packages)}. "
        f"{counts['passed']} of {ran} passed; {judged} of {counts['finding']} findings are judged.",
        "",
        *(f"- {kind}: {counts[kind]} ({meaning})" for kind, meaning in KINDS.items() if counts[kind]),
        "",
        "| program | target | options | result | seconds | launches | first diagnostic or error | judged |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in outcomes:
        program = each.program
        options = " ".join((*program.options, *program.ptxlab))
        message = each.message.replace("|", "\\|")
        message = message if len(message) <= _LONGEST else message[: _LONGEST - 3] + "..."
        cells = (program.path, program.target, options, each.kind, f"{each.seconds:.0f}", str(each.launches), message, each.judgement)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


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
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="programs whose path matches")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="a sample: each Nth program")
    parser.add_argument("--seconds", type=int, help="a limit below that of the programs")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the programs")
    parser.add_argument("--executables", type=Path, default=Path("build/corpora"), help="where programs in CUDA C++ are built")
    parser.add_argument("--output", type=Path, help="write the table to this file, after each program")
    options = parser.parse_args()
    console = Console(highlight=False)
    collection, checkout = known[options.collection], options.checkout.resolve()
    upstream, packages = commit(checkout), versions(options.python, collection.packages)
    chosen = [p for p in programs(collection, checkout) if not options.only or any(fnmatch(p.path, each) for each in options.only)]
    outcomes: list[Outcome] = []
    folder = (options.executables / collection.name).resolve()
    for program in chosen[:: options.every]:
        outcomes.append(end_of(program, collection, checkout, folder, options))
        last = outcomes[-1]
        console.print(f"{last.kind:9} {last.seconds:5.0f} s  {program.path}  {last.message[:_LONGEST]}", markup=False, soft_wrap=True)
        if options.output is not None:
            options.output.write_text(page(collection, upstream, outcomes, packages))
    console.print(", ".join(f"{kind} {count}" for kind, count in Counter(each.kind for each in outcomes).most_common()))


if __name__ == "__main__":
    main()
