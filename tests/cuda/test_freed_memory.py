"""Memory of the driver after it was freed, and memory that is never freed."""

from __future__ import annotations

from ctypes import byref, c_size_t, c_uint8, c_uint64, c_void_p

import numpy as np
import pytest

from ptxlab.interop.session import Session, Settings
from tests.cuda import driver_helpers
from tests.cuda.driver_helpers import Driver

pytestmark = pytest.mark.compiler

INVALID_VALUE, ILLEGAL_ADDRESS = 1, 700


def line_of(text: str) -> str:
    """The place of the only line of this file that ends with a comment."""
    with open(__file__) as file:
        (found,) = [i for i, line in enumerate(file, 1) if line.rstrip().endswith(f"# {text}")]
    return f"{__file__}:{found}"


def allocated_and_freed(driver: Driver) -> c_uint64:
    """Memory that is no longer there."""
    at = c_uint64()
    driver.cuMemAlloc_v2(byref(at), c_size_t(64))  # the allocation
    driver.cuMemFree_v2(at)  # the release
    return at


PLACES = {"allocated at": "the allocation", "freed at": "the release"}


def test_a_fill_of_freed_memory(driver: Driver, found: Session) -> None:
    at = allocated_and_freed(driver)
    assert driver.cuMemsetD8Async(c_uint64(at.value + 16), c_uint8(0), c_size_t(8), None) == INVALID_VALUE  # the fill
    (diagnostic,) = found.diagnostics
    assert (diagnostic.code, diagnostic.severity) == ("I510", "error")
    assert diagnostic.message.startswith(f"cuMemsetD8Async uses memory at {at.value + 16:#x}, which was freed: cuMemAlloc #")
    assert diagnostic.fix == "free the memory after the last operation that uses it"
    assert dict(diagnostic.details) == {"called at": line_of("the fill")} | {name: line_of(text) for name, text in PLACES.items()}


@pytest.mark.parametrize("name", ["cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyDtoD_v2"])
def test_a_copy_of_freed_memory(driver: Driver, found: Session, name: str) -> None:
    host, device, freed = np.zeros(64, np.uint8), driver.allocate(64), allocated_and_freed(driver)
    here = c_void_p(host.ctypes.data)
    arguments = {"cuMemcpyHtoD_v2": (freed, here), "cuMemcpyDtoH_v2": (here, freed), "cuMemcpyDtoD_v2": (device, freed)}[name]
    assert getattr(driver, name)(*arguments, c_size_t(64)) == INVALID_VALUE
    (diagnostic,) = found.diagnostics
    assert diagnostic.code == "I510"
    assert diagnostic.message.startswith(f"{name.removesuffix('_v2')} uses memory at {freed.value:#x}")


def test_addresses_that_never_were_memory_are_only_an_error(driver: Driver, found: Session) -> None:
    assert driver.cuMemsetD8_v2(c_uint64(4096), c_uint8(0), c_size_t(8)) == INVALID_VALUE
    at = driver.allocate(64)
    assert driver.cuMemsetD8_v2(at, c_uint8(0), c_size_t(65)) == INVALID_VALUE
    assert not found.diagnostics


def test_a_kernel_that_uses_freed_memory(driver: Driver, found: Session) -> None:
    add, at = driver.function(driver.module(), "add_one"), allocated_and_freed(driver)
    driver.launch(add, at)
    assert driver.cuCtxSynchronize() == ILLEGAL_ADDRESS
    (diagnostic,) = found.diagnostics
    assert diagnostic.code == "M403"
    assert {name: text for name, text in diagnostic.details if name in PLACES} == {name: line_of(text) for name, text in PLACES.items()}


def test_memory_that_is_freed_twice(driver: Driver, found: Session) -> None:
    at = allocated_and_freed(driver)
    assert driver.cuMemFree_v2(at) == INVALID_VALUE
    (diagnostic,) = found.diagnostics
    assert diagnostic.code == "I504"
    assert {name: text for name, text in diagnostic.details if name in PLACES} == {name: line_of(text) for name, text in PLACES.items()}


def test_memory_of_a_pool_that_is_released_in_a_stream(driver: Driver, found: Session) -> None:
    at, stream = c_uint64(), driver.stream()
    driver.cuMemAllocAsync(byref(at), c_size_t(64), stream)  # the allocation in a stream
    driver.cuMemFreeAsync(at, stream)  # the release in a stream
    driver.call("cuStreamSynchronize", stream)
    assert driver.cuMemsetD8_v2(at, c_uint8(0), c_size_t(8)) == INVALID_VALUE
    details = dict(found.diagnostics[0].details)
    assert details["allocated at"] == line_of("the allocation in a stream")
    assert details["freed at"] == line_of("the release in a stream")


def test_memory_that_is_not_freed(driver: Driver) -> None:
    session = Session(Settings(target="sm_90a", leaks=True), report=lambda _: None)
    driver_helpers._session.append(session)
    try:
        allocated_and_freed(driver)
        for _ in range(3):
            driver.cuMemAlloc_v2(byref(c_uint64()), c_size_t(64))  # the leak
        memory = c_void_p()
        driver.cuMemHostAlloc(byref(memory), c_size_t(100), 0)  # the leak of the host
        driver.own.finish()
    finally:
        driver_helpers._session.remove(session)
    found = {d.message: dict(d.details) for d in session.diagnostics}
    assert {d.code for d in session.diagnostics} == {"I512"}
    assert {d.severity for d in session.diagnostics} == {"note"}
    assert found["the program does not free 192 bytes of cuMemAlloc, in 3 allocations"] == {"allocated at": line_of("the leak")}
    assert found["the program does not free 100 bytes of cuMemHostAlloc, in 1 allocation"] == {
        "allocated at": line_of("the leak of the host")
    }


def test_leaks_are_noted_only_if_asked_for(driver: Driver, found: Session) -> None:
    driver.allocate(64)
    driver.own.finish()
    assert not found.diagnostics
