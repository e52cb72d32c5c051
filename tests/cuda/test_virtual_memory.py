"""Virtual memory management, pools and memory of other processes, as a program and its kernels see them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path

import numpy as np

from ptxlab.interop.session import Session
from tests.cuda.driver_helpers import Driver, needs_compiler

pytestmark = needs_compiler
PIECE = 2 << 20


class Location(ctypes.Structure):
    _fields_ = (("type", c_int), ("id", c_int))


class Properties(ctypes.Structure):
    _fields_ = (("type", c_int), ("handles", c_int), ("location", Location), ("meta", c_void_p), ("flags", c_uint64))


class Access(ctypes.Structure):
    _fields_ = (("location", Location), ("flags", c_int))


DEVICE = Location(1, 0)


def physical(driver: Driver, size: int, handles: int = 0) -> c_uint64:
    handle = c_uint64()
    driver.call("cuMemCreate", byref(handle), c_size_t(size), byref(Properties(1, handles, DEVICE)), c_uint64(0))
    return handle


def reserve(driver: Driver, size: int) -> c_uint64:
    address = c_uint64()
    driver.call("cuMemAddressReserve", byref(address), c_size_t(size), c_size_t(0), c_uint64(0), c_uint64(0))
    return address


def mapped(driver: Driver, address: int, size: int, handle: c_uint64) -> c_uint64:
    driver.call("cuMemMap", c_uint64(address), c_size_t(size), c_size_t(0), handle, c_uint64(0))
    driver.call("cuMemSetAccess", c_uint64(address), c_size_t(size), byref(Access(DEVICE, 3)), c_size_t(1))
    return c_uint64(address)


def test_a_kernel_writes_one_mapping_and_reads_the_other(driver: Driver) -> None:
    base, handle = reserve(driver, 4 * PIECE).value, physical(driver, PIECE)
    first, second = mapped(driver, base, PIECE, handle), mapped(driver, base + 2 * PIECE, PIECE, handle)
    add_one = driver.function(driver.module(), "add_one")
    driver.call("cuMemsetD32_v2", first, 41, c_size_t(1))
    assert driver.launch(add_one, second) == 0
    assert driver.from_device(first, np.zeros(1, np.uint32)).tolist() == [42]
    driver.call("cuMemRelease", handle)
    assert driver.launch(add_one, first) == 0
    assert driver.from_device(second, np.zeros(1, np.uint32)).tolist() == [43]


def test_a_kernel_cannot_use_memory_that_is_unmapped(driver: Driver, found: Session) -> None:
    base, handle = reserve(driver, PIECE).value, physical(driver, PIECE)
    address = mapped(driver, base, PIECE, handle)
    driver.call("cuMemUnmap", address, c_size_t(PIECE))
    driver.launch(driver.function(driver.module(), "add_one"), address)
    assert driver.library.cuCtxSynchronize() == 700
    assert "M403" in {d.code for launch in found.launches for d in launch.result.diagnostics}


def test_a_descriptor_is_the_same_memory(driver: Driver) -> None:
    handle, imported, descriptor = physical(driver, PIECE, 1), c_uint64(), c_int()
    driver.call("cuMemExportToShareableHandle", byref(descriptor), handle, 1, c_uint64(0))
    driver.call("cuMemImportFromShareableHandle", byref(imported), c_void_p(descriptor.value), 1)
    os.close(descriptor.value)
    base = reserve(driver, 2 * PIECE).value
    first, second = mapped(driver, base, PIECE, handle), mapped(driver, base + PIECE, PIECE, imported)
    driver.call("cuMemsetD32_v2", first, 7, c_size_t(3))
    assert driver.from_device(second, np.zeros(3, np.uint32)).tolist() == [7, 7, 7]


def test_use_of_pool_memory_after_its_release_in_the_stream_is_found(driver: Driver, found: Session) -> None:
    stream, address = driver.stream(), c_uint64()
    add_one = driver.function(driver.module(), "add_one")
    driver.call("cuMemAllocAsync", byref(address), c_size_t(1000), stream)
    driver.call("cuMemsetD32Async", address, 1, c_size_t(250), stream)
    assert driver.launch(add_one, address, stream=stream) == 0
    driver.call("cuMemFreeAsync", address, stream)
    assert found.ok
    driver.launch(add_one, address, stream=stream)
    assert driver.library.cuStreamSynchronize(stream) == 700
    assert not found.ok


def test_pool_memory_in_order_is_right(driver: Driver, found: Session) -> None:
    stream, add_one = driver.stream(), driver.function(driver.module(), "add_one")
    results = []
    for start in range(5):
        address, host = c_uint64(), np.zeros(1, np.uint32)
        driver.call("cuMemAllocAsync", byref(address), c_size_t(4), stream)
        driver.call("cuMemsetD32Async", address, start, c_size_t(1), stream)
        assert driver.launch(add_one, address, stream=stream) == 0
        driver.call("cuMemcpyDtoHAsync_v2", c_void_p(host.ctypes.data), address, c_size_t(4), stream)
        driver.call("cuMemFreeAsync", address, stream)
        driver.call("cuStreamSynchronize", stream)
        results.append(int(host[0]))
    assert results == [1, 2, 3, 4, 5]
    assert found.ok


OTHER = """
import ctypes, sys
from ctypes import byref, c_size_t, c_uint64, c_void_p
from ptxlab import cuda

cuda.install()
library = ctypes.CDLL("libcuda.so.1")


class Handle(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_char * 64),)


handle = Handle.from_buffer_copy(bytes.fromhex(sys.argv[1]))
context, address, value = c_void_p(), c_uint64(), ctypes.c_uint32()
results = [library.cuInit(0), library.cuDevicePrimaryCtxRetain(byref(context), 0), library.cuCtxSetCurrent(context)]
results.append(library.cuIpcOpenMemHandle_v2(byref(address), handle, 1))
results.append(library.cuMemcpyDtoH_v2(byref(value), address, c_size_t(4)))
results.append(library.cuMemsetD32_v2(c_uint64(address.value + 4), 99, c_size_t(1)))
results.append(library.cuIpcCloseMemHandle(address))
results.append(library.cuIpcCloseMemHandle(address))
print(results, value.value)
"""


def test_another_process_reads_and_writes_memory_by_its_handle(driver: Driver, tmp_path: Path) -> None:
    address, handle = driver.allocate(64), ctypes.create_string_buffer(64)
    driver.call("cuMemsetD32_v2", address, 17, c_size_t(16))
    driver.call("cuIpcGetMemHandle", handle, address)
    script = tmp_path / "other.py"
    script.write_text(OTHER)
    command = [sys.executable, str(script), handle.raw.hex()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "[0, 0, 0, 0, 0, 0, 0, 1] 17"
    assert driver.from_device(address, np.zeros(3, np.uint32)).tolist() == [17, 99, 17]
    assert driver.launch(driver.function(driver.module(), "add_one"), address) == 0
    assert driver.from_device(address, np.zeros(1, np.uint32)).tolist() == [18]
