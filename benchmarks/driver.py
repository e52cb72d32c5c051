"""What calls of the virtual driver cost: ``python -m benchmarks.driver``; the exit status is 1 if a limit is exceeded.

Times are the fastest of several rounds, less the cost of a foreign call of ctypes that does nothing. Beside them stands the time of
the processor, of all threads, which other programs of a loaded computer hardly change.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ptxlab import cuda

ROUNDS, CALLS, LAUNCHES = 9, 2000, 100
CALL_LIMIT, LAUNCH_LIMIT = 2.0, 150.0
"""Microseconds."""
EMPTY = b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry empty() { ret; }"


def microseconds(call: Callable[[], object], number: int) -> NDArray[np.float64]:
    """The time of one call in the fastest round: by the clock, and of the processor."""
    rounds = []
    for _ in range(ROUNDS):
        started = time.perf_counter(), time.process_time()
        for _ in range(number):
            call()
        rounds.append(np.subtract((time.perf_counter(), time.process_time()), started))
    return np.min(rounds, axis=0) / number * 1e6


def main() -> int:
    """Measure, and print a table."""
    cuda.install()
    cu = ctypes.CDLL("libcuda.so.1")
    context, module, function, event, stream = (c_void_p() for _ in range(5))
    at, number, page, pinned = c_uint64(), c_int(), (ctypes.c_char * 4096)(), c_void_p()
    setup = [
        cu.cuInit(0),
        cu.cuDevicePrimaryCtxRetain(byref(context), 0),
        cu.cuCtxSetCurrent(context),
        cu.cuModuleLoadData(byref(module), EMPTY),
        cu.cuModuleGetFunction(byref(function), module, b"empty"),
        cu.cuEventCreate(byref(event), 0),
        cu.cuStreamCreate(byref(stream), 1),
        cu.cuMemAlloc_v2(byref(at), c_size_t(4096)),
        cu.cuMemAllocHost_v2(byref(pinned), c_size_t(4096)),
    ]
    assert not any(setup), setup
    size, source = c_size_t(4096), c_void_p(ctypes.addressof(page))
    calls: dict[str, Callable[[], int]] = {
        "cuCtxGetCurrent": lambda: cu.cuCtxGetCurrent(byref(context)),
        "cuDeviceGetAttribute": lambda: cu.cuDeviceGetAttribute(byref(number), 16, 0),
        "cuFuncGetAttribute": lambda: cu.cuFuncGetAttribute(byref(number), 0, function),
        "cuPointerGetAttribute": lambda: cu.cuPointerGetAttribute(byref(number), 2, at),
        "cuStreamQuery": lambda: cu.cuStreamQuery(stream),
        "cuStreamSynchronize": lambda: cu.cuStreamSynchronize(stream),
        "cuEventRecord": lambda: cu.cuEventRecord(event, stream),
        "cuMemsetD8Async, 4 KiB": lambda: cu.cuMemsetD8Async(at, ctypes.c_ubyte(0), size, stream),
        "cuMemcpyHtoDAsync, 4 KiB, pinned": lambda: cu.cuMemcpyHtoDAsync_v2(at, pinned, size, stream),
        "cuMemcpyHtoDAsync, 4 KiB": lambda: cu.cuMemcpyHtoDAsync_v2(at, source, size, stream),
    }
    empty = microseconds(lambda: cu.cuProfilerStart(), CALLS)
    rows = [(name, microseconds(call, CALLS) - empty, CALL_LIMIT) for name, call in calls.items()]

    def launch() -> None:
        cu.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, None, None)
        cu.cuStreamSynchronize(stream)

    rows.append(("empty kernel, launched and waited for", microseconds(launch, LAUNCHES), LAUNCH_LIMIT))
    table = Table("call", "us", "us of the processor", "limit")
    for name, found, limit in rows:
        table.add_row(name, *(f"{each:.2f}" for each in found), f"{limit:.0f}", style="red" if found[0] > limit else "")
    Console().print(table)
    return int(any(found[0] > limit for _, found, limit in rows))


if __name__ == "__main__":
    sys.exit(main())
