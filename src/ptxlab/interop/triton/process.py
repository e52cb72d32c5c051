"""Programs that import Triton: its own NVIDIA back end calls the driver of the process, and hands it PTX.

This holds for Triton from 3.5 on. What changes in Triton are benchmarks and autotuning, because times mean nothing here, and that arguments
may be arrays of the host.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from ptxlab import cuda
from ptxlab.cuda.building import DRIVER, build
from ptxlab.interop._host_memory import HostArray, HostMemory, described_tensor, memory_of, merged, named_tensor, placed, registered
from ptxlab.interop.optional_packages import after_import, before_import
from ptxlab.interop.session import current, replace_attribute
from ptxlab.interop.triton._arrays import source_file, with_arrays
from ptxlab.interop.triton.ptxas import library_settings, settings

__all__ = ["install_on_import"]

_for_good = ExitStack()


def install_on_import() -> None:
    """Prepare the process for a program that may import Triton, to the program's end.

    The import raises `BuildError` if there is no compiler for the driver.
    """
    before_import("triton", _set_up)


def _set_up() -> None:
    driver = cuda.install()
    os.environ.update(settings() | library_settings(build(DRIVER)))
    after_import("triton", partial(_change, driver))


def _change(driver: cuda.Driver) -> None:
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.runtime.jit import JITFunction

    from ptxlab.interop.triton._benchmark import change_measurements

    change_measurements(_for_good)
    digest = CUDABackend.hash
    replace_attribute(_for_good, CUDABackend, "hash", lambda self: f"{digest(self)}-{source_file.get()}")
    replace_attribute(_for_good, JITFunction, "run", with_arrays(_with_memory(driver, JITFunction.run)))


def _with_memory(driver: cuda.Driver, run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a kernel launch: arguments may be in host memory."""

    def run_with_memory(self: Any, *args: Any, **kwargs: Any) -> Any:
        arguments = list(_leaves([*zip(self.arg_names, args, strict=False), *kwargs.items()]))
        on_device, memory = _split(arguments)
        _name(driver, on_device)
        with registered(driver, merged(memory)), _known_arrays(driver, arguments):
            return run(self, *args, **kwargs)

    return run_with_memory


def _leaves(values: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Arguments by name, those in tuples one by one; a descriptor stands for the tensor that it describes."""
    for name, value in values:
        if isinstance(value, tuple):
            yield from _leaves((f"{name}[{i}]", item) for i, item in enumerate(value))
        else:
            yield name, described_tensor(value)


def _split(arguments: Iterable[tuple[str, Any]]) -> tuple[list[tuple[str, Any]], list[HostMemory]]:
    """The tensors on the device, and the host memory of the other arguments."""
    on_device, memory = [], []
    for name, value in arguments:
        is_tensor = hasattr(value, "untyped_storage")
        if is_tensor and value.device.type == "cuda":
            on_device.append((name, value))
        elif is_tensor or isinstance(value, HostArray):
            found = memory_of(value, name)
            if found is not None:
                memory.append(found)
    return on_device, memory


def _name(driver: cuda.Driver, tensors: list[tuple[str, Any]]) -> None:
    """Call the memory of tensors by the names of the arguments."""
    known = driver.bridge.memory
    if tensors:
        known.update()
    for name, tensor in tensors:
        allocation = known.containing(tensor.data_ptr())
        if allocation is not None and allocation.base == tensor.untyped_storage().data_ptr():
            found = named_tensor(tensor, name)
            allocation.name, allocation.arrays = found.name, found.arrays


@contextmanager
def _known_arrays(driver: cuda.Driver, arguments: list[tuple[str, Any]]) -> Iterator[None]:
    """Tell the session which arrays a launch has, if it keeps inputs."""
    session = current()
    if not session.keeps_inputs:
        yield
        return
    session.arrays = placed(arguments)
    try:
        yield
        driver.synchronize()
    finally:
        session.arrays = ()
