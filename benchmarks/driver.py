"""What calls of the virtual driver cost: ``python -m benchmarks.driver``; the exit status is 1 if a limit is exceeded.

Times are the fastest of several rounds, less the cost of a foreign call of ctypes that has the same arguments and does nothing. Beside
them stands the time of the processor, of all threads, which other programs of a loaded computer hardly change. The second table is of a
process that has the library and not the simulator, as a native program under ``ptxlab exec``: most calls need no other process, tensor
maps and launches ask the server. There the time of the processor is that of the program alone, without the server.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ptxlab import cuda
from ptxlab.cuda.building import DRIVER, build
from ptxlab.cuda.remote import VARIABLE, Server
from ptxlab.interop.session import Session, Settings

ROUNDS, CALLS, LAUNCHES = 9, 2000, 100
CALL_LIMIT, REMOTE_LIMIT, LAUNCH_LIMIT = 2.0, 40.0, 150.0
"""Microseconds: of a call in the process, of a call in another process, and of an empty launch."""
Row = tuple[str, float, float, float]
"""The name, the microseconds by the clock and of the processor, and the limit."""
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


def rows_of(cu: ctypes.CDLL, limit: float) -> list[Row]:
    """Measure the driver of this process; a call may take ``limit`` microseconds."""
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
    room = (ctypes.c_uint8 * 256)()
    map_at, sizes, pitch, box = -(-ctypes.addressof(room) // 64) * 64, (c_uint64 * 2)(32, 32), (c_uint64 * 1)(128), (c_uint32 * 2)(32, 32)
    steps, float32 = (c_uint32 * 2)(1, 1), 7
    arguments: dict[str, tuple[Any, ...]] = {
        "cuCtxGetCurrent": (byref(context),),
        "cuDeviceGetAttribute": (byref(number), 16, 0),
        "cuFuncGetAttribute": (byref(number), 0, function),
        "cuPointerGetAttribute": (byref(number), 2, at),
        "cuStreamQuery": (stream,),
        "cuStreamSynchronize": (stream,),
        "cuEventRecord": (event, stream),
        "cuMemsetD8Async, 4 KiB": (at, ctypes.c_ubyte(0), size, stream),
        "cuMemcpyHtoDAsync_v2, 4 KiB, pinned": (at, pinned, size, stream),
        "cuMemcpyHtoDAsync_v2, 4 KiB": (at, source, size, stream),
        "cuTensorMapEncodeTiled": (c_void_p(map_at), float32, 2, at, sizes, pitch, box, steps, 0, 0, 0, 0),
    }
    measured, nothing = [], cu.cuProfilerStart
    for name, given in arguments.items():
        call = getattr(cu, name.split(",")[0])
        assert not call(*given), name
        seconds = microseconds(lambda call=call, given=given: call(*given), CALLS)
        seconds -= microseconds(lambda given=given: nothing(*given), CALLS)
        measured.append((name, seconds, limit))

    def launch() -> None:
        cu.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, None, None)
        cu.cuStreamSynchronize(stream)

    measured.append(("empty kernel, launched and waited for", microseconds(launch, LAUNCHES), LAUNCH_LIMIT))
    return [(name, float(found[0]), float(found[1]), limit) for name, found, limit in measured]


def rows_of_another_process() -> list[Row]:
    """Measure in a process whose driver asks a server in this one."""
    session = Session(Settings(target="sm_90a"), report=lambda _: None)
    with Server(lambda: session) as server:
        command = [sys.executable, "-m", "benchmarks.driver", str(build(DRIVER))]
        done = subprocess.run(command, env=os.environ | {VARIABLE: server.name}, stdout=subprocess.PIPE, text=True, check=True)
        server.finish()
    return [(name, clock, processor, limit) for name, clock, processor, limit in json.loads(done.stdout)]


def main() -> int:
    """Measure, and print a table for each kind of process."""
    if len(sys.argv) > 1:
        print(json.dumps(rows_of(ctypes.CDLL(sys.argv[1]), REMOTE_LIMIT)))
        return 0
    exceeded = False
    cuda.install()
    for title, rows in (
        ("in the process", rows_of(ctypes.CDLL("libcuda.so.1"), CALL_LIMIT)),
        ("in another process", rows_of_another_process()),
    ):
        table = Table("call", "us", "us of the processor", "limit", title=title)
        for name, clock, processor, limit in rows:
            table.add_row(name, f"{clock:.2f}", f"{processor:.2f}", f"{limit:.0f}", style="red" if clock > limit else "")
            exceeded |= clock > limit
        Console().print(table)
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
