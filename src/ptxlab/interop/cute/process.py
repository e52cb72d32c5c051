"""Programs that import CuTe DSL: their host code calls the driver of the process, which gets the PTX of their kernels."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ptxlab import cuda
from ptxlab.cuda.building import NativeLibrary, build
from ptxlab.interop import _bindings_runtime
from ptxlab.interop._host_memory import attached
from ptxlab.interop.cute._arguments import outside_of
from ptxlab.interop.cute._kept import KeptPtx, settings
from ptxlab.interop.optional_packages import after_import, before_import
from ptxlab.interop.session import replace_attribute

__all__ = ["LIBRARY", "install_on_import"]

LIBRARY = NativeLibrary("libptxlab_cute.so", folders=("cute",))
"""The functions of the CUDA runtime that compiled host code calls, over the driver of the process."""

_for_good = ExitStack()


def install_on_import() -> None:
    """Prepare the process for a program that may import CuTe DSL, to the program's end.

    The import raises `BuildError` if there is no compiler for the libraries.
    """
    _bindings_runtime.install_on_import()
    before_import("cutlass", _set_up)


def _set_up() -> None:
    """Install the driver, and set the variables of CuTe DSL, which reads them when it is imported."""
    from ptxlab.interop.cute._benchmark import measure_once

    driver = cuda.install()
    folder = Path(_for_good.enter_context(TemporaryDirectory(prefix="ptxlab-cute-")))
    os.environ.update(settings(driver.bridge.devices[0].target or "", folder, build(LIBRARY)))
    driver.bridge.store.finders.append(KeptPtx(folder).find)
    after_import("cutlass.cute.runtime", partial(_follow_host_memory, driver))
    after_import("cutlass.testing", partial(measure_once, _for_good))
    after_import("torch", partial(_initialise, driver))


def _initialise(driver: cuda.Driver) -> None:
    """Do what torch does in a program that uses its CUDA device: the primary context of the first device is current."""
    context = ctypes.c_void_p()
    driver.library.cuInit(0)
    driver.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.library.cuCtxSetCurrent(context)


def _follow_host_memory(driver: cuda.Driver) -> None:
    """Make the tensors and pointers of a call that lie in host memory memory of the device, for the time of the call."""
    from cutlass.base_dsl.jit_executor import JitExecutor
    from cutlass.cute.runtime import _Pointer, _Tensor

    used: list[weakref.ref[Any]] = []
    for owner in (_Tensor, _Pointer):
        replace_attribute(_for_good, owner, "__c_pointers__", _noted(used, owner.__c_pointers__))
    run = JitExecutor.run_compiled_program
    replace_attribute(_for_good, JitExecutor, "run_compiled_program", _with_host_memory(driver, used, run))


def _noted(used: list[weakref.ref[Any]], pointers: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Record the tensors and pointers that are passed to the next call of a host function."""

    def note(self: Any) -> Any:
        used.append(weakref.ref(self))
        return pointers(self)

    return note


def _with_host_memory(driver: cuda.Driver, used: list[weakref.ref[Any]], run: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, exe_args: list[Any]) -> Any:
        passed = {str(i): value for i, ref in enumerate(used) if (value := ref()) is not None}
        used.clear()
        driver.bridge.memory.update()
        device = driver.bridge.devices[0]
        memory = outside_of(device, passed)
        if not memory:
            return run(self, exe_args)
        with attached(device, memory):
            try:
                return run(self, exe_args)
            finally:
                driver.synchronize()

    return call
