"""The recorded sequences of driver calls, the program that makes them, and what the virtual driver does differently."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

from ptxlab.cuda.building import SOURCES, compiler

RECORDING = Path(__file__).parent / "data" / "sequences_h200.jsonl.gz"
PROGRAM = Path(__file__).parent / "sequences"


def recorded() -> dict[str, list[str]]:
    """The steps of each sequence on an H200 with driver 580.159.04."""
    with gzip.open(RECORDING, "rt") as lines:
        found = [json.loads(line) for line in lines]
    return {row["name"]: row["steps"] for row in found}


def crashes(steps: list[str]) -> bool:
    """Whether the recorded driver ended the process: there is nothing to compare."""
    return any(step.startswith("signal=") for step in steps)


def compile_program(folder: Path) -> Path:
    """Compile the program as a library, in which ``run_sequence`` runs one sequence."""
    made = folder / "libsequences.so"
    files = sorted(map(str, PROGRAM.glob("*.c")))
    flags = ["-std=gnu11", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}"]
    subprocess.run([*(compiler() or ["cc"]), *flags, *files, "-o", str(made), "-ldl", "-lpthread"], check=True, timeout=120)
    return made
