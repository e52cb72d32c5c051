"""Programs that import CuPy: its wheels carry NVIDIA's runtime library, which works with NVIDIA's driver only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from ptxlab.cuda.remote.executables import carried_runtime
from ptxlab.interop.optional_packages import before_import
from ptxlab.interop.session import current

__all__ = ["install_on_import"]

_MODULES = "cuda/api/runtime.*.so"
"""Where the package `cupy_backends` has its calls of the runtime."""
_FIX = "write the program for cuda.core or numba-cuda, which call the driver"


def install_on_import() -> Callable[[], None]:
    """Report a CuPy that cannot call the virtual driver when a program imports it; returns a function to call at the program's end."""
    return before_import("cupy", _report)


def _report() -> None:
    spec = find_spec("cupy_backends")
    folders = spec.submodule_search_locations if spec is not None else None
    for file in (file for folder in folders or () for file in Path(folder).glob(_MODULES)):
        found = carried_runtime(file)
        if found is not None:
            current().note(replace(found, fix=_FIX))
