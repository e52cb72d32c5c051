"""The libraries in C: their sources, and how they are compiled. The build of wheels loads this file alone: it imports nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["CUTE", "DRIVER", "PREBUILT", "RUNTIMES", "SOURCES", "NativeLibrary", "runtime_of"]

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
    needs : libraries that it is linked with
    """

    soname: str
    folders: tuple[str, ...] = (".",)
    flags: tuple[str, ...] = ()
    needs: tuple[NativeLibrary, ...] = ()

    def arguments(self) -> list[str]:
        """The arguments of the compiler, without the file to write."""
        files = [str(path) for folder in self.folders for path in sorted((SOURCES / folder).glob("*.c"))]
        return [*files, *_FLAGS, f"-Wl,-soname,{self.soname}", *(flag.format(sources=SOURCES) for flag in self.flags)]


DRIVER = NativeLibrary("libcuda.so.1", flags=("-Wl,--no-undefined", "-Wl,-Bsymbolic"))
"""The virtual driver."""

RUNTIMES = tuple(
    NativeLibrary(
        f"libcudart.so.{version}",
        ("runtime",),
        (
            f"-DRUNTIME_MAJOR={version}",
            f"-Wl,--version-script,{{sources}}/runtime/version{version}.map",
            "-Wl,--no-undefined",
            "-Wl,-rpath,$ORIGIN",
        ),
        (DRIVER,),
    )
    for version in (12, 13)
)
"""The runtime library over the driver, for programs of CUDA 12 and of CUDA 13."""

CUTE = NativeLibrary("libptxlab_cute.so", folders=("cute",))
"""The functions of the CUDA runtime that host code of CuTe DSL calls, over the driver of the process."""


def runtime_of(release: int) -> NativeLibrary:
    """The runtime library for programs of a release of CUDA: that of the nearest one that there is."""
    return RUNTIMES[0] if release < 13 else RUNTIMES[-1]
