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
    memory = [found for name, value in named if (found := _host_memory(driver, name, described_tensor(value))) is not None]
    session = current()
    with session.with_arrays(placed(named)), registered(driver, merged(memory)):
        launch()
        if session.arrays:
            driver.synchronize()


def _host_memory(driver: cuda.Driver, name: str, value: Any) -> HostMemory | None:
    """The host memory of an argument; that of a tensor on the device is called by the name of the argument instead."""
    if isinstance(value, HostArray):
        return memory_of(value, name)
    if not hasattr(value, "untyped_storage"):
        return None
    if value.device.type != "cuda":
        return memory_of(value, name)
    driver.bridge.memory.update()
    allocation = driver.bridge.memory.containing(value.data_ptr())
    if allocation is not None and allocation.base == value.untyped_storage().data_ptr():
        found = named_tensor(value, name)
        allocation.name, allocation.arrays = found.name, found.arrays
    return None
