"""Programs that import CuPy: its wheels carry NVIDIA's runtime library, which works with NVIDIA's driver only."""

from __future__ import annotations

from dataclasses import replace

from ptxlab.cuda.remote.executables import carried_runtime
from ptxlab.interop.optional_packages import package_folders
from ptxlab.interop.session import current

__all__ = ["report"]

_MODULES = "cuda/api/runtime.*.so"
"""Where the package `cupy_backends` has its calls of the runtime."""
_FIX = "write the program for cuda.core or numba-cuda, which call the driver"


def report() -> None:
    """Report a CuPy that cannot call the virtual driver."""
    for file in (file for folder in package_folders("cupy_backends") for file in folder.glob(_MODULES)):
        found = carried_runtime(file)
        if found is not None:
            current().note(replace(found, fix=_FIX))
