"""Programs that import Triton, 3.5 or later: its own NVIDIA back end calls the driver of the process, and hands it PTX.

In place of the assembler it gets a program that gives its input as output.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from functools import cache, partial
from pathlib import Path

from ptxlab import cuda
from ptxlab.cuda.building import DRIVER, build, link
from ptxlab.interop.optional_packages import after_import, package_folders
from ptxlab.interop.session import FOR_GOOD
from ptxlab.native import cache_folder, made_once

__all__ = ["prepare", "settings"]

_ASSEMBLERS = {"TRITON_PTXAS_PATH": "ptxas", "TRITON_PTXAS_BLACKWELL_PATH": "ptxas-blackwell"}
"""By the setting: the assembler of Triton's package. It answers which version of PTX Triton may write."""

_PROGRAM = """#!/bin/sh
# In place of ptxas: the output is the input, PTX. The last line for --version keeps what Triton caches apart from machine code.
if [ "$1" = --version ]; then
    {assemblers}/"${{0##*/}}" --version 2>/dev/null || echo 'Cuda compilation tools, release 12.8, V12.8.93'
    exec echo 'ptxlab: the output is PTX'
fi
while [ "$2" != -o ]; do shift; done
exec cp -- "$1" "$3"
"""


def settings() -> dict[str, str]:
    """Return the variables that make Triton hand PTX to the driver, and find its library, for the linker too."""
    folders = (str(folder / "backends" / "nvidia" / "bin") for folder in package_folders("triton"))
    text = _PROGRAM.format(assemblers=shlex.quote(next(folders, "")))
    place = cache_folder("triton") / hashlib.sha256(f"{text}{build(DRIVER)}".encode()).hexdigest()[:16]
    programs = {name: str(made_once(place / assembler, partial(_write, text))) for name, assembler in _ASSEMBLERS.items()}
    link(DRIVER, place, "libcuda.so")
    return {**programs, "TRITON_LIBCUDA_PATH": str(place)}


def _write(text: str, program: Path) -> None:
    program.write_text(text)
    program.chmod(0o755)


@cache
def prepare() -> None:
    """Install the driver, and set the variables of Triton, which a program is about to import."""
    cuda.install()
    os.environ.update(settings())
    after_import("triton", _change)


def _change() -> None:
    from ptxlab.interop.triton.launches import change, queue

    change(FOR_GOOD, queue)
