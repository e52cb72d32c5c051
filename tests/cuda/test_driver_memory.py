"""Memory of the driver: allocations, copies, fills, attributes of pointers, and what streams write and wait for."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p

import numpy as np

from tests.cuda.driver_helpers import Driver, number

INVALID_VALUE, NOT_FOUND, INVALID_HANDLE, NOT_READY = 1, 500, 400, 600


def test_memory(driver: Driver) -> None:
    before, after, total = c_size_t(), c_size_t(), c_size_t()
    driver.call("cuMemGetInfo_v2", byref(before), byref(total))
    address = driver.allocate(1000)
    driver.call("cuMemGetInfo_v2", byref(after), byref(total))
    assert address.value % 512 == 0
    assert 1000 <= before.value - after.value <= 2 << 20
    base, size = c_uint64(), c_size_t()
    driver.call("cuMemGetAddressRange_v2", byref(base), byref(size), c_uint64(address.value + 999))
    assert (base.value, size.value) == (address.value, 1000)
    assert driver.cuMemGetAddressRange_v2(byref(base), byref(size), c_uint64(address.value + 1000)) == NOT_FOUND
    assert driver.cuMemAlloc_v2(byref(address), c_size_t(0)) == INVALID_VALUE
    assert driver.cuMemAlloc_v2(byref(address), c_size_t(1 << 38)) == 2
    assert driver.allocate(3 << 20).value % (2 << 20) == 0


def test_memory_of_a_context_ends_with_it(driver: Driver) -> None:
    made, before, after, total = c_void_p(), c_size_t(), c_size_t(), c_size_t()
    driver.call("cuMemGetInfo_v2", byref(before), byref(total))
    driver.call("cuCtxCreate_v2", byref(made), 0, 0)
    driver.allocate(5 << 20)
    driver.call("cuCtxDestroy_v2", made)
    driver.call("cuMemGetInfo_v2", byref(after), byref(total))
    assert before.value == after.value


def test_copies_and_fills(driver: Driver) -> None:
    data = np.arange(64, dtype=np.uint32)
    first, second = driver.to_device(data), driver.allocate(data.nbytes)
    driver.call("cuMemcpyDtoD_v2", second, first, c_size_t(data.nbytes))
    assert np.array_equal(driver.from_device(second, data), data)
    driver.call("cuMemsetD32_v2", first, c_uint(0xABCD), c_size_t(3))
    driver.call("cuMemsetD16_v2", c_uint64(first.value + 12), ctypes.c_ushort(0x1234), c_size_t(2))
    driver.call("cuMemsetD8_v2", c_uint64(first.value + 16), ctypes.c_ubyte(0x7F), c_size_t(4))
    assert driver.from_device(first, data)[:6].tolist() == [0xABCD] * 3 + [0x12341234, 0x7F7F7F7F, 5]
    assert driver.cuMemsetD32_v2(c_uint64(first.value + 2), c_uint(0), c_size_t(1)) == INVALID_VALUE
    assert driver.cuMemsetD8_v2(first, ctypes.c_ubyte(0), c_size_t(257)) == INVALID_VALUE
    assert driver.cuMemcpyDtoD_v2(second, c_uint64(first.value + 4), c_size_t(256)) == INVALID_VALUE


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = [
        (side + name, kind)
        for side in ("src", "dst")
        for name, kind in (
            ("XInBytes", c_size_t),
            ("Y", c_size_t),
            ("MemoryType", c_uint),
            ("Host", c_void_p),
            ("Device", c_uint64),
            ("Array", c_void_p),
            ("Pitch", c_size_t),
        )
    ] + [("WidthInBytes", c_size_t), ("Height", c_size_t)]


def test_a_copy_of_a_rectangle(driver: Driver) -> None:
    data = np.arange(48, dtype=np.uint8).reshape(6, 8)
    address, pitch = c_uint64(), c_size_t()
    driver.call("cuMemAllocPitch_v2", byref(address), byref(pitch), c_size_t(8), c_size_t(6), 4)
    assert pitch.value % 512 == 0
    there = Copy2D(srcMemoryType=1, srcHost=data.ctypes.data, srcPitch=8, dstMemoryType=2, dstDevice=address.value, dstPitch=pitch.value)
    there.WidthInBytes, there.Height = 8, 6
    driver.call("cuMemcpy2D_v2", byref(there))
    made = np.zeros((3, 4), np.uint8)
    back = Copy2D(srcXInBytes=2, srcY=1, srcMemoryType=2, srcDevice=address.value, srcPitch=pitch.value)
    back.dstMemoryType, back.dstHost, back.dstPitch, back.WidthInBytes, back.Height = 1, made.ctypes.data, 4, 4, 3
    driver.call("cuMemcpy2D_v2", byref(back))
    assert np.array_equal(made, data[1:4, 2:6])
    back.srcMemoryType = 3
    assert driver.cuMemcpy2D_v2(byref(back)) == INVALID_HANDLE, "there is no such array"


def test_attributes_of_pointers(driver: Driver) -> None:
    address, memory, managed = driver.allocate(64), c_void_p(), c_uint64()
    driver.call("cuMemHostAlloc", byref(memory), c_size_t(64), 0)
    driver.call("cuMemAllocManaged", byref(managed), c_size_t(64), 1)
    kind, pointer = c_uint(), c_uint64()
    for where, expected in ((address.value, 2), (memory.value, 1), (managed.value, 2)):
        driver.call("cuPointerGetAttribute", byref(kind), 2, c_uint64(where + 5))
        driver.call("cuPointerGetAttribute", byref(pointer), 3, c_uint64(where + 5))
        assert (kind.value, pointer.value) == (expected, where + 5)
    own = np.zeros(64, np.uint8)
    assert driver.cuPointerGetAttribute(byref(pointer), 3, c_uint64(own.ctypes.data)) == INVALID_VALUE
    numbers, values = (c_int * 2)(2, 3), (c_void_p * 2)(ctypes.addressof(kind), ctypes.addressof(pointer))
    driver.call("cuPointerGetAttributes", 2, numbers, values, c_uint64(own.ctypes.data))
    assert (kind.value, pointer.value) == (0, 0)


def test_registered_memory_is_device_memory(driver: Driver) -> None:
    data = np.zeros(4, np.uint32)
    address = c_uint64()
    assert driver.cuMemHostGetDevicePointer_v2(byref(address), c_void_p(data.ctypes.data), 0) == INVALID_VALUE
    driver.call("cuMemHostRegister_v2", c_void_p(data.ctypes.data), c_size_t(16), 0)
    assert driver.cuMemHostRegister_v2(c_void_p(data.ctypes.data), c_size_t(16), 0) == 712
    driver.call("cuMemHostGetDevicePointer_v2", byref(address), c_void_p(data.ctypes.data), 0)
    assert driver.launch(driver.function(driver.module(), "add_one"), address) == 0
    driver.call("cuCtxSynchronize")
    assert data.tolist() == [1, 0, 0, 0]
    driver.call("cuMemHostUnregister", c_void_p(data.ctypes.data))
    assert driver.cuMemHostUnregister(c_void_p(data.ctypes.data)) == 713


def test_values_that_streams_write_and_wait_for(driver: Driver) -> None:
    at, stream = driver.to_device(np.zeros(2, np.uint32)), driver.stream()
    driver.call("cuStreamWaitValue32_v2", stream, at, number(5), 0)
    second = c_uint64(at.value + 4)
    driver.call("cuStreamWriteValue32_v2", stream, second, number(1), 0)
    assert driver.cuStreamQuery(stream) == NOT_READY
    other = driver.stream()
    driver.call("cuStreamWriteValue32_v2", other, at, number(6), 0)
    driver.call("cuStreamSynchronize", stream)
    assert driver.from_device(at, np.zeros(2, np.uint32)).tolist() == [6, 1]
    assert driver.cuStreamWaitValue32_v2(stream, c_uint64(at.value + 1), c_uint32(0), 0) == INVALID_VALUE


class MemoryOperation(ctypes.Structure):
    """``CUstreamBatchMemOpParams``."""

    _fields_ = [("kind", c_uint32), ("at", c_uint64), ("value", c_uint64), ("flags", c_uint32), ("alias", c_uint64), ("pad", c_uint64)]


def test_memory_operations_of_a_batch_are_performed_in_order(driver: Driver) -> None:
    wait, write, flush, wait_64, write_64, barrier = range(1, 7)
    at, stream = driver.to_device(np.zeros(4, np.uint64)), driver.stream()
    first, second, third = (at.value + 8 * i for i in range(3))

    def batch(*rows: tuple[int, int, int]) -> int:
        operations = (MemoryOperation * len(rows))(*((kind, address, value) for kind, address, value in rows))
        return driver.cuStreamBatchMemOp_v2(stream, len(rows), operations, 0)

    assert ctypes.sizeof(MemoryOperation) == 48
    assert batch((write, first, 3), (9, 0, 0)) == INVALID_VALUE
    assert batch((write, first, 3), (write, second + 2, 0)) == INVALID_VALUE
    assert driver.from_device(at, np.zeros(4, np.uint64)).tolist() == [0, 0, 0, 0]
    assert (
        batch((write, second, 7), (wait, first, 5), (barrier, 0, 0), (wait_64, second, 7), (flush, 0, 0), (write_64, third, 1 << 40)) == 0
    )
    assert driver.cuStreamQuery(stream) == NOT_READY
    driver.call("cuStreamWriteValue64_v2", driver.stream(), c_uint64(first), c_uint64(5), 0)
    driver.call("cuStreamSynchronize", stream)
    assert driver.from_device(at, np.zeros(4, np.uint64)).tolist() == [5, 7, 1 << 40, 0]
