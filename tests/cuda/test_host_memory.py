"""Memory of the host that work of streams uses: the program must not change it before it has waited for the work."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab.interop.session import Session
from tests.cuda.driver_helpers import Driver, number

pytestmark = pytest.mark.compiler

SIZE = 4096
Bytes = NDArray[np.uint8]


def pinned(driver: Driver) -> Bytes:
    """Memory of cuMemHostAlloc."""
    memory = c_void_p()
    driver.call("cuMemHostAlloc", byref(memory), c_size_t(SIZE), 0)
    return np.ctypeslib.as_array((c_uint8 * SIZE).from_address(memory.value or 0))


def registered(driver: Driver) -> Bytes:
    """Memory of the program that it has registered."""
    memory = np.zeros(SIZE + 4096, np.uint8)[-SIZE:]
    driver.call("cuMemHostRegister_v2", at(memory), c_size_t(SIZE), 0)
    return memory


def managed(driver: Driver) -> Bytes:
    """Managed memory."""
    memory = c_uint64()
    driver.call("cuMemAllocManaged", byref(memory), c_size_t(SIZE), 1)
    return np.ctypeslib.as_array((c_uint8 * SIZE).from_address(memory.value))


def at(memory: Bytes) -> c_void_p:
    """The address of bytes."""
    return c_void_p(memory.ctypes.data)


KINDS = (pinned, registered, managed)


def line_of(text: str) -> int:
    """The only line of this file that ends with a comment."""
    with open(__file__) as file:
        (found,) = [i for i, line in enumerate(file, 1) if line.rstrip().endswith(f"# {text}")]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_source_of_a_copy_changes_before_the_program_waits(driver: Driver, found: Session, kind: Callable[[Driver], Bytes]) -> None:
    memory, device, stream = kind(driver), driver.allocate(SIZE), driver.stream()
    driver.cuMemcpyHtoDAsync_v2(device, at(memory), c_size_t(SIZE - 3), stream)  # the copy
    memory[SIZE - 4] = 1
    driver.cuStreamSynchronize(stream)  # the wait
    (diagnostic,) = found.diagnostics
    start = memory.ctypes.data
    assert (diagnostic.code, diagnostic.severity) == ("I509", "error")
    assert diagnostic.message.startswith("the program changes memory that cuMemcpyHtoDAsync on stream ")
    assert diagnostic.message.endswith(f" uses, in [{start:#x}, {start + SIZE - 3:#x}), before cuStreamSynchronize waits for it")
    assert diagnostic.fix == "wait for the stream, or for an event behind the operation, before the program writes there"
    places = [text for name, text in diagnostic.details if name.endswith("called at")]
    assert places == [f"{__file__}:{line_of('the copy')}", f"{__file__}:{line_of('the wait')}"]


def test_the_target_of_a_copy_changes_before_the_program_waits(driver: Driver, found: Session) -> None:
    memory, device, stream = pinned(driver), driver.to_device(np.ones(SIZE, np.uint8)), driver.stream()
    driver.call("cuMemcpyDtoHAsync_v2", at(memory), device, c_size_t(SIZE), stream)
    memory[5] = 7
    driver.call("cuCtxSynchronize")
    assert [d.code for d in found.diagnostics] == ["I509"]
    assert "before cuCtxSynchronize waits for it" in found.diagnostics[0].message


def test_what_a_kernel_has_read_changes_before_the_program_waits(driver: Driver, found: Session) -> None:
    memory, other, result = pinned(driver), driver.to_device(np.zeros(SIZE, np.uint8)), driver.allocate(SIZE)
    add, stream = driver.function(driver.module(), "vector_add"), driver.stream()
    arguments = (at(memory), other, result, number(32))
    for block in (32, 64):  # the first launch compiles, and may go on when the call returns
        assert driver.launch(add, *arguments, block=block, stream=stream) == 0
        if block == 32:
            driver.call("cuStreamSynchronize", stream)
    memory[200] = 1  # beyond the elements
    memory[127] = 1
    driver.call("cuStreamSynchronize", stream)
    assert [d.code for d in found.diagnostics] == ["I509"]
    assert "the program changes memory that kernel vector_add on stream " in found.diagnostics[0].message
    assert f"[{memory.ctypes.data:#x}, {memory.ctypes.data + 128:#x})" in found.diagnostics[0].message


def event_wait(driver: Driver, stream: c_void_p) -> None:
    event = driver.event()
    driver.call("cuEventRecord", event, stream)
    driver.call("cuEventSynchronize", event)


def function_of_the_host(driver: Driver, stream: c_void_p) -> None:
    import threading

    done = threading.Event()
    function = ctypes.CFUNCTYPE(None, c_void_p)(lambda _: done.set())
    driver.call("cuLaunchHostFunc", stream, function, None)
    assert done.wait(10)


def synchronous_copy(driver: Driver, stream: c_void_p) -> None:
    driver.call("cuMemcpyHtoD_v2", driver.allocate(4), c_void_p(np.zeros(1, np.uint32).ctypes.data), c_size_t(4))


WAITS: dict[str, Callable[[Driver, c_void_p], None]] = {
    "cuStreamSynchronize": lambda driver, stream: driver.call("cuStreamSynchronize", stream),
    "cuStreamQuery": lambda driver, stream: driver.call("cuStreamQuery", stream),
    "cuCtxSynchronize": lambda driver, stream: driver.call("cuCtxSynchronize"),
    "an event": event_wait,
    "a function of the host": function_of_the_host,
    "a synchronous copy": synchronous_copy,
}


@pytest.mark.parametrize("name", WAITS)
def test_after_a_wait_the_program_may_write(driver: Driver, found: Session, name: str) -> None:
    memory, device, stream = pinned(driver), driver.allocate(SIZE), driver.stream(0)
    for i in range(1, 4):
        memory[:] = i
        driver.call("cuMemcpyHtoDAsync_v2", device, at(memory), c_size_t(SIZE), stream)
        WAITS[name](driver, stream)
    assert not found.diagnostics


def test_other_bytes_and_other_memory_may_change(driver: Driver, found: Session) -> None:
    memory, device, stream = pinned(driver), driver.allocate(SIZE), driver.stream()
    ordinary = np.zeros(64, np.uint8)
    driver.call("cuMemcpyHtoDAsync_v2", device, at(memory), c_size_t(64), stream)
    driver.call("cuMemcpyHtoDAsync_v2", device, at(ordinary), c_size_t(64), stream)
    memory[64] = ordinary[0] = 1
    driver.call("cuStreamSynchronize", stream)
    assert not found.diagnostics


def test_work_of_the_stream_may_write_there(driver: Driver, found: Session) -> None:
    memory, device, stream = pinned(driver), driver.to_device(np.ones(SIZE, np.uint8)), driver.stream()
    driver.call("cuMemcpyHtoDAsync_v2", device, at(memory), c_size_t(64), stream)
    driver.call("cuMemsetD8Async", device, c_uint8(9), c_size_t(64), stream)
    driver.call("cuMemcpyDtoHAsync_v2", at(memory), device, c_size_t(64), stream)
    driver.call("cuMemsetD8Async", at(memory), c_uint8(3), c_size_t(64), stream)
    driver.call("cuStreamSynchronize", stream)
    memory[0] = 4
    driver.call("cuCtxSynchronize")
    assert not found.diagnostics


def test_a_kernel_that_writes_to_memory_of_the_host_tells_the_program(driver: Driver, found: Session) -> None:
    memory, flag, device, stream = pinned(driver), pinned(driver), driver.allocate(SIZE), driver.stream()
    flag[:] = 0
    driver.call("cuMemcpyHtoDAsync_v2", device, at(memory), c_size_t(64), stream)
    assert driver.launch(driver.function(driver.module(), "signal"), at(flag), number(1), stream=stream) == 0
    while not flag.view(np.uint32)[0]:
        driver.cuStreamIsCapturing(stream, byref(c_uint32()))
    memory[0] = 1
    driver.call("cuStreamSynchronize", stream)
    assert not found.diagnostics


def test_memory_that_is_released_is_not_looked_at(driver: Driver, found: Session) -> None:
    device, stream = driver.allocate(SIZE), driver.stream()
    memory = pinned(driver)
    driver.call("cuMemcpyHtoDAsync_v2", device, at(memory), c_size_t(64), stream)
    driver.call("cuMemFreeHost", at(memory))
    mine = registered(driver)
    driver.call("cuMemcpyHtoDAsync_v2", device, at(mine), c_size_t(64), stream)
    driver.call("cuMemHostUnregister", at(mine))
    mine[:] = 3
    driver.call("cuCtxSynchronize")
    assert not found.diagnostics
