"""The changes to Triton's runtime while its kernels run in ptxlab."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import triton
import triton.testing
from triton._C.libproton import proton
from triton._C.libtriton import nvidia
from triton.backends import Backend, backends
from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from ptxlab.formats import ArrayError, array_of
from ptxlab.interop._host_memory import HostArray
from ptxlab.interop.session import replace_attribute
from ptxlab.interop.triton import _benchmark
from ptxlab.interop.triton._cublas import CublasLt
from ptxlab.interop.triton.compiler import PtxBackend, source_file
from ptxlab.interop.triton.driver import PtxlabDriver
from ptxlab.machine import Module
from ptxlab.machine.launch.options import refuse

__all__ = ["install", "installed"]

_undo: list[ExitStack] = []
"""What takes the changes back, while they are made."""


class _CudaBackend(PtxBackend):
    """The backend that has taken NVIDIA's place."""

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return bool(target.backend == "cuda")


class _CudaDriver(PtxlabDriver):
    """The driver that has taken NVIDIA's place, for programs that look for an active one, as torch's compiler does."""

    @staticmethod
    def is_active() -> bool:
        return True


def _with_arrays(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a kernel launch: it accepts NumPy arrays, and the compiler learns the source file of the kernel."""

    def run_with_arrays(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = source_file.set(self.fn.__code__.co_filename)
        try:
            return run(self, *map(_wrapped, args), **{name: _wrapped(value) for name, value in kwargs.items()})
        finally:
            source_file.reset(token)

    return run_with_arrays


def _wrapped(value: Any) -> Any:
    """Convert an argument for Triton: arrays get an address, NumPy numbers become Python numbers, also in tuples."""
    if isinstance(value, tuple):
        parts = map(_wrapped, value)
        return value._make(parts) if hasattr(value, "_make") else tuple(parts)
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "data_ptr"):
        return value
    try:
        array = array_of(value)
    except ArrayError as error:
        raise refuse("I302", f"an argument of type {type(value).__name__}: {error}", fix=error.fix) from None
    return value if array is None else HostArray(array)


def _without_unloading(finish: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap the destructor of a kernel: one of ours ends without a driver, which may be gone by then."""

    def forget(self: Any) -> None:
        if isinstance(self.module, Module):
            self.module = None
        finish(self)

    return forget


def install() -> None:
    """Run Triton's kernels in ptxlab; further calls do nothing."""
    if _undo:
        return
    stack = ExitStack()
    _undo.append(stack)
    real = backends["nvidia"]
    backends["nvidia"] = Backend(_CudaBackend, _CudaDriver)
    stack.callback(backends.update, nvidia=real)
    replace_attribute(stack, JITFunction, "run", _with_arrays(JITFunction.run))
    replace_attribute(stack, Autotuner, "prune_configs", _benchmark.first_valid(Autotuner.prune_configs))
    for name in ("do_bench", "do_bench_cudagraph", "do_bench_proton", "do_bench_cudagraph_proton"):
        replace_attribute(stack, triton.testing, name, _benchmark.do_bench)
    replace_attribute(stack, triton.testing.Mark, "_run", _benchmark.first_point)
    replace_attribute(stack, nvidia.cublas, "CublasLt", CublasLt)
    replace_attribute(stack, proton, "start", _benchmark.start_profiler)
    for name in ("set_metric_kernels", "activate", "activate_all", "deactivate", "deactivate_all", "finalize", "finalize_all"):
        replace_attribute(stack, proton, name, _benchmark.profiler_nothing)


CompiledKernel.__del__ = _without_unloading(CompiledKernel.__del__)


@contextmanager
def installed() -> Iterator[None]:
    """Run Triton's kernels in ptxlab for a ``with`` statement."""
    before, outermost = triton.runtime.driver._active, not _undo
    triton.runtime.driver.set_active(PtxlabDriver())
    try:
        yield
    finally:
        triton.runtime.driver._active = before
        if outermost:
            _undo.pop().close()
