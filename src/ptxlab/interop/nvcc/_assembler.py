"""Asking ptxas what the kernels of a PTX text need: registers, spills, stack."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from ptxlab.interop.nvcc._build import NvccError, find_nvcc
from ptxlab.profile import Assembled

__all__ = ["assembled", "find_ptxas"]

_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
_SPILLS = re.compile(r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (?P<registers>\d+) registers")


def find_ptxas() -> Path | None:
    """The assembler beside nvcc, else that of ``$PATH``; None if there is none."""
    with suppress(NvccError):
        beside = find_nvcc().resolve().parent / "ptxas"
        if os.access(beside, os.X_OK):
            return beside
    found = shutil.which("ptxas")
    return None if found is None else Path(found)


def assembled(text: str, target: str, kernel: str) -> Assembled | None:
    """What ptxas says of a kernel; None if it is not installed, or cannot assemble the text."""
    ptxas = find_ptxas()
    if ptxas is None:
        return None
    with tempfile.TemporaryDirectory(prefix="ptxlab-") as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(text)
        command = [str(ptxas), "--verbose", "--gpu-name", target, str(source), "--output-file", str(Path(folder, "kernel.cubin"))]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    parts = _ENTRY.split(answer.stderr + answer.stdout)
    said = dict(zip(parts[1::2], parts[2::2], strict=True)).get(kernel, "")
    registers, spills = _REGISTERS.search(said), _SPILLS.search(said)
    if answer.returncode or registers is None:
        return None
    sizes = (0, 0, 0) if spills is None else (int(spills["stores"]), int(spills["loads"]), int(spills["stack"]))
    return Assembled(int(registers["registers"]), *sizes)
