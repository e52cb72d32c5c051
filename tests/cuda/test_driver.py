"""The driver's functions, one area after another."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_ulonglong, c_void_p, create_string_buffer

import numpy as np
import pytest

from ptxlab.interop.session import Session
from tests.cuda.driver_helpers import KERNELS, Driver, number

INVALID_VALUE, NOT_FOUND, INVALID_HANDLE, INVALID_CONTEXT, NOT_READY, NOT_SUPPORTED = 1, 500, 400, 201, 600, 801


# ------------------------------------------------------------------------------------------------------------ look-up


def _address(driver: Driver, name: str, version: int, flags: int = 0) -> tuple[int, int | None, int]:
    function, status = c_void_p(), c_int()
    result = driver.cuGetProcAddress_v2(name.encode(), byref(function), version, c_uint64(flags), byref(status))
    return result, function.value, status.value


@pytest.mark.parametrize(
    ("name", "version", "symbol"),
    [
        ("cuMemAlloc", 3020, "cuMemAlloc_v2"),
        ("cuMemAlloc", 13000, "cuMemAlloc_v2"),
        ("cuDevicePrimaryCtxRelease", 7000, "cuDevicePrimaryCtxRelease_v2"),
        ("cuCtxGetDevice", 2000, "cuCtxGetDevice"),
        ("cuCtxGetDevice", 13000, "cuCtxGetDevice_v2"),
        ("cuCtxSynchronize", 12080, "cuCtxSynchronize"),
        ("cuCtxSynchronize", 13000, "cuCtxSynchronize_v2"),
        ("cuCtxCreate", 3020, "cuCtxCreate_v2"),
        ("cuCtxCreate", 13000, "cuCtxCreate_v4"),
        ("cuEventElapsedTime", 12000, "cuEventElapsedTime"),
        ("cuEventElapsedTime", 12080, "cuEventElapsedTime_v2"),
    ],
)
def test_the_newest_form_of_the_asked_version(driver: Driver, name: str, version: int, symbol: str) -> None:
    wanted = ctypes.cast(getattr(driver.library, symbol), c_void_p).value
    assert _address(driver, name, version) == (0, wanted, 0)


def test_the_default_stream_of_the_thread_is_chosen_by_a_flag(driver: Driver) -> None:
    for name, symbol in (("cuLaunchKernel", "cuLaunchKernel_ptsz"), ("cuMemcpyHtoD", "cuMemcpyHtoD_v2_ptds")):
        wanted = ctypes.cast(getattr(driver.library, symbol), c_void_p).value
        assert _address(driver, name, 13000, 2) == (0, wanted, 0)


def test_functions_that_are_not_there(driver: Driver) -> None:
    assert _address(driver, "cuNothing", 13000) == (NOT_FOUND, None, 1)
    assert _address(driver, "cuMemAlloc", 3000) == (NOT_FOUND, None, 2)
    assert _address(driver, "cuTexRefCreate", 13000) == (NOT_FOUND, None, 1)
    table, identifier = c_void_p(1), (ctypes.c_ubyte * 16)()
    assert driver.cuGetExportTable(byref(table), identifier) == NOT_FOUND
    assert table.value is None


def test_an_exported_function_that_is_not_there_is_reported(driver: Driver, found: Session) -> None:
    assert driver.cuMipmappedArrayCreate(None, None) == NOT_SUPPORTED
    (diagnostic,) = found.diagnostics
    assert diagnostic.code == "I503"
    assert diagnostic.message == "the program calls cuMipmappedArrayCreate, which the virtual driver does not have"
    assert diagnostic.details[0][1].startswith(__file__)


def test_names_of_results(driver: Driver) -> None:
    name, text = c_char_p(), c_char_p()
    driver.call("cuGetErrorName", 719, byref(name))
    driver.call("cuGetErrorString", 719, byref(text))
    assert (name.value, text.value) == (b"CUDA_ERROR_LAUNCH_FAILED", b"unspecified launch failure")
    assert driver.cuGetErrorName(123456, byref(name)) == INVALID_VALUE
    assert name.value is None


# ------------------------------------------------------------------------------------------------- devices, contexts


def test_devices(driver: Driver) -> None:
    count, value = c_int(), c_int()
    driver.call("cuDeviceGetCount", byref(count))
    assert count.value == 1
    for attribute, expected in {75: 9, 76: 0, 16: 132, 10: 32, 1: 1024, 97: 232448}.items():
        driver.call("cuDeviceGetAttribute", byref(value), attribute, 0)
        assert value.value == expected
    name = create_string_buffer(64)
    driver.call("cuDeviceGetName", name, 64, 0)
    assert name.value == b"NVIDIA H200"
    total = c_size_t()
    driver.call("cuDeviceTotalMem_v2", byref(total), 0)
    assert total.value == 150109880320
    assert driver.cuDeviceGet(byref(value), 1) == 101
    assert driver.cuDeviceGetAttribute(byref(value), 0, 0) == INVALID_VALUE


def test_the_identifier_of_the_bus_leads_back_to_the_device(driver: Driver) -> None:
    text, device = create_string_buffer(32), c_int(-1)
    driver.call("cuDeviceGetPCIBusId", text, 32, 0)
    driver.call("cuDeviceGetByPCIBusId", byref(device), text)
    assert device.value == 0
    assert driver.cuDeviceGetPCIBusId(text, 5, 0) == INVALID_VALUE


def test_contexts_are_a_stack(driver: Driver) -> None:
    primary, made, current = c_void_p(), c_void_p(), c_void_p()
    driver.call("cuCtxGetCurrent", byref(primary))
    driver.call("cuCtxCreate_v2", byref(made), 0, 0)
    driver.call("cuCtxGetCurrent", byref(current))
    assert current.value == made.value != primary.value
    driver.call("cuCtxPopCurrent_v2", byref(current))
    assert current.value == made.value
    driver.call("cuCtxPushCurrent_v2", made)
    driver.call("cuCtxDestroy_v2", made)
    driver.call("cuCtxGetCurrent", byref(current))
    assert current.value == primary.value
    assert driver.cuCtxSetCurrent(made) == INVALID_CONTEXT
    assert driver.cuCtxDestroy_v2(primary) == INVALID_CONTEXT


def test_limits(driver: Driver) -> None:
    value = c_size_t()
    for limit, expected in {0: 1024, 1: 8650752, 2: 8388608, 4: 2048, 5: 64, 6: 11796480, 7: 232448, 8: 0}.items():
        driver.call("cuCtxGetLimit", byref(value), limit)
        assert value.value == expected
    assert driver.cuCtxGetLimit(byref(value), 3) == 215
    driver.call("cuCtxSetLimit", 1, c_size_t(1 << 20))
    driver.call("cuCtxGetLimit", byref(value), 1)
    assert value.value == 1 << 20


# -------------------------------------------------------------------------------------------------------------- memory


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


# -------------------------------------------------------------------------------------------------- modules, launches


def test_a_vector_addition(driver: Driver, found: Session) -> None:
    a = np.arange(1000, dtype=np.float32)
    places = [driver.to_device(x) for x in (a, 2 * a, np.zeros_like(a))]
    function = driver.function(driver.module(), "vector_add")
    assert driver.launch(function, *places, number(1000), grid=8, block=128) == 0
    assert np.array_equal(driver.from_device(places[2], a), 3 * a)
    assert not found.diagnostics
    (launch,) = found.launches
    assert (launch.kernel, launch.grid) == ("vector_add", (8, 1, 1))
    assert launch.site is not None
    assert launch.site.file.endswith("driver_helpers.py")


def test_parameters_in_one_buffer(driver: Driver) -> None:
    at = driver.to_device(np.array([41], np.uint32))
    buffer, size = c_uint64(at.value), c_size_t(8)
    extra = (c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
    function = driver.function(driver.module(), "add_one")
    driver.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, extra)
    assert driver.from_device(at, np.zeros(1, np.uint32)).tolist() == [42]
    size.value = 4
    assert driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, extra) == INVALID_VALUE


def test_attributes_of_functions(driver: Driver) -> None:
    module = driver.module()
    function = driver.function(module, "vector_add")
    value = c_int()
    for attribute, expected in {0: 1024, 1: 0, 3: 0, 6: 90, 8: 49152, 14: 0}.items():
        driver.call("cuFuncGetAttribute", byref(value), attribute, function)
        assert value.value == expected
    assert driver.launch(function, *[c_uint64()] * 3, number(0), shared=50000) == INVALID_VALUE
    driver.call("cuFuncSetAttribute", function, 8, 50000)
    assert driver.launch(function, *[c_uint64()] * 3, number(0), shared=50000) == 0
    assert driver.cuFuncSetAttribute(function, 8, 232449) == INVALID_VALUE
    offset, size = c_size_t(), c_size_t()
    driver.call("cuFuncGetParamInfo", function, c_size_t(3), byref(offset), byref(size))
    assert (offset.value, size.value) == (24, 4)
    assert driver.cuFuncGetParamInfo(function, c_size_t(4), byref(offset), byref(size)) == INVALID_VALUE


def test_variables_of_modules(driver: Driver) -> None:
    module, address, size = driver.module(), c_uint64(), c_size_t()
    driver.call("cuModuleGetGlobal_v2", byref(address), byref(size), module, b"counter")
    one = np.zeros(1, np.uint32)
    assert size.value == 4
    assert driver.from_device(address, one).tolist() == [7]
    driver.call("cuMemcpyHtoD_v2", address, c_void_p(np.array([9], np.uint32).ctypes.data), c_size_t(4))
    to = driver.to_device(one)
    assert driver.launch(driver.function(module, "read_counter"), to) == 0
    assert driver.from_device(to, one).tolist() == [9]
    assert driver.cuModuleGetGlobal_v2(byref(address), byref(size), module, b"nothing") == NOT_FOUND


def test_libraries_and_kernels(driver: Driver) -> None:
    library, kernel, count, name = c_void_p(), c_void_p(), c_uint(), c_char_p()
    driver.call("cuLibraryLoadData", byref(library), KERNELS.encode(), None, None, 0, None, None, 0)
    driver.call("cuLibraryGetKernelCount", byref(count), library)
    assert count.value == 6
    driver.call("cuLibraryGetKernel", byref(kernel), library, b"add_one")
    driver.call("cuKernelGetName", byref(name), kernel)
    assert name.value == b"add_one"
    at = driver.to_device(np.zeros(1, np.uint32))
    assert driver.launch(kernel, at) == 0
    assert driver.cuLibraryGetKernel(byref(kernel), library, b"nothing") == NOT_FOUND
    driver.call("cuLibraryUnload", library)
    assert driver.cuLibraryUnload(library) == INVALID_HANDLE
    assert driver.launch(kernel, at) == INVALID_HANDLE


def test_a_library_is_unloaded_before_its_launches_run(driver: Driver) -> None:
    """The call does not wait: Python may make it while it starts the thread that the launch needs."""
    library, kernel = c_void_p(), c_void_p()
    driver.call("cuLibraryLoadData", byref(library), KERNELS.encode(), None, None, 0, None, None, 0)
    driver.call("cuLibraryGetKernel", byref(kernel), library, b"add_one")
    flag, at, stream, other = (
        driver.to_device(np.zeros(1, np.uint32)),
        driver.to_device(np.zeros(1, np.uint32)),
        driver.stream(),
        driver.stream(),
    )
    driver.call("cuStreamWaitValue32_v2", stream, flag, number(1), 0)
    assert driver.launch(kernel, at, stream=stream) == 0
    driver.call("cuLibraryUnload", library)
    assert driver.cuStreamQuery(stream) == NOT_READY
    driver.call("cuStreamWriteValue32_v2", other, flag, number(1), 0)
    driver.call("cuStreamSynchronize", stream)
    assert driver.from_device(at, np.zeros(1, np.uint32)).tolist() == [1]


def test_text_that_is_not_ptx(driver: Driver) -> None:
    module, log = c_void_p(), create_string_buffer(400)
    options, values = (c_int * 2)(5, 6), (c_void_p * 2)(ctypes.addressof(log), 400)
    text = b".version 8.0\n.target sm_90\n.address_size 64\n.entry k( {"
    assert driver.cuModuleLoadDataEx(byref(module), text, 2, options, values) == 218
    assert log.value.startswith(b"error[")
    assert values[1] == len(log.value)


def test_linking_joins_texts(driver: Driver) -> None:
    state, image, size, module = c_void_p(), c_void_p(), c_size_t(), c_void_p()
    header = KERNELS[: KERNELS.index(".visible")]
    driver.call("cuLinkCreate_v2", 0, None, None, byref(state))
    for text in (KERNELS, header + ".visible .entry other() { ret; }"):
        raw = text.encode()
        driver.call("cuLinkAddData_v2", state, 1, raw, c_size_t(len(raw)), b"text", 0, None, None)
    driver.call("cuLinkComplete", state, byref(image), byref(size))
    driver.call("cuModuleLoadData", byref(module), image)
    driver.call("cuLinkDestroy", state)
    assert driver.launch(driver.function(module, "other")) == 0


# ----------------------------------------------------------------------------------------------------- streams, events


def test_properties_of_streams(driver: Driver) -> None:
    stream, flags, priority, least, greatest = c_void_p(), c_uint(), c_int(), c_int(), c_int()
    driver.call("cuCtxGetStreamPriorityRange", byref(least), byref(greatest))
    assert (least.value, greatest.value) == (0, -5)
    driver.call("cuStreamCreateWithPriority", byref(stream), 1, -9)
    driver.call("cuStreamGetPriority", stream, byref(priority))
    driver.call("cuStreamGetFlags", stream, byref(flags))
    assert (flags.value, priority.value) == (1, -5)
    first, second = c_ulonglong(), c_ulonglong()
    driver.call("cuStreamGetId", stream, byref(first))
    driver.call("cuStreamGetId", None, byref(second))
    assert first.value != second.value
    driver.call("cuStreamDestroy_v2", stream)
    assert driver.cuStreamSynchronize(stream) == INVALID_HANDLE


def test_events_measure_time(driver: Driver) -> None:
    start, end, milliseconds = driver.event(), driver.event(), c_float()
    assert driver.cuEventElapsedTime(byref(milliseconds), start, end) == INVALID_HANDLE
    driver.call("cuEventRecord", start, None)
    driver.call("cuEventRecord", end, None)
    driver.call("cuEventSynchronize", end)
    driver.call("cuEventElapsedTime", byref(milliseconds), start, end)
    assert 0 < milliseconds.value < 10000
    untimed = driver.event(2)
    driver.call("cuEventRecord", untimed, None)
    assert driver.cuEventElapsedTime(byref(milliseconds), start, untimed) == INVALID_HANDLE


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


def test_devices_support_no_multicast_objects(driver: Driver) -> None:
    driver.call("cuInit", 0)
    value, size, wanted = c_int(), c_size_t(), (c_uint64 * 4)(1, 1 << 21, 1, 0)
    driver.call("cuDeviceGetAttribute", byref(value), 132, 0)
    assert value.value == 0
    assert driver.cuMulticastCreate(byref(c_uint64()), wanted) == NOT_SUPPORTED
    assert driver.cuMulticastGetGranularity(byref(size), wanted, 0) == NOT_SUPPORTED
    assert driver.cuMulticastGetGranularity(None, wanted, 0) == INVALID_VALUE


def test_a_launch_copies_only_what_it_can_reach(driver: Driver) -> None:
    table, near, far = (driver.to_device(np.zeros(size, np.uint8)) for size in (64, 4096, 8192))
    driver.call("cuMemcpyHtoD_v2", table, byref(near), c_size_t(8))
    memory = driver.own.bridge.memory
    memory.update()
    reached = memory.reached_from(table.value.to_bytes(8, "little") + b"\x00\x01")
    # Memory of other tests that holds undefined bits is copied, too.
    ours = {table.value, near.value, far.value}
    assert {a.base for a in reached} & ours == {table.value, near.value}
    assert {a.base for a in memory.copy(far.value.to_bytes(8, "little")).live()} & ours == {far.value}
