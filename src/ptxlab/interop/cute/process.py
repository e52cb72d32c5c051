"""Programs and ``with`` statements: host functions are compiled and called as usual, and their kernels run in ptxlab."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial, wraps
from importlib import import_module
from pathlib import Path
from typing import Any

from ptxlab import cuda
from ptxlab.cuda.building import build
from ptxlab.cuda.libraries import CUTE
from ptxlab.interop._host_memory import call_in_session, call_of_program
from ptxlab.interop.compilers import CompilerDevice
from ptxlab.interop.cute._arguments import surround_calls
from ptxlab.interop.cute._compile import compiling_for, cutlass, kept_folder
from ptxlab.interop.optional_packages import after_import
from ptxlab.interop.session import FOR_GOOD, current, replace_attribute

__all__ = ["device", "installed", "prepare", "settings"]


@contextmanager
def installed() -> Iterator[None]:
    """Run CuTe DSL's kernels in the current session for a ``with`` statement."""
    cutlass()
    with compiling_for(current().settings.target), ExitStack() as stack:
        surround_calls(stack, call_in_session)
        yield


device = CompilerDevice(installed)
"""Compiles and runs the host functions of CuTe DSL that are called inside a ``with`` statement."""


@cache
def prepare() -> None:
    """Install the driver, and set the variables of CuTe DSL, which reads them when it is imported."""
    driver = cuda.install()
    os.environ.update(settings(driver.bridge.devices[0].target or "", kept_folder(), build(CUTE)))
    after_import("cutlass.cute.runtime", partial(surround_calls, FOR_GOOD, call_of_program))
    after_import("cutlass.testing", _measure_once)


def settings(target: str, folder: Path, library: Path) -> dict[str, str]:
    """Return the variables that make CuTe DSL compile for a device of the driver, and keep PTX and machine code.

    Parameters
    ----------
    target : the architecture of the device
    folder : where the files are kept
    library : the functions of the CUDA runtime that host code calls, over those of the driver
    """
    kept = {"KEEP": "ptx,cubin", "DUMP_DIR": str(folder), "NO_CACHE": "1", "DISABLE_FILE_CACHING": "1"}
    values = {**kept, "ARCH": target, "LINEINFO": "1", "LIBS": str(library)}
    return {f"{prefix}_{name}": value for prefix in ("CUTE_DSL", "CUTE_EXPERIMENTAL_DSL") for name, value in values.items()}


def _measure_once() -> None:
    """Let ``cutlass.testing`` run functions once, without warming up: times in ptxlab mean nothing for a GPU, or are estimated."""
    testing = import_module("cutlass.testing")

    def once(measure: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(measure)
        def measured(*args: Any, **options: Any) -> Any:
            current().note_run_once("cutlass.testing")
            return measure(*args, **options | {"warmup_iterations": 0, "iterations": 1})

        return measured

    for name in ("benchmark", "_benchmark_for_autotune"):
        replace_attribute(FOR_GOOD, testing, name, once(getattr(testing, name)))
