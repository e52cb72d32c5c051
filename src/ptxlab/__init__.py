"""ptxlab: run, check and explain NVIDIA tensor-core PTX on a computer without a GPU."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from ptxlab._exports import deferred
from ptxlab._observers import PROFILER, PROVIDERS, TRACE

if TYPE_CHECKING:
    from ptxlab import descriptors, layout, numerics
    from ptxlab._observers import Provider
    from ptxlab._version import __version__
    from ptxlab.check import lint, lint_instruction
    from ptxlab.descriptors import TensorMap, explain
    from ptxlab.diagnostics import Diagnostic, Place, PtxlabError
    from ptxlab.machine import (
        Buffer,
        Device,
        Kernel,
        KernelError,
        LaunchError,
        MmaRecord,
        MmaRecords,
        Module,
        Provenance,
        Result,
        UndefinedValueWarning,
        load,
        loads,
        read_bundle,
    )
    from ptxlab.profile import Profile
    from ptxlab.ptx import PtxSyntaxError
    from ptxlab.view.trace import Trace

__all__ = [
    "Buffer",
    "Device",
    "Diagnostic",
    "Kernel",
    "KernelError",
    "LaunchError",
    "MmaRecord",
    "MmaRecords",
    "Module",
    "Place",
    "Profile",
    "Provenance",
    "PtxSyntaxError",
    "PtxlabError",
    "Result",
    "TensorMap",
    "Trace",
    "UndefinedValueWarning",
    "__version__",
    "descriptors",
    "explain",
    "layout",
    "lint",
    "lint_instruction",
    "load",
    "loads",
    "numerics",
    "read_bundle",
]

_HOMES = {
    "_version": ("__version__",),
    "check": ("lint", "lint_instruction"),
    "descriptors": ("TensorMap", "descriptors", "explain"),
    "diagnostics": ("Diagnostic", "Place", "PtxlabError"),
    "layout": ("layout",),
    "machine": (
        "Buffer",
        "Device",
        "Kernel",
        "KernelError",
        "LaunchError",
        "MmaRecord",
        "MmaRecords",
        "Module",
        "Provenance",
        "Result",
        "UndefinedValueWarning",
        "load",
        "loads",
        "read_bundle",
    ),
    "numerics": ("numerics",),
    "profile": ("Profile",),
    "ptx": ("PtxSyntaxError",),
    "view.trace": ("Trace",),
}
"""The names of each package. Everything is imported when it is first used, so that ``import ptxlab`` is fast."""


def _imported(name: str) -> Any:
    """A module of the package; a module makes many objects."""
    with import_module("ptxlab.native.collection").collection_paused():
        return import_module(name)


PROVIDERS["operands"] = cache(lambda: cast("Provider", _imported("ptxlab.check.operands")))
PROVIDERS["race"] = cache(lambda: cast("Provider", _imported("ptxlab.check.race")))
PROFILER[:] = [lambda launch: _imported("ptxlab.profile.counters.observer").CountingObserver(launch)]
TRACE[:] = [lambda path: _imported("ptxlab.view.trace").Trace(path)]


if not TYPE_CHECKING:
    __getattr__ = deferred(__name__, _HOMES, _imported)


def __dir__() -> list[str]:
    return __all__
