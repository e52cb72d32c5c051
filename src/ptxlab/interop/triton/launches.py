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
from triton._utils import find_paths_if, get_iterable_path
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import CompiledKernel
from triton.runtime import _allocation
from triton.runtime.jit import JITCallable, JITFunction

from ptxlab import cuda
from ptxlab.interop._host_memory import HostArray, call_in_session, described_tensor, host_argument, placed, registered_arguments
from ptxlab.interop._triton_functions import change_functions
from ptxlab.interop.session import FOR_GOOD, current, replace_attribute
from ptxlab.interop.torch import capture_call
from ptxlab.interop.triton.process import settings

__all__ = ["change", "install", "installed", "queue"]

Around = Callable[[list[tuple[str, Any]], Callable[[], None]], None]
"""Called with the arguments of a launch that are no constants, by their names, and with what launches."""


def change(stack: ExitStack, around: Around) -> None:
    """Change Triton until the stack is closed; launches of the kernels that are loaded until then happen in ``around``."""
    change_functions(stack)
    digest, key, run, load = CUDABackend.hash, JITCallable.cache_key.fget, JITFunction.run, CompiledKernel._init_handles
    replace_attribute(stack, CUDABackend, "hash", lambda self: f"ptxlab-{digest(self)}")
    # Triton's cache would return the PTX of an equal kernel in another file, with the source places of that file.
    replace_attribute(stack, JITCallable, "cache_key", property(lambda self: f"{key(self)}-{self.fn.__code__.co_filename}"))

    def run_with_arrays(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(self, *map(host_argument, args), **{name: host_argument(value) for name, value in kwargs.items()})

    def load_surrounded(self: Any) -> None:
        if self.module is None:
            load(self)
            self._run = _surrounded(self._run, self.src.signature, around)

    replace_attribute(stack, JITFunction, "run", run_with_arrays)
    replace_attribute(stack, CompiledKernel, "_init_handles", load_surrounded)


def _surrounded(launch: Callable[..., None], signature: dict[str, Any], around: Around) -> Callable[..., None]:
    """Make a launch by Triton's launcher of a kernel happen in ``around``, between the hooks of the program."""
    names, kinds = list(signature), list(signature.values())
    paths = find_paths_if(kinds, lambda _, kind: kind != "constexpr")
    named = {path: names[path[0]] + "".join(f"[{index}]" for index in path[1:]) for path in paths}

    def launched(x: int, y: int, z: int, stream: Any, kernel: Any, packed: Any, described: Any, enter: Any, exit: Any, *args: Any) -> None:
        if enter is not None:
            enter(described)
        passed = [(name, get_iterable_path(args, path)) for path, name in named.items() if path[0] < len(args)]
        around(passed, partial(launch, x, y, z, stream, kernel, packed, described, None, None, *args))
        if exit is not None:
            exit(described)

    return launched


def queue(named: list[tuple[str, Any]], launch: Callable[[], None]) -> None:
    """Launch a kernel of a program; memory of the host that the arguments are in is the device's until the kernel has ended."""
    session, driver = current(), cuda.install()
    arrays = [each for each in named if isinstance(each[1], HostArray) or hasattr(described_tensor(each[1]), "untyped_storage")]
    with session.with_arrays(placed(named)), registered_arguments(driver, arrays):
        launch()
        if session.arrays:
            driver.synchronize()


def _launch_in_session(named: list[tuple[str, Any]], launch: Callable[[], None]) -> None:
    """Launch a kernel in the current session, or let a graph that is captured do it at each replay."""

    def launched() -> None:
        with call_in_session(named) as own, _scratch(own):
            launch()

    if not capture_call(launched):
        launched()


@contextmanager
def _scratch(own: cuda.Driver) -> Iterator[None]:
    """Give Triton aligned memory of the host from the allocators that the program has set, for the time of a launch."""
    with ExitStack() as stack:

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


_installed: list[bool] = []
"""Not empty while Triton's kernels run in the current session."""


def install(stack: ExitStack = FOR_GOOD) -> None:
    """Run Triton's kernels in the current session until the stack is closed; further calls do nothing."""
    if _installed:
        return
    _installed.append(True)
    stack.callback(_installed.clear)
    cuda.install()
    stack.enter_context(patch.dict(os.environ, settings()))
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
        install(stack)
        replace_attribute(stack, triton.runtime.driver, "_active", PtxlabDriver())
        yield
