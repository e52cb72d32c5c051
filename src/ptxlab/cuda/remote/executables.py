"""Programs that are not Python: executables, and the folder with the libraries that they are given."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Container, Iterator, Sequence
from functools import cache
from pathlib import Path

from ptxlab.cuda.building import link
from ptxlab.cuda.libraries import DRIVER, RUNTIMES
from ptxlab.diagnostics import Diagnostic, Place, diagnose

__all__ = ["call_site", "carried_runtime", "is_executable", "link_libraries"]

_REGISTRATION = b"__cudaRegisterFatBinary"
_SYMBOL_TABLE, _DYNAMIC_SYMBOLS = 2, 11


def is_executable(path: Path) -> bool:
    """Whether a file is a native executable."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF" and os.access(path, os.X_OK)


def carried_runtime(path: Path) -> Diagnostic | None:
    """I511 if an executable carries NVIDIA's own runtime library, which runs with NVIDIA's driver only."""
    if not any(name == _REGISTRATION for name in _defined_symbols(path.read_bytes())):
        return None
    return diagnose(
        "I511",
        f"{path} carries NVIDIA's runtime library (libcudart_static), which works with NVIDIA's driver only",
        fix="link the program with the shared library: nvcc -cudart shared, or with CMake set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)",
    )


def _defined_symbols(data: bytes) -> Iterator[bytes]:
    """The names of the symbols that a 64-bit ELF file defines, as far as it has not been stripped of them."""
    if data[4:6] != b"\x02\x01":
        return
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQII", data, start + i * size) for i in range(count)]
    for _, kind, _, _, offset, length, linked, _ in sections:
        if kind not in (_SYMBOL_TABLE, _DYNAMIC_SYMBOLS):
            continue
        names = data[sections[linked][4] : sections[linked][4] + sections[linked][5]]
        for at in range(offset, offset + length, 24):
            name, _, _, section = struct.unpack_from("<IBBH", data, at)
            if section:
                yield names[name : names.index(b"\0", name)]


def link_libraries(folder: Path) -> None:
    """Put the driver and the runtime libraries into a folder, under the names that programs and linkers look for.

    Raises
    ------
    BuildError
        if they are not prebuilt and cannot be compiled
    """
    link(DRIVER, folder, "libcuda.so")
    for library in RUNTIMES:
        link(library, folder)
    link(RUNTIMES[-1], folder, "libcudart.so")


_GENERATED = ("__device_stub__", "cudaLaunchKernel", "cudaLaunchCooperativeKernel", "__cudaLaunch")
"""What stands in the names of functions between a launch in the source and the library."""
_TEMPLATES = "cuda_runtime.h"
"""The header with templates that call the runtime library for a program."""


def call_site(frames: Sequence[tuple[str, int]], kernels: Container[str] = ()) -> Place | None:
    """Where a program made a call: of the files and offsets of its frames, the innermost one that nvcc did not generate.

    The place names the line if the program has line information, else the function and the file of the program. Host functions with the
    names of ``kernels`` are generated too.
    """
    for file, offset in frames:
        function, shown, source, line = _function_at(file, offset - 1)
        if function not in kernels and Path(source).name != _TEMPLATES and not any(part in function for part in _GENERATED):
            return Place(source, line, 0) if line else Place(f"{shown} in {Path(file).name}", 0, 0)
    return None


@cache
def _function_at(file: str, offset: int) -> tuple[str, str, str, int]:
    """The function at an offset of a program, as the linker names it and as the source does; file and line, 0 if they are not known."""
    tool = shutil.which("addr2line")
    if tool is None:
        return "", "code", "", 0
    found = []
    for more in ((), ("-C",)):
        command = [tool, *more, "-f", "-e", file, hex(offset)]
        found += subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines() or ["??", "??:0"]
    function, place, shown = found[0], found[1], found[2]
    source, _, line = place.partition(" ")[0].rpartition(":")
    return function, shown, source, int(line) if line.isdigit() else 0
