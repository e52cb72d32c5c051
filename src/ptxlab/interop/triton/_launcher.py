"""Triton's launcher for kernels whose arguments are in the memory of the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from triton.backends.nvidia.driver import CudaLauncher
from triton.runtime import _allocation, driver

from ptxlab import cuda
from ptxlab.cuda.calls import host_call
from ptxlab.interop._host_memory import memory_of, placed, reached_memory, registered
from ptxlab.interop.session import current
from ptxlab.interop.torch import capture_call
from ptxlab.machine import Result

__all__ = ["Launcher"]


@dataclass(frozen=True, slots=True)
class Scratch:
    """Memory from an allocator, and how far into it the aligned part starts."""

    base: Any
    skip: int

    def data_ptr(self) -> int:
        return int(self.base.data_ptr()) + self.skip


class Launcher(CudaLauncher):  # type: ignore[misc]
    """Launches one compiled kernel; Triton makes it from the source and the compiler's metadata."""

    def __init__(self, src: Any, metadata: Any) -> None:
        super().__init__(src, metadata)
        self._names, self._types = list(src.signature), list(src.signature.values())

    def __call__(
        self, x: int, y: int, z: int, stream: Any, kernel: Any, packed: Any, described: Any, enter: Any, exit: Any, *args: Any
    ) -> None:
        if enter is not None:
            enter(described)
        launch = partial(self._launch, x, y, z, stream, kernel, packed, described, args)
        if x * y * z > 0 and not capture_call(launch):
            launch()
        if exit is not None:
            exit(described)

    def _launch(self, x: int, y: int, z: int, stream: Any, kernel: Any, packed: Any, described: Any, args: tuple[Any, ...]) -> None:
        session, own = current(), cuda.install()
        named = list(_leaves(self._names, self._types, args))
        arrays = placed(named) if session.keeps_inputs else ()

        def launch(kernel: Any, site: Any, **shape: Any) -> Result:
            return session.launch(kernel, site, arrays, **shape)

        with host_call(own, session.device, launch), registered(own, reached_memory(named)), _scratch(own):
            super().__call__(x, y, z, stream, kernel, packed, described, None, None, *args)


@contextmanager
def _scratch(own: cuda.Driver) -> Iterator[None]:
    """Give Triton aligned memory of the host from the allocators that the program has set, for the time of a launch."""
    usual, profile = _allocation._allocator.get(), _allocation._profile_allocator.get()
    default = profile if _allocation.has_profile_allocator() else driver.active.allocate_default_profile_scratch
    with ExitStack() as stack:

        def aligned(allocate: Callable[..., Any], name: str, size: int, align: int, stream: Any) -> Scratch:
            owner = allocate(size, align, stream)
            if owner.data_ptr() % align:  # CPU memory may be less aligned than that of a device
                owner = allocate(size + align - 1, align, stream)
            memory = memory_of(owner, name)
            stack.enter_context(registered(own, [] if memory is None else [memory]))
            return Scratch(owner, -owner.data_ptr() % align)

        stack.callback(_allocation._allocator.set, usual)
        stack.callback(_allocation._profile_allocator.set, profile)
        _allocation._allocator.set(partial(aligned, usual, "global scratch"))
        _allocation._profile_allocator.set(partial(aligned, default, "profile scratch"))
        yield


def _leaves(names: Iterable[str], types: Iterable[Any], values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Name and value of every argument that is no constant; tuples are flattened."""
    for name, kind, value in zip(names, types, values, strict=False):
        if isinstance(kind, tuple):
            yield from _leaves((f"{name}[{i}]" for i in range(len(kind))), kind, value)
        elif kind != "constexpr":
            yield name, value
