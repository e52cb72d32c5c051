"""Host code that Python calls: the device that it sees, what is raised when it returns, and undefined bits of its memory."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab import cuda
from ptxlab.cuda.calls import Call, host_call
from ptxlab.interop.session import Session
from ptxlab.machine import Kernel, KernelError, Result
from tests.cuda.driver_helpers import KERNELS, Driver, needs_compiler

pytestmark = [pytest.mark.compiler, needs_compiler]


@pytest.fixture
def own(found: Session) -> cuda.Driver:
    """The driver, with the session of a program around the calls."""
    return Driver().own


def launch(kernel: Kernel, site: object, **shape: Any) -> Result:
    result = kernel.launch(**shape)
    if not result.ok:
        raise KernelError(*result.diagnostics)
    return result


def add_one(library: Any, address: int) -> int:
    """Launch add_one; the result of the driver."""
    module, function, argument = c_void_p(), c_void_p(), c_uint64(address)
    assert library.cuModuleLoadData(byref(module), KERNELS.encode()) == 0
    assert library.cuModuleGetFunction(byref(function), module, b"add_one") == 0
    return int(library.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, byref(c_void_p(ctypes.addressof(argument))), None))


def allocate(library: Any, size: int) -> c_uint64:
    address = c_uint64()
    assert library.cuMemAlloc_v2(byref(address), c_size_t(size)) == 0
    return address


def test_host_code_sees_one_device_and_the_program_its_own(own: cuda.Driver) -> None:
    def multiprocessors() -> tuple[int, int]:
        count, value = c_int(), c_int()
        own.library.cuDeviceGetCount(byref(count))
        own.library.cuDeviceGetAttribute(byref(value), 16, 0)
        return count.value, value.value

    own.library.cuInit(0)
    before, state = multiprocessors(), c_int()
    for sms in (3, 5):
        with host_call(own, ptxlab.Device("sm_100a", sms=sms), launch):
            assert multiprocessors() == (1, sms)
            inner = ptxlab.Device("sm_90a", sms=7)
            with host_call(own, inner, launch):
                assert multiprocessors() == (1, 7)
            assert multiprocessors() == (1, sms)
    assert multiprocessors() == before
    own.library.cuDevicePrimaryCtxGetState(0, byref(c_int()), byref(state))
    assert state.value == 0, "the program has no primary context"


def test_an_error_is_raised_in_the_end_and_does_not_stick(own: cuda.Driver) -> None:
    device = ptxlab.Device("sm_100a")
    number = device.array(np.array([41], np.uint32))
    results: list[int] = []

    def call_wrongly() -> None:
        with host_call(own, device, launch):
            add_one(own.library, 64)
            results.append(own.library.cuCtxSynchronize())

    with pytest.raises(KernelError, match="M401"):
        call_wrongly()
    assert results == [700]
    with host_call(own, device, launch) as call:
        assert add_one(own.library, number.address) == 0
    assert number.numpy().tolist() == [42]
    assert [sorted(module) for module in call.modules] == [sorted(ptxlab.loads(KERNELS))]


def test_kernels_may_use_the_addresses_that_buffers_had_before(own: cuda.Driver) -> None:
    devices = [ptxlab.Device("sm_100a") for _ in range(2)]
    numbers = [device.array(np.array([10 * i], np.uint32)) for i, device in enumerate(devices)]
    before = [number.address for number in numbers]
    assert before[0] == before[1]
    for device in devices:
        with host_call(own, device, launch):
            assert add_one(own.library, before[0]) == 0
    assert [number.numpy().item() for number in numbers] == [1, 11]
    assert numbers[0].address != numbers[1].address


def test_memory_goes_with_the_device(own: cuda.Driver) -> None:
    device = ptxlab.Device("sm_100a")
    own.adopt(device)
    address = device.array(np.zeros(100, np.uint8)).address
    assert own.bridge.memory.containing(address) is not None
    del device
    gc.collect()
    own.bridge.memory.update()
    assert own.bridge.memory.containing(address) is None


def test_a_device_has_no_more_memory_than_it_was_given(own: cuda.Driver) -> None:
    device = ptxlab.Device("sm_100a", memory_bytes=1 << 20)
    own.adopt(device)
    device.array(np.zeros(1 << 19, np.uint8)).free()
    with pytest.raises(ptxlab.PtxlabError, match="A311"):
        device.array(np.zeros((1 << 20) + 1, np.uint8))
    with host_call(own, device, launch):
        assert own.library.cuMemAlloc_v2(byref(c_uint64()), c_size_t(2 << 20)) == 2


def copy_to_host(library: Any, address: c_uint64, size: int) -> None:
    target = ctypes.create_string_buffer(size)
    assert library.cuMemcpyDtoH_v2(target, address, c_size_t(size)) == 0


def fill(library: Any, address: c_uint64, size: int) -> None:
    assert library.cuMemsetD8_v2(address, 1, c_size_t(size)) == 0


def write(library: Any, address: c_uint64, size: int) -> None:
    assert library.cuMemcpyHtoD_v2(address, ctypes.create_string_buffer(size), c_size_t(size)) == 0


@pytest.mark.parametrize(("define", "part", "findings"), [(fill, 64, 0), (write, 64, 0), (fill, 60, 1), (write, 60, 1), (None, 0, 1)])
def test_undefined_bits_that_the_host_reads(own: cuda.Driver, define: Callable[..., None] | None, part: int, findings: int) -> None:
    """They move with copies on the device, and fills and copies of the host define them."""
    device = ptxlab.Device("sm_100a")
    library = own.library

    def call() -> None:
        with host_call(own, device, launch):
            first, second = allocate(library, 64), allocate(library, 64)
            if define is not None:
                define(library, first, part)
            assert library.cuMemcpyDtoD_v2(second, first, c_size_t(64)) == 0
            copy_to_host(library, second, 64)
            for address in (first, second):
                assert library.cuMemFree_v2(address) == 0

    if findings:
        with pytest.warns(ptxlab.UndefinedValueWarning):
            call()
    else:
        call()
    assert [d.code for d in device.diagnostics] == ["M412"] * findings


@pytest.mark.parametrize(("name", "code"), [("read", "M402"), ("write", "M402"), ("fill", "M402")])
def test_copies_that_leave_their_memory(own: cuda.Driver, name: str, code: str) -> None:
    def call() -> Call:
        with host_call(own, ptxlab.Device("sm_100a"), launch) as made:
            address, host = allocate(own.library, 64), ctypes.create_string_buffer(100)
            if name == "read":
                assert own.library.cuMemcpyDtoH_v2(host, address, c_size_t(100)) == 1
            elif name == "write":
                assert own.library.cuMemcpyHtoD_v2(address, host, c_size_t(100)) == 1
            else:
                assert own.library.cuMemsetD8_v2(address, 0, c_size_t(100)) == 1
        return made

    with pytest.raises(ptxlab.PtxlabError) as error:
        call()
    assert error.value.diagnostic.code == code
    verb = "read" if name == "read" else "write"
    assert error.value.diagnostic.message.startswith(f"host code: {verb} of 100 bytes at 0x")
    assert "runs 36 bytes past the end of cuMemAlloc #" in error.value.diagnostic.message


def test_freed_memory_is_a_misuse_that_ends_nothing(own: cuda.Driver) -> None:
    with host_call(own, ptxlab.Device("sm_100a"), launch) as call:
        address = allocate(own.library, 64)
        assert own.library.cuMemFree_v2(address) == 0
        assert own.library.cuMemFree_v2(address) == 1
    assert [d.code for d in call.misuses] == ["I504"]


def test_outside_of_calls_a_refused_copy_is_an_error_code(own: cuda.Driver, driver: Driver, found: Session) -> None:
    address = driver.to_device(np.zeros(64, np.uint8))
    target = np.zeros(100, np.uint8)
    assert driver.cuMemcpyDtoH_v2(c_void_p(target.ctypes.data), address, c_size_t(64)) == 0
    assert driver.cuMemcpyDtoH_v2(c_void_p(target.ctypes.data), address, c_size_t(100)) == 1
    assert found.diagnostics == []
