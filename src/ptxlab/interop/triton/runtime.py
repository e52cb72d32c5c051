"""The changes to Triton's runtime while its kernels run in ptxlab."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import triton
from triton.backends import Backend, backends
from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel
from triton.runtime.jit import JITFunction

from ptxlab.interop.session import replace_attribute
from ptxlab.interop.triton import _benchmark
from ptxlab.interop.triton._arrays import with_arrays
from ptxlab.interop.triton.compiler import PtxBackend
from ptxlab.interop.triton.driver import LoadedModule, PtxlabDriver

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


def _without_unloading(finish: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap the destructor of a kernel: a module of ours ends without Triton's driver, which may be another one by then."""

    def forget(self: Any) -> None:
        if isinstance(self.module, LoadedModule):
            LoadedModule.ended.append(self.module)
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
    replace_attribute(stack, JITFunction, "run", with_arrays(JITFunction.run))
    _benchmark.change_measurements(stack)


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
