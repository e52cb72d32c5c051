"""Builds the programs of a collection that are CUDA C++, with the shared runtime library, and keeps them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from ptxlab.cuda.remote.executables import link_libraries
from ptxlab.interop import nvcc

from .programs import Program

__all__ = ["BuildFailure", "built"]

_HEADERS = Path(__file__).with_name("headers")


class BuildFailure(Exception):
    """What the compiler says against a program."""


def built(program: Program, root: Path, checkout: Path, folder: Path) -> Path:
    """Return the executable of a program in ``folder``; it is made with nvcc unless it is there.

    Raises
    ------
    BuildFailure
        if nvcc refuses the program
    """
    executable = folder / program.path.removesuffix(".cu").replace("/", "-")
    if executable.exists():
        return executable
    folder.mkdir(parents=True, exist_ok=True)
    virtual = "compute_" + program.target.removeprefix("sm_")
    options = [option.replace("{checkout}", str(checkout)).replace("{headers}", str(_HEADERS)) for option in program.build]
    command = [str(nvcc.find_nvcc()), "-std=c++17", "-cudart", "shared", "-lineinfo", "-gencode", f"arch={virtual},code={virtual}"]
    with TemporaryDirectory() as libraries:
        link_libraries(Path(libraries))
        command += [f"-L{libraries}", *options, "-o", str(executable), str(root / program.path)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    if done.returncode:
        raise BuildFailure(next((line for line in done.stderr.splitlines() if "error" in line), f"nvcc ends with {done.returncode}"))
    return executable
