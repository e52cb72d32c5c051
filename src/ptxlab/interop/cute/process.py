"""Programs that import CuTe DSL: their host code calls the driver of the process, which gets the PTX of their kernels."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ptxlab.cuda.building import NativeLibrary, build
from ptxlab.cuda.images import PtxStore
from ptxlab.interop import _bindings_runtime
from ptxlab.interop._host_memory import attached
from ptxlab.interop.cute._arguments import host_memory, in_host_memory
from ptxlab.interop.cute._kept import KeptPtx, settings
from ptxlab.interop.optional_packages import after_import, before_import
from ptxlab.interop.session import current, replace_attribute

__all__ = ["LIBRARY", "install_on_import"]

LIBRARY = NativeLibrary("libptxlab_cute.so", folders=("cute",))
"""The functions of the CUDA runtime that compiled host code calls, over the driver of the process."""

_for_good = ExitStack()


def install_on_import(store: PtxStore) -> None:
    """Prepare the process for a program that may import CuTe DSL, to the program's end.

    Parameters
    ----------
    store : where the driver looks for the PTX of machine code
    """
    _bindings_runtime.install_on_import()
    before_import("cutlass", partial(_set_up, store))
    after_import("cutlass.cute.runtime", _follow_host_memory)


def _set_up(store: PtxStore) -> None:
    """Set the variables of CuTe DSL, which reads them when it is imported."""
    folder = Path(_for_good.enter_context(TemporaryDirectory(prefix="ptxlab-cute-")))
    os.environ.update(settings(current().settings.target, folder, build(LIBRARY)))
    store.finders.append(KeptPtx(folder).find)


def _follow_host_memory() -> None:
    """Make the tensors and pointers of a call that lie in host memory memory of the device, for the time of the call."""
    from cutlass.base_dsl.jit_executor import JitExecutor
    from cutlass.cute.runtime import _Pointer, _Tensor

    used: list[weakref.ref[Any]] = []
    for owner in (_Tensor, _Pointer):
        replace_attribute(_for_good, owner, "__c_pointers__", _noted(used, owner.__c_pointers__))
    replace_attribute(_for_good, JitExecutor, "run_compiled_program", _with_host_memory(used, JitExecutor.run_compiled_program))


def _noted(used: list[weakref.ref[Any]], pointers: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Record the tensors and pointers that are passed to the next call of a host function."""

    def note(self: Any) -> Any:
        used.append(weakref.ref(self))
        return pointers(self)

    return note


def _with_host_memory(used: list[weakref.ref[Any]], run: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, exe_args: list[Any]) -> Any:
        given = {str(i): value for i, ref in enumerate(used) if (value := ref()) is not None and in_host_memory(value)}
        used.clear()
        if not given:
            return run(self, exe_args)
        from cuda.bindings import driver

        with attached(current().device, host_memory(given)):
            try:
                return run(self, exe_args)
            finally:
                driver.cuCtxSynchronize()

    return call
