"""The tools of the CUDA toolkit: where they are, and what ptxas, the assembler, says of a kernel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from ptxlab.diagnostics import PtxlabError, diagnose
from ptxlab.interop.optional_packages import package_folders
from ptxlab.profile import Assembled

__all__ = ["NvccError", "assembled", "find_nvcc", "find_ptxas", "installed_ptxas", "release", "release_of"]

_INSTALL = 'pip install "ptxlab[cuda]", or install the CUDA toolkit and set CUDA_HOME'
_RELEASE = re.compile(r"release (\d+)\.(\d+)")
_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
_SPILLS = re.compile(r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (?P<registers>\d+) registers")


class NvccError(PtxlabError):
    """CUDA C++ that cannot be compiled or called; the diagnostics carry the compiler's messages with their places."""


def find_nvcc() -> Path:
    """The compiler: of ``$CUDA_HOME`` or ``$CUDA_PATH``, else of the PyPI package ``nvidia-cuda-nvcc``, else of ``$PATH``.

    Raises
    ------
    NvccError
        I201 if there is none, with what to install
    """
    named = [Path(root, "bin", "nvcc") for root in map(os.environ.get, ("CUDA_HOME", "CUDA_PATH")) if root]
    packaged = sorted((path for folder in package_folders("nvidia") for path in folder.glob("cu*/bin/nvcc")), reverse=True)
    found = next((path for path in (*named, *packaged) if path.is_file() and os.access(path, os.X_OK)), shutil.which("nvcc"))
    if found is None:
        raise NvccError(diagnose("I201", f"nvcc is not installed: {_INSTALL}"))
    return Path(found)


@cache
def release() -> int:
    """The major number of the compiler's release, of which the host code takes the runtime library: 13."""
    return release_of(find_nvcc())[0]


def release_of(tool: Path) -> tuple[int, int]:
    """The release of nvcc or ptxas: (13, 5); (0, 0) if it does not say it."""
    answer = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout
    found = _RELEASE.search(answer)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def installed_ptxas() -> list[Path]:
    """The assemblers: the one beside nvcc, that of the PyPI package ``nvidia-cuda-nvcc``, and that of ``$PATH``."""
    found: list[Path] = []
    with suppress(NvccError):
        found.append(find_nvcc().resolve().parent / "ptxas")
    found += sorted((path for folder in package_folders("nvidia") for path in folder.glob("cu*/bin/ptxas")), reverse=True)
    found += map(Path, filter(None, [shutil.which("ptxas")]))
    return list(dict.fromkeys(path for path in found if path.is_file() and os.access(path, os.X_OK)))


def find_ptxas() -> Path | None:
    """The first of the installed assemblers; None if there is none."""
    return next(iter(installed_ptxas()), None)


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
