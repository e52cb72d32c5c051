"""The driver's functions, one area after another; those of memory are in `test_driver_memory`."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p, create_string_buffer

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
