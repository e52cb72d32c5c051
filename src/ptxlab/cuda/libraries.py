"""The libraries in C: their sources, and how they are compiled. The build of wheels loads this file alone: it imports nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["DRIVER", "PREBUILT", "SOURCES", "NativeLibrary"]

SOURCES = Path(__file__).parent / "library"
PREBUILT = Path(__file__).parent / "prebuilt"
"""Where wheels for one platform have the libraries."""
_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra")


@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """A shared library that is compiled from C sources.

    Attributes
    ----------
    soname : what programs ask the loader for, and the name of the file
    folders : the folders with its C files, relative to `SOURCES`
    flags : further arguments of the compiler; ``{sources}`` stands for the folder of all sources
    """

    soname: str
    folders: tuple[str, ...] = (".",)
    flags: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        """The arguments of the compiler, without the file to write."""
        files = [str(path) for folder in self.folders for path in sorted((SOURCES / folder).glob("*.c"))]
        return [*files, *_FLAGS, f"-Wl,-soname,{self.soname}", *(flag.format(sources=SOURCES) for flag in self.flags)]


DRIVER = NativeLibrary("libcuda.so.1", flags=("-Wl,--no-undefined", "-Wl,-Bsymbolic"))
"""The virtual driver."""
