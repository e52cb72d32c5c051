"""Triton's kernels run in the current session, with arguments in the memory of the host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import triton
from triton.backends import Backend, backends
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import CompiledKernel
from triton.runtime import _allocation

from ptxlab import cuda
from ptxlab.interop._host_memory import call_in_session, memory_of, registered
from ptxlab.interop.torch import capture_call
from ptxlab.interop.triton._launches import Named, change
from ptxlab.interop.triton.driver import LoadedModule, PtxlabDriver
from ptxlab.interop.triton.ptxas import settings

__all__ = ["install", "installed"]


class _InPlaceOfNvidias(PtxlabDriver):
    """The driver for programs that look for an active one, as torch's compiler does."""

    @staticmethod
    def is_active() -> bool:
        return True


def _launch_in_session(named: Named, launch: Callable[[], None]) -> None:
    """Launch a kernel in the current session, or let a graph that is captured do it at each replay."""

    def launched() -> None:
        with call_in_session(named) as own, _scratch(own):
            launch()

    if not capture_call(launched):
        launched()


@contextmanager
def _scratch(own: cuda.Driver) -> Iterator[None]:
    """Give Triton aligned memory of the host from the allocators that the program has set, for the time of a launch."""
    usual, profile = _allocation._allocator.get(), _allocation._profile_allocator.get()
    default = profile if _allocation.has_profile_allocator() else triton.runtime.driver.active.allocate_default_profile_scratch
    with ExitStack() as stack:

        def aligned(allocate: Callable[..., Any], name: str, size: int, align: int, stream: Any) -> Any:
            owner = allocate(size, align, stream)
            if owner.data_ptr() % align:  # CPU memory may be less aligned than that of a device
                owner = allocate(size + align - 1, align, stream)
            memory = memory_of(owner, name)
            stack.enter_context(registered(own, [] if memory is None else [memory]))
            at = owner.data_ptr() + -owner.data_ptr() % align
            return SimpleNamespace(owner=owner, data_ptr=lambda: at)

        for variable, allocator, name in (
            (_allocation._allocator, usual, "global scratch"),
            (_allocation._profile_allocator, default, "profile scratch"),
        ):
            stack.callback(variable.set, variable.get())
            variable.set(partial(aligned, allocator, name))
        yield


_undo: list[ExitStack] = []
"""What takes the changes to Triton back, while they are made."""


def install() -> None:
    """Run Triton's kernels in the current session; further calls do nothing."""
    if _undo:
        return
    stack = ExitStack()
    _undo.append(stack)
    stack.enter_context(patch.dict(os.environ, settings()))
    real = backends["nvidia"]
    backends["nvidia"] = Backend(CUDABackend, _InPlaceOfNvidias)
    stack.callback(backends.update, nvidia=real)
    change(stack, _launch_in_session)


def _without_unloading(finish: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap the destructor of a kernel: a module of ours ends without Triton's driver, which may be another one by then."""

    def forget(self: Any) -> None:
        if isinstance(self.module, LoadedModule):
            LoadedModule.ended.append(self.module)
            self.module = None
        finish(self)

    return forget


CompiledKernel.__del__ = _without_unloading(CompiledKernel.__del__)


@contextmanager
def installed() -> Iterator[None]:
    """Run Triton's kernels in the current session for a ``with`` statement."""
    before, outermost = triton.runtime.driver._active, not _undo
    triton.runtime.driver.set_active(PtxlabDriver())
    try:
        yield
    finally:
        triton.runtime.driver._active = before
        if outermost:
            _undo.pop().close()
