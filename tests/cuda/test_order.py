"""The order of work in streams, and launches that wait for something outside of them."""

from __future__ import annotations

import ctypes
import threading
import time
from ctypes import byref, c_size_t, c_uint32, c_void_p

import numpy as np
import pytest

from ptxlab.cuda import turns
from ptxlab.interop.session import Session
from tests.cuda.driver_helpers import Driver, number

ONE = np.zeros(1, np.uint32)
NOT_READY, LAUNCH_FAILED = 600, 719


def _pinned(driver: Driver) -> tuple[c_void_p, np.ndarray]:
    memory = c_void_p()
    driver.call("cuMemHostAlloc", byref(memory), c_size_t(64), 0)
    return memory, np.ctypeslib.as_array((c_uint32 * 16).from_address(memory.value or 0))


def test_a_kernel_waits_for_the_host(driver: Driver, found: Session) -> None:
    memory, flag = _pinned(driver)
    flag[:] = 0
    wait, stream = driver.function(driver.module(), "wait_for"), driver.stream()
    assert driver.launch(wait, memory, number(3), stream=stream) == 0
    assert driver.cuStreamQuery(stream) == NOT_READY
    flag[0] = 3
    driver.call("cuStreamSynchronize", stream)
    assert not found.diagnostics


def test_a_kernel_waits_for_a_thread_of_the_host(driver: Driver, found: Session) -> None:
    memory, flag = _pinned(driver)
    flag[:] = 0

    def write() -> None:
        time.sleep(1.5)  # longer than a launch may wait if no thread of the program could help
        flag[0] = 3

    wait, stream = driver.function(driver.module(), "wait_for"), driver.stream()
    assert driver.launch(wait, memory, number(3), stream=stream) == 0
    thread = threading.Thread(target=write)
    thread.start()
    driver.call("cuStreamSynchronize", stream)
    thread.join()
    assert not found.diagnostics


def test_a_kernel_waits_for_a_kernel_of_another_stream(driver: Driver, found: Session) -> None:
    flags, module = driver.to_device(np.zeros(1, np.uint32)), driver.module()
    first, second = driver.stream(), driver.stream()
    assert driver.launch(driver.function(module, "wait_for"), flags, number(8), stream=first) == 0
    assert driver.launch(driver.function(module, "signal"), flags, number(8), stream=second) == 0
    driver.call("cuStreamSynchronize", first)
    assert [launch.kernel for launch in found.launches] == ["signal", "wait_for"]
    assert not found.diagnostics


@pytest.mark.sweep
def test_a_kernel_that_nothing_can_release_is_a_hang(driver: Driver, found: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that earlier tests have left, such as Dask's, are none of this program."""
    monkeypatch.setattr(turns, "_HOPELESS_BESIDE_THREADS", turns._HOPELESS)
    flags = driver.to_device(np.zeros(1, np.uint32))
    assert driver.launch(driver.function(driver.module(), "wait_for"), flags, number(8)) == 0
    assert driver.cuCtxSynchronize() == LAUNCH_FAILED
    assert [d.code for d in found.diagnostics] == ["H601"]
    assert driver.cuCtxSynchronize() == LAUNCH_FAILED
    address = ctypes.c_uint64()
    assert driver.cuMemAlloc_v2(byref(address), c_size_t(16)) == LAUNCH_FAILED


def test_work_of_a_stream_is_done_in_order(driver: Driver) -> None:
    at, stream, module = driver.to_device(ONE), driver.stream(), driver.module()
    memory, flag = _pinned(driver)
    flag[:] = 0
    assert driver.launch(driver.function(module, "wait_for"), memory, number(1), stream=stream) == 0
    driver.call("cuMemsetD32Async", at, c_uint32(10), c_size_t(1), stream)
    assert driver.launch(driver.function(module, "add_one"), at, stream=stream) == 0
    flag[0] = 1
    driver.call("cuStreamSynchronize", stream)
    assert driver.from_device(at, ONE).tolist() == [11]


def test_events_order_streams(driver: Driver) -> None:
    at, module = driver.to_device(ONE), driver.module()
    first, second, event = driver.stream(), driver.stream(), driver.event()
    memory, flag = _pinned(driver)
    flag[:] = 0
    assert driver.launch(driver.function(module, "wait_for"), memory, number(1), stream=first) == 0
    driver.call("cuMemsetD32Async", at, c_uint32(20), c_size_t(1), first)
    driver.call("cuEventRecord", event, first)
    driver.call("cuStreamWaitEvent", second, event, 0)
    assert driver.launch(driver.function(module, "add_one"), at, stream=second) == 0
    assert driver.cuEventQuery(event) == NOT_READY
    assert driver.cuStreamQuery(second) == NOT_READY
    flag[0] = 1
    driver.call("cuStreamSynchronize", second)
    assert driver.from_device(at, ONE).tolist() == [21]


@pytest.mark.parametrize(("flags", "waits"), [(0, True), (1, False)])
def test_the_default_stream_waits_for_blocking_streams(driver: Driver, flags: int, waits: bool) -> None:
    at, stream, module = driver.to_device(ONE), driver.stream(flags), driver.module()
    memory, flag = _pinned(driver)
    flag[:] = 0
    assert driver.launch(driver.function(module, "wait_for"), memory, number(1), stream=stream) == 0
    driver.call("cuMemsetD32Async", at, c_uint32(5), c_size_t(1), None)
    assert (driver.cuStreamQuery(None) == NOT_READY) == waits
    flag[0] = 1
    driver.call("cuCtxSynchronize")
    assert driver.from_device(at, ONE).tolist() == [5]


def test_the_source_of_a_queued_copy_may_change(driver: Driver) -> None:
    at, stream, module = driver.to_device(ONE), driver.stream(), driver.module()
    memory, flag = _pinned(driver)
    flag[:] = 0
    source = np.array([33], np.uint32)
    assert driver.launch(driver.function(module, "wait_for"), memory, number(1), stream=stream) == 0
    driver.call("cuMemcpyHtoDAsync_v2", at, c_void_p(source.ctypes.data), c_size_t(4), stream)
    source[0] = 44
    flag[0] = 1
    driver.call("cuStreamSynchronize", stream)
    assert driver.from_device(at, ONE).tolist() == [33]


def test_functions_of_the_host_are_called_in_order(driver: Driver) -> None:
    called: list[int | None] = []
    function = ctypes.CFUNCTYPE(None, c_void_p)(called.append)
    stream = driver.stream()
    for i in (1, 2, 3):
        driver.call("cuLaunchHostFunc", stream, function, c_void_p(i))
    driver.call("cuStreamSynchronize", stream)
    assert called == [1, 2, 3]


def test_a_thread_that_holds_the_interpreter_can_wait(driver: Driver) -> None:
    held = ctypes.PyDLL("libcuda.so.1")
    at, stream = driver.to_device(ONE), driver.stream()
    pointers = (c_void_p * 1)(ctypes.addressof(at))
    function = driver.function(driver.module(), "add_one")
    assert held.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, pointers, None) == 0
    assert held.cuStreamSynchronize(stream) == 0
    assert driver.from_device(at, ONE).tolist() == [1]


def test_threads_launch_at_the_same_time(driver: Driver) -> None:
    module, context = driver.module(), c_void_p()
    function = driver.function(module, "add_one")
    driver.call("cuCtxGetCurrent", byref(context))
    results: list[int] = []

    def work() -> None:
        driver.call("cuCtxSetCurrent", context)
        at, stream = driver.to_device(ONE), driver.stream()
        for _ in range(10):
            assert driver.launch(function, at, stream=stream) == 0
        driver.call("cuStreamSynchronize", stream)
        results.append(int(driver.from_device(at, ONE)[0]))
        driver.call("cuStreamDestroy_v2", stream)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [10] * 8


def test_threads_make_and_destroy_streams_while_others_wait(driver: Driver) -> None:
    context = c_void_p()
    driver.call("cuCtxGetCurrent", byref(context))
    nothing = ctypes.CFUNCTYPE(None, c_void_p)(lambda _: None)
    failed: list[str] = []

    def work(seed: int) -> None:
        choose = np.random.default_rng(seed)
        try:
            driver.call("cuCtxSetCurrent", context)
            for _ in range(100):
                stream, event, at = driver.stream(int(choose.integers(2))), driver.event(), driver.allocate(1024)
                steps = {
                    "fill": lambda s=stream, a=at: driver.call("cuMemsetD32Async", a, c_uint32(3), c_size_t(256), s),
                    "record": lambda s=stream, e=event: driver.call("cuEventRecord", e, s),
                    "wait": lambda e=event: driver.call("cuStreamWaitEvent", None, e, 0),
                    "call": lambda s=stream: driver.call("cuLaunchHostFunc", s, nothing, None),
                    "all": lambda: driver.call("cuCtxSynchronize"),
                }
                for name in choose.choice(list(steps), 6):
                    steps[name]()
                driver.call("cuMemFree_v2", at)
                driver.call("cuStreamDestroy_v2", stream)
                driver.call("cuEventDestroy_v2", event)
        except Exception as error:
            failed.append(str(error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
