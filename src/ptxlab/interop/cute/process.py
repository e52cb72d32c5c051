"""Programs that import CuTe DSL: their host code calls the driver of the process, which gets the PTX of their kernels."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ptxlab import cuda
from ptxlab.cuda.building import build
from ptxlab.interop._host_memory import reached_memory, registered
from ptxlab.interop.cute._arguments import outside_of
from ptxlab.interop.cute._kept import LIBRARY, KeptPtx, settings
from ptxlab.interop.cute.scripts import surround_calls
from ptxlab.interop.optional_packages import after_import, before_import

__all__ = ["LIBRARY", "install_on_import"]

_for_good = ExitStack()


def install_on_import() -> Callable[[], None]:
    """Prepare the process for a program that may import CuTe DSL; returns a function to call at the program's end.

    The import raises `BuildError` if there is no compiler for the libraries.
    """
    return before_import("cutlass", _set_up)


@cache
def _set_up() -> None:
    """Install the driver, and set the variables of CuTe DSL, which reads them when it is imported."""
    from ptxlab.interop.cute._benchmark import measure_once

    driver = cuda.install()
    folder = Path(_for_good.enter_context(TemporaryDirectory(prefix="ptxlab-cute-")))
    os.environ.update(settings(driver.bridge.devices[0].target or "", folder, build(LIBRARY)))
    driver.bridge.store.finders.append(KeptPtx(folder).find)
    after_import("cutlass.cute.runtime", partial(_follow_host_memory, driver))
    after_import("cutlass.testing", partial(measure_once, _for_good))


def _follow_host_memory(driver: cuda.Driver) -> None:
    """Make the tensors and pointers of a call that lie in host memory memory of the device, for the time of the call."""

    def surround(passed: dict[str, Any]) -> AbstractContextManager[None]:
        driver.bridge.memory.update()
        return registered(driver, reached_memory(outside_of(driver.bridge.devices[0], passed)))

    surround_calls(_for_good, surround)
