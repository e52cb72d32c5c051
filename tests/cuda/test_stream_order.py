"""Work of several streams that uses the same memory: what nothing orders is a finding, with both call sites."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p

import numpy as np
import pytest

from ptxlab.diagnostics import Diagnostic
from ptxlab.interop.session import Session
from tests.cuda.driver_helpers import Driver, number

pytestmark = pytest.mark.compiler

BLOCKING, NON_BLOCKING = 0, 1
SIZE = c_size_t(128)
COUNT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry count(.param .u64 at) {
  .reg .b32 %r<2>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [at]; atom.global.add.u32 %r1, [%rd1], 1; ret;
}
"""


def fill(driver: Driver, at: c_uint64, stream: c_void_p | None, size: int = 128) -> None:
    """Fill the first bytes of an allocation."""
    driver.call("cuMemsetD8Async", at, c_uint8(1), c_size_t(size), stream)


def pinned(driver: Driver, size: int = 4096) -> tuple[c_void_p, np.ndarray]:
    """Memory of the host, and its bytes."""
    memory = c_void_p()
    driver.call("cuMemHostAlloc", byref(memory), c_size_t(size), 0)
    return memory, np.ctypeslib.as_array((c_uint8 * size).from_address(memory.value or 0))


def findings(driver: Driver, found: Session) -> list[Diagnostic]:
    """What has been found when all work has ended."""
    driver.call("cuCtxSynchronize")
    return found.diagnostics


def only(driver: Driver, found: Session) -> Diagnostic:
    """The only finding."""
    (diagnostic,) = findings(driver, found)
    return diagnostic


def lines(diagnostic: Diagnostic) -> list[int]:
    """The lines of this file that a finding names."""
    return [int(text.rsplit(":", 1)[1]) for name, text in diagnostic.details if "called at" in name and text.startswith(__file__)]


def line_of(text: str) -> int:
    """The only line of this file that ends with a comment."""
    with open(__file__) as file:
        (found,) = [i for i, line in enumerate(file, 1) if line.rstrip().endswith(f"# {text}")]
    return found


def test_a_launch_reads_what_a_fill_of_another_stream_writes(driver: Driver, found: Session) -> None:
    at, first, second = driver.allocate(256), driver.stream(), driver.stream()
    add = driver.function(driver.module(), "add_one")
    pointers = (c_void_p * 1)(ctypes.addressof(at))
    driver.cuMemsetD8Async(at, c_uint8(1), c_size_t(256), first)  # the fill
    driver.cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, second, pointers, None)  # the launch
    diagnostic = only(driver, found)
    assert (diagnostic.code, diagnostic.severity) == ("I508", "error")
    low = at.value
    assert diagnostic.message.endswith("and nothing orders them")
    assert "kernel add_one on stream" in diagnostic.message
    assert "cuMemsetD8Async on stream" in diagnostic.message
    assert f"writes bytes [{low:#x}, {low + 4:#x}) that" in diagnostic.message
    assert "cuStreamWaitEvent" in (diagnostic.fix or "")
    assert lines(diagnostic) == [line_of("the fill"), line_of("the launch")]
    assert any(name == "allocation" and "cuMemAlloc" in text for name, text in diagnostic.details)


@pytest.mark.parametrize("overlap", [0, 1, 64])
def test_a_fill_overwrites_what_a_launch_of_another_stream_reads(driver: Driver, found: Session, overlap: int) -> None:
    a, b, c = (driver.to_device(np.zeros(64, np.float32)) for _ in range(3))
    add = driver.function(driver.module(), "vector_add")
    assert driver.launch(add, a, b, c, number(32), block=64, stream=driver.stream()) == 0
    other = driver.stream()
    first = a.value + 128 - overlap
    driver.call("cuMemsetD8Async", c_uint64(first), c_uint8(1), SIZE, other)
    if not overlap:
        assert not findings(driver, found)
        return
    message = only(driver, found).message
    assert "cuMemsetD8Async on stream" in message
    assert "kernel vector_add on stream" in message
    assert f"bytes [{first:#x}, {first + overlap:#x}) that" in message


def test_a_copy_to_the_host_does_not_wait_for_a_stream_that_does_not_block(driver: Driver, found: Session) -> None:
    at = driver.to_device(np.zeros(1, np.uint32))
    assert driver.launch(driver.function(driver.module(COUNT), "count"), at, stream=driver.stream(NON_BLOCKING)) == 0
    into = np.zeros(1, np.uint32)
    driver.call("cuMemcpyDtoH_v2", c_void_p(into.ctypes.data), at, c_size_t(4))
    assert only(driver, found).code == "I508"
    assert "cuMemcpyDtoH on stream" in only(driver, found).message


def event(driver: Driver, first: c_void_p, second: c_void_p) -> None:
    made = driver.event()
    driver.call("cuEventRecord", made, first)
    driver.call("cuStreamWaitEvent", second, made, 0)


def two_events(driver: Driver, first: c_void_p, second: c_void_p) -> None:
    middle = driver.stream()
    event(driver, first, middle)
    event(driver, middle, second)


def synchronize_event(driver: Driver, first: c_void_p, second: c_void_p) -> None:
    made = driver.event()
    driver.call("cuEventRecord", made, first)
    driver.call("cuEventSynchronize", made)


def query_event(driver: Driver, first: c_void_p, second: c_void_p) -> None:
    made = driver.event()
    driver.call("cuEventRecord", made, first)
    driver.call("cuEventQuery", made)


def host_function(driver: Driver, first: c_void_p, second: c_void_p) -> None:
    import threading

    done = threading.Event()
    function = ctypes.CFUNCTYPE(None, c_void_p)(lambda _: done.set())
    driver.call("cuLaunchHostFunc", first, function, None)
    assert done.wait(10)


ORDERS: dict[str, Callable[[Driver, c_void_p, c_void_p], None]] = {
    "event": event,
    "two events": two_events,
    "cuEventSynchronize": synchronize_event,
    "cuEventQuery": query_event,
    "cuStreamSynchronize": lambda driver, first, second: driver.call("cuStreamSynchronize", first),
    "cuStreamQuery": lambda driver, first, second: driver.call("cuStreamQuery", first),
    "cuCtxSynchronize": lambda driver, first, second: driver.call("cuCtxSynchronize"),
    "a destroyed stream": lambda driver, first, second: (
        driver.call("cuStreamDestroy_v2", first),
        driver.call("cuCtxSynchronize"),
    )[0],
    "a function of the host": host_function,
}


@pytest.mark.parametrize("name", ORDERS)
def test_what_orders_streams(driver: Driver, found: Session, name: str) -> None:
    at, first, second = driver.allocate(256), driver.stream(), driver.stream()
    fill(driver, at, first)
    ORDERS[name](driver, first, second)
    fill(driver, at, second)
    assert not found.diagnostics
    third = driver.stream()
    fill(driver, at, third)
    assert only(driver, found).code == "I508"


def test_an_event_orders_what_was_submitted_before_it(driver: Driver, found: Session) -> None:
    at, first, second, made = driver.allocate(256), driver.stream(), driver.stream(), driver.event()
    driver.call("cuEventRecord", made, first)
    fill(driver, at, first)
    driver.call("cuStreamWaitEvent", second, made, 0)
    fill(driver, at, second)
    assert only(driver, found).code == "I508"


@pytest.mark.parametrize("default_first", [True, False])
@pytest.mark.parametrize(("flags", "count"), [(BLOCKING, 0), (NON_BLOCKING, 1)])
def test_the_default_stream_orders_blocking_streams(driver: Driver, found: Session, flags: int, count: int, default_first: bool) -> None:
    at, stream = driver.allocate(256), driver.stream(flags)
    for each in (None, stream) if default_first else (stream, None):
        fill(driver, at, each)
    assert [d.code for d in found.diagnostics] == ["I508"] * count


@pytest.mark.parametrize(("flags", "count"), [(BLOCKING, 0), (NON_BLOCKING, 1)])
def test_a_fill_of_device_memory_is_not_waited_for(driver: Driver, found: Session, flags: int, count: int) -> None:
    """CUDA Driver API, "API synchronization behavior": memset is asynchronous for the host, unless the target is its memory."""
    at = driver.allocate(256)
    driver.call("cuMemsetD8_v2", at, c_uint8(1), c_size_t(256))
    fill(driver, at, driver.stream(flags))
    assert [d.code for d in found.diagnostics] == ["I508"] * count


def test_a_fill_of_memory_of_the_host_is_waited_for(driver: Driver, found: Session) -> None:
    at = c_uint64(pinned(driver)[0].value or 0)
    driver.call("cuMemsetD8_v2", at, c_uint8(1), c_size_t(256))
    fill(driver, at, driver.stream(NON_BLOCKING))
    assert not found.diagnostics


def test_blocking_streams_are_not_ordered_among_themselves(driver: Driver, found: Session) -> None:
    at = driver.allocate(256)
    fill(driver, at, driver.stream(BLOCKING))
    fill(driver, at, driver.stream(BLOCKING))
    assert only(driver, found).code == "I508"


def test_the_stream_of_a_thread_is_a_blocking_stream(driver: Driver, found: Session) -> None:
    at, per_thread = driver.allocate(256), c_void_p(2)
    fill(driver, at, per_thread)
    fill(driver, at, None)
    fill(driver, at, per_thread)
    assert not found.diagnostics
    fill(driver, at, driver.stream())
    assert only(driver, found).code == "I508"


def test_reads_and_other_bytes_need_no_order(driver: Driver, found: Session) -> None:
    at, first, second = driver.to_device(np.zeros(256, np.uint8)), driver.stream(), driver.stream()
    fill(driver, at, first, 64)
    driver.call("cuMemsetD8Async", c_uint64(at.value + 64), c_uint8(1), c_size_t(64), second)
    x, y = driver.allocate(64), driver.allocate(64)
    source = c_uint64(at.value + 128)
    driver.call("cuMemcpyDtoDAsync_v2", x, source, c_size_t(64), first)
    driver.call("cuMemcpyDtoDAsync_v2", y, source, c_size_t(64), second)
    assert not findings(driver, found)


def test_rows_of_a_copy_are_told_from_what_lies_between_them(driver: Driver, found: Session) -> None:
    at, first, second = driver.allocate(1024), driver.stream(), driver.stream()
    driver.call("cuMemsetD2D8Async", at, c_size_t(256), c_uint8(1), c_size_t(128), c_size_t(4), first)
    between = c_uint64(at.value + 128)
    driver.call("cuMemsetD2D8Async", between, c_size_t(256), c_uint8(2), c_size_t(128), c_size_t(3), second)
    assert not found.diagnostics
    driver.call("cuMemsetD2D8Async", between, c_size_t(256), c_uint8(2), c_size_t(129), c_size_t(3), second)
    assert f"[{at.value + 256:#x}, {at.value + 257:#x})" in only(driver, found).message


def test_memory_of_a_pool_is_used_in_the_order_of_its_stream(driver: Driver, found: Session) -> None:
    at, first, second = c_uint64(), driver.stream(), driver.stream()
    driver.call("cuMemAllocAsync", byref(at), SIZE, first)
    fill(driver, at, first)
    event(driver, first, second)
    fill(driver, at, second)
    event(driver, second, first)
    driver.call("cuMemFreeAsync", at, first)
    driver.call("cuMemAllocAsync", byref(at), SIZE, second)
    fill(driver, at, second)
    assert not findings(driver, found)


@pytest.mark.parametrize("which", ["cuMemAllocAsync", "cuMemFreeAsync"])
def test_memory_of_a_pool_that_another_stream_uses(driver: Driver, found: Session, which: str) -> None:
    at, first, second = c_uint64(), driver.stream(), driver.stream()
    driver.call("cuMemAllocAsync", byref(at), SIZE, first)
    if which == "cuMemFreeAsync":
        event(driver, first, second)
    fill(driver, at, second)
    if which == "cuMemFreeAsync":
        driver.call("cuMemFreeAsync", at, first)
    assert only(driver, found).code == "I508"
    assert which in only(driver, found).message


@pytest.mark.parametrize("fills", [False, True])
def test_kernels_may_count_together(driver: Driver, found: Session, fills: bool) -> None:
    at = driver.to_device(np.zeros(1, np.uint32))
    count, first, second = driver.function(driver.module(COUNT), "count"), driver.stream(), driver.stream()
    assert driver.launch(count, at, stream=first) == 0
    assert driver.launch(count, at, stream=second) == 0
    if not fills:
        assert not findings(driver, found)
        return
    driver.call("cuMemsetD32Async", at, c_uint32(0), c_size_t(1), first)
    assert only(driver, found).code == "I508"


def test_kernels_that_order_each_other_are_left_alone(driver: Driver, found: Session) -> None:
    flag, module = driver.to_device(np.zeros(1, np.uint32)), driver.module()
    at, first, second = driver.allocate(64), driver.stream(), driver.stream()
    fill(driver, at, second, 64)
    assert driver.launch(driver.function(module, "wait_for"), flag, number(8), stream=first) == 0
    assert driver.launch(driver.function(module, "signal"), flag, number(8), stream=second) == 0
    fill(driver, at, first, 64)
    assert not findings(driver, found)


def test_streams_that_values_in_memory_order_are_left_alone(driver: Driver, found: Session) -> None:
    flag, at, first, second = driver.to_device(np.zeros(1, np.uint32)), driver.allocate(64), driver.stream(), driver.stream()
    fill(driver, at, first, 64)
    driver.call("cuStreamWriteValue32_v2", first, flag, c_uint32(1), 0)
    driver.call("cuStreamWaitValue32_v2", second, flag, c_uint32(1), 0)
    fill(driver, at, second, 64)
    assert not findings(driver, found)


def test_a_launch_that_goes_on_is_compared_when_it_ends(driver: Driver, found: Session) -> None:
    memory, flag = pinned(driver)
    flag[:] = 0
    at, module, first, second = driver.to_device(np.zeros(1, np.uint32)), driver.module(), driver.stream(), driver.stream()
    assert driver.launch(driver.function(module, "wait_for"), memory, number(1), stream=first) == 0
    assert driver.launch(driver.function(module, "add_one"), at, stream=first) == 0
    fill(driver, at, second, 4)
    driver.call("cuStreamSynchronize", second)
    assert not found.diagnostics
    flag[0] = 1
    driver.call("cuCtxSynchronize")
    assert only(driver, found).code == "I508"


def test_one_pair_of_calls_is_one_finding(driver: Driver, found: Session) -> None:
    at, first, second = driver.allocate(4096), driver.stream(), driver.stream()
    for i in range(8):
        here = c_uint64(at.value + 512 * i)
        for stream in (first, second):
            driver.call("cuMemsetD8Async", here, c_uint8(1), SIZE, stream)
    assert only(driver, found).code == "I508"


def test_a_graph_is_in_the_order_of_its_stream(driver: Driver, found: Session) -> None:
    at, first, second = driver.allocate(256), driver.stream(), driver.stream()
    graph, executable, made = c_void_p(), c_void_p(), driver.event()
    driver.call("cuStreamBeginCapture_v2", first, 2)
    fill(driver, at, first)
    driver.call("cuEventRecord", made, first)
    driver.call("cuStreamWaitEvent", second, made, 0)
    fill(driver, at, second)
    driver.call("cuEventRecord", made, second)
    driver.call("cuStreamWaitEvent", first, made, 0)
    driver.call("cuStreamEndCapture", first, byref(graph))
    driver.call("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
    driver.call("cuGraphLaunch", executable, first)
    event(driver, first, second)
    fill(driver, at, second)
    assert not found.diagnostics
    third = driver.stream()
    driver.call("cuGraphLaunch", executable, third)
    assert only(driver, found).code == "I508"
    assert "cuGraphLaunch on stream" in only(driver, found).message


def test_launches_of_one_graph_come_one_after_the_other(driver: Driver, found: Session) -> None:
    at, graph, executable, stream = c_uint64(), c_void_p(), c_void_p(), driver.stream()
    driver.call("cuStreamBeginCapture_v2", stream, 2)
    driver.call("cuMemAllocAsync", byref(at), SIZE, stream)
    fill(driver, at, stream)
    driver.call("cuMemFreeAsync", at, stream)
    driver.call("cuStreamEndCapture", stream, byref(graph))
    driver.call("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
    for _ in range(3):
        driver.call("cuGraphLaunch", executable, driver.stream())
    assert not findings(driver, found)
