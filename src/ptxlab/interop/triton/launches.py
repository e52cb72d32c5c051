"""Launches of Triton's kernels, by its own launcher, in a program or in the current session; arguments may be arrays of the host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import triton
from triton.backends.nvidia.compiler import get_ptxas_version
from triton.compiler import CompiledKernel
from triton.runtime import _allocation
from triton.runtime.jit import JITCallable, JITFunction

from ptxlab import cuda
from ptxlab.interop._host_memory import HostArray, arrays_among, call_in_session, call_of_program, host_argument, registered_arguments
from ptxlab.interop._triton_functions import change_functions
from ptxlab.interop.session import FOR_GOOD, replace_attribute
from ptxlab.interop.torch import capture_call
from ptxlab.interop.triton.process import settings

__all__ = ["change", "install", "installed", "queue"]


def change(stack: ExitStack, around: Callable[..., None]) -> None:
    """Change Triton until the stack is closed; launches of the kernels that are loaded until then happen in ``around``.

    It is called with the arguments that are no constants, as pairs with their names, and with what launches.
    """
    change_functions(stack)
    key, run, load = JITCallable.cache_key.fget, JITFunction.run, CompiledKernel._init_handles

    def run_with_arrays(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(self, *map(host_argument, args), **{name: host_argument(value) for name, value in kwargs.items()})

    def load_surrounded(self: Any) -> None:
        if self.module is None:
            load(self)
            self._run = _surrounded(self._run, self.src.signature, around)

    # Triton's cache would return the PTX of an equal kernel in another file, with the source places of that file.
    replace_attribute(stack, JITCallable, "cache_key", property(lambda self: f"{key(self)}-{self.fn.__code__.co_filename}"))
    replace_attribute(stack, JITFunction, "run", run_with_arrays)
    replace_attribute(stack, CompiledKernel, "_init_handles", load_surrounded)


def _surrounded(launch: Callable[..., None], signature: dict[str, Any], around: Callable[..., None]) -> Callable[..., None]:
    """Make a launch by Triton's launcher of a kernel happen in ``around``, between the hooks of the program."""

    def launched(x: int, y: int, z: int, stream: Any, kernel: Any, packed: Any, described: Any, enter: Any, exit: Any, *args: Any) -> None:
        if enter is not None:
            enter(described)
        passed = [(name, value) for (name, kind), value in zip(signature.items(), args, strict=False) if kind != "constexpr"]
        around(passed, partial(launch, x, y, z, stream, kernel, packed, described, None, None, *args))
        if exit is not None:
            exit(described)

    return launched


def queue(named: list[tuple[str, Any]], launch: Callable[[], None]) -> None:
    """Launch a kernel of a program; memory of the host that its arguments are in is the device's until the kernel has ended."""
    with call_of_program(arrays_among(named)):
        launch()


def _launch_in_session(named: list[tuple[str, Any]], launch: Callable[[], None]) -> None:
    """Launch a kernel in the current session, or let a graph that is captured do it at each replay."""
    launched = _in_session(named)(launch)
    if not capture_call(launched):
        launched()


@contextmanager
def _in_session(named: list[tuple[str, Any]]) -> Iterator[None]:
    """Launch in the current session; the allocators that the program has set give Triton aligned memory of the host meanwhile."""
    with call_in_session(named) as own, ExitStack() as stack:

        def aligned(allocate: Callable[..., Any], name: str, size: int, align: int, stream: Any) -> Any:
            owner = allocate(size, align, stream)
            if owner.data_ptr() % align:  # CPU memory may be less aligned than that of a device
                owner = allocate(size + align - 1, align, stream)
            stack.enter_context(registered_arguments(own, [(name, owner)]))
            at = owner.data_ptr() + -owner.data_ptr() % align
            return SimpleNamespace(owner=owner, data_ptr=lambda: at)

        for variable, name in ((_allocation._allocator, "global scratch"), (_allocation._profile_allocator, "profile scratch")):
            stack.callback(variable.set, variable.get())
            variable.set(partial(aligned, variable.get(), name))
        yield


def install(stack: ExitStack) -> None:
    """Run Triton's kernels in the current session until the stack is closed."""
    cuda.install()
    stack.enter_context(patch.dict(os.environ, settings()))
    stack.callback(get_ptxas_version.cache_clear)
    get_ptxas_version.cache_clear()  # what the program says there keeps PTX apart from machine code in Triton's cache
    if not _allocation.has_profile_allocator():
        _allocation.set_profile_allocator(lambda size, alignment, stream: HostArray.zeros(size))
        stack.callback(_allocation.set_profile_allocator, None)
    # Modules end with the process, as Triton's driver may be another one when a kernel ends.
    replace_attribute(FOR_GOOD, CompiledKernel, "__del__", lambda self: None)
    change(stack, _launch_in_session)


@contextmanager
def installed() -> Iterator[None]:
    """Run Triton's kernels in the current session for a ``with`` statement."""
    from ptxlab.interop.triton.driver import PtxlabDriver

    with ExitStack() as stack:
        replace_attribute(stack, triton.runtime.driver, "_active", PtxlabDriver(stack))
        yield
