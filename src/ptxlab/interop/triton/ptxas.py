"""The PTX of Triton's kernels for the driver: a program in place of ptxas, which gives its input as output.

Triton names two settings for the assembler that it calls, ``TRITON_PTXAS_PATH`` and ``TRITON_PTXAS_BLACKWELL_PATH``. With them, its NVIDIA
back end hands PTX to the driver, in all versions from 3.5 on.
"""

from __future__ import annotations

import hashlib
import shlex
import subprocess
from pathlib import Path

from ptxlab.cuda.building import DRIVER, build, link
from ptxlab.interop.optional_packages import package_folders
from ptxlab.native import cache_folder, made_once

__all__ = ["driver_settings", "process_settings", "settings"]

_ASSEMBLERS = {"TRITON_PTXAS_PATH": "ptxas", "TRITON_PTXAS_BLACKWELL_PATH": "ptxas-blackwell"}
"""By the setting: the assembler of Triton's package. It answers which version of PTX Triton may write."""

_NO_ASSEMBLER = "Cuda compilation tools, release 12.8, V12.8.93"
"""The version to answer where Triton's package holds no assembler."""

_PROGRAM = """#!/bin/sh
# In place of ptxas: the output is the input, PTX.
input= output=
while [ $# -gt 0 ]; do
    case $1 in
    --version | -V)
        printf '%s\\n' {version}
        exit 0
        ;;
    -o | --output-file)
        output=$2
        shift
        ;;
    *.ptx) input=$1 ;;
    esac
    shift
done
exec cp -- "$input" "$output"
"""


def settings(folder: Path | None = None) -> dict[str, str]:
    """Return the variables that make Triton hand PTX to the driver.

    Parameters
    ----------
    folder : where the programs are; default: a folder of ptxlab's caches
    """
    return {name: str(_program(folder or cache_folder("triton"), assembler)) for name, assembler in _ASSEMBLERS.items()}


def driver_settings() -> dict[str, str]:
    """Return the variable that names a folder with the driver's library, for the linker too."""
    place = cache_folder("triton") / f"driver-{hashlib.sha256(str(build(DRIVER)).encode()).hexdigest()[:16]}"
    place.mkdir(parents=True, exist_ok=True)
    link(DRIVER, place, "libcuda.so")
    return {"TRITON_LIBCUDA_PATH": str(place)}


def process_settings() -> dict[str, str]:
    """Return all variables for a process: Triton has a cache of its own for PTX, too."""
    return settings() | driver_settings() | {"TRITON_CACHE_DIR": str(cache_folder("triton") / "cache")}


def _program(folder: Path, assembler: str) -> Path:
    """Write the program that stands for an assembler, unless it is there; its name says what it answers."""
    text = _PROGRAM.format(version=shlex.quote(_version(assembler)))

    def write(path: Path) -> None:
        path.write_text(text)
        path.chmod(0o755)

    return made_once(folder / f"{assembler}-{hashlib.sha256(text.encode()).hexdigest()[:16]}", write)


def _version(assembler: str) -> str:
    """What an assembler of Triton's package answers to ``--version``, with a line that keeps cached results apart."""
    answer = _NO_ASSEMBLER
    for program in (folder / "backends" / "nvidia" / "bin" / assembler for folder in package_folders("triton")):
        if program.exists():
            answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.strip() or answer
    return f"{answer}\nptxlab: the output is PTX"
