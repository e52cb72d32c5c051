"""CUDA C++ to PTX."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from ptxlab.interop.nvcc._build import built, source_file

if TYPE_CHECKING:
    from ptxlab.machine import Module

__all__ = ["Options", "arguments", "compile", "ptx"]

PathText = str | os.PathLike[str]


class Options(TypedDict, total=False):
    """What `compile` documents: the options of nvcc that both device and host code are compiled with."""

    include: Iterable[PathText]
    define: Mapping[str, object] | None
    fmad: bool
    lineinfo: bool
    flags: Iterable[str]


def compile(path: PathText, *, text: str | None = None, arch: str = "sm_100a", **options: Unpack[Options]) -> Module:
    r"""Compile the kernels of a CUDA C++ file.

    Parameters
    ----------
    path : the file; with ``text``, only its name in messages
    text : the program itself
    arch : what to compile for, ``"sm_90a"``, ``"sm_100a"`` ...
    options : ``include``, folders in which included files are looked for; ``define``, macros, name to value (None: defined without a
        value); ``fmad``, whether multiplication and addition may be fused, as by default; ``lineinfo``, whether diagnostics can name
        places in the source, as by default; ``flags``, further options of nvcc

    Raises
    ------
    NvccError
        if nvcc is not there (I201), refuses the program (I202, with places), or cannot run (I203)

    Examples
    --------
    >>> from ptxlab.interop import nvcc
    >>> module = nvcc.compile("twice.cu", text="__global__ void twice(int *x) { x[threadIdx.x] *= 2; }")  # doctest: +SKIP
    >>> x = np.arange(4, dtype=np.int32)  # doctest: +SKIP
    >>> module.kernel().launch(block=4, args=[x]).ok, x  # doctest: +SKIP
    (True, array([0, 2, 4, 6], dtype=int32))
    """
    from ptxlab.machine import loads

    return loads(ptx(path, text=text, arch=arch, **options), file=Path(path).with_suffix(".ptx").name)


def ptx(path: PathText, *, text: str | None = None, arch: str = "sm_100a", **options: Unpack[Options]) -> str:
    """Compile the kernels of a CUDA C++ file to PTX text; the parameters are those of `compile`."""
    given = ["-ptx", "-arch", arch, *arguments(**options)]
    with source_file(path, text) as source, built(source, ".ptx", given) as artefact:
        return artefact.read_text(errors="replace")


def arguments(
    include: Iterable[PathText] = (),
    define: Mapping[str, object] | None = None,
    fmad: bool = True,
    lineinfo: bool = True,
    flags: Iterable[str] = (),
) -> list[str]:
    """The options as nvcc's command line has them."""
    found = ["-std=c++17", f"--fmad={'true' if fmad else 'false'}"]
    found += ["-lineinfo"] if lineinfo else []
    found += [f"-I{os.fspath(folder)}" for folder in include]
    found += [f"-D{name}" if value is None else f"-D{name}={value}" for name, value in (define or {}).items()]
    return found + list(flags)
