"""Programs that import Triton: its own NVIDIA back end, from 3.5 on, calls the driver of the process, and hands it PTX."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from ptxlab import cuda
from ptxlab.interop._host_memory import HostArray, HostMemory, described_tensor, memory_of, merged, named_tensor, placed, registered
from ptxlab.interop.optional_packages import after_import
from ptxlab.interop.session import FOR_GOOD, current
from ptxlab.interop.triton.ptxas import process_settings

__all__ = ["prepare"]


@cache
def prepare() -> None:
    """Install the driver, and set the variables of Triton, which a program is about to import."""
    driver = cuda.install()
    os.environ.update(process_settings())
    after_import("triton", partial(_change, driver))


def _change(driver: cuda.Driver) -> None:
    from ptxlab.interop.triton._launches import change

    change(FOR_GOOD, partial(_queue, driver))


def _queue(driver: cuda.Driver, named: list[tuple[str, Any]], launch: Callable[[], None]) -> None:
    """Launch a kernel; memory of the host that the arguments are in is the device's until the kernel has ended."""
    on_device, memory = _split(named)
    _name(driver, on_device)
    session = current()
    with session.with_arrays(placed(named)), registered(driver, merged(memory)):
        launch()
        if session.arrays:
            driver.synchronize()


def _split(named: list[tuple[str, Any]]) -> tuple[list[tuple[str, Any]], list[HostMemory]]:
    """The tensors on the device, and the host memory of the other arguments."""
    on_device, memory = [], []
    for name, value in ((name, described_tensor(value)) for name, value in named):
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
