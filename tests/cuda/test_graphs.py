"""Graphs with kernels: what launches of a captured graph compute, and changes of executable graphs."""

from __future__ import annotations

import threading
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

import numpy as np

from ptxlab.interop.session import Session
from tests.cuda.driver_helpers import Driver, needs_compiler

pytestmark = needs_compiler
WORD = np.zeros(1, np.uint32)


def captured(driver: Driver, stream: c_void_p, mode: int = 0) -> c_void_p:
    """The graph of what the stream has captured."""
    graph = c_void_p()
    driver.call("cuStreamEndCapture", stream, byref(graph))
    return graph


def executable(driver: Driver, graph: c_void_p) -> c_void_p:
    made = c_void_p()
    driver.call("cuGraphInstantiateWithFlags", byref(made), graph, c_uint64(0))
    return made


def test_each_launch_of_a_captured_graph_runs_its_kernels(driver: Driver, found: Session) -> None:
    stream, address = driver.stream(), driver.allocate(4)
    add_one = driver.function(driver.module(), "add_one")
    driver.call("cuStreamBeginCapture_v2", stream, 0)
    driver.call("cuMemsetD32Async", address, 10, c_size_t(1), stream)
    for _ in range(3):
        assert driver.launch(add_one, address, stream=stream) == 0
    graph = captured(driver, stream)
    assert found.launches == []
    made = executable(driver, graph)
    for _ in range(4):
        driver.call("cuGraphLaunch", made, stream)
    driver.call("cuStreamSynchronize", stream)
    assert driver.from_device(address, WORD).tolist() == [13]
    assert len(found.launches) == 12
    driver.call("cuGraphDestroy", graph)
    driver.call("cuGraphLaunch", made, stream)
    driver.call("cuStreamSynchronize", stream)
    assert len(found.launches) == 15
    assert found.ok


def test_streams_that_fork_and_join_are_one_graph(driver: Driver, found: Session) -> None:
    first, second, forked, joined = driver.stream(), driver.stream(), driver.event(2), driver.event(2)
    address, other = driver.to_device(WORD), driver.to_device(WORD)
    add_one = driver.function(driver.module(), "add_one")
    driver.call("cuStreamBeginCapture_v2", first, 0)
    assert driver.launch(add_one, address, stream=first) == 0
    driver.call("cuEventRecord", forked, first)
    driver.call("cuStreamWaitEvent", second, forked, 0)
    assert driver.launch(add_one, other, stream=second) == 0
    assert driver.launch(add_one, address, stream=first) == 0
    driver.call("cuEventRecord", joined, second)
    driver.call("cuStreamWaitEvent", first, joined, 0)
    assert driver.launch(add_one, other, stream=first) == 0
    graph, count = captured(driver, first), c_size_t()
    driver.call("cuGraphGetNodes", graph, None, byref(count))
    assert count.value == 4
    driver.call("cuGraphGetEdges_v2", graph, None, None, None, byref(count))
    assert count.value == 4
    driver.call("cuGraphLaunch", executable(driver, graph), first)
    driver.call("cuStreamSynchronize", first)
    assert (driver.from_device(address, WORD).tolist(), driver.from_device(other, WORD).tolist()) == ([2], [2])
    assert found.ok


def test_a_fork_that_is_not_joined_is_refused(driver: Driver) -> None:
    first, second, forked, graph = driver.stream(), driver.stream(), driver.event(2), c_void_p()
    driver.call("cuStreamBeginCapture_v2", first, 0)
    driver.call("cuEventRecord", forked, first)
    driver.call("cuStreamWaitEvent", second, forked, 0)
    assert driver.launch(driver.function(driver.module(), "empty"), stream=second) == 0
    assert driver.library.cuStreamEndCapture(first, byref(graph)) == 904
    status = c_int()
    driver.call("cuStreamIsCapturing", second, byref(status))
    assert status.value == 0


def test_captures_of_two_streams_do_not_merge(driver: Driver) -> None:
    first, second, event, graph = driver.stream(), driver.stream(), driver.event(2), c_void_p()
    driver.call("cuStreamBeginCapture_v2", first, 0)
    driver.call("cuStreamBeginCapture_v2", second, 0)
    driver.call("cuEventRecord", event, first)
    assert driver.library.cuStreamWaitEvent(second, event, 0) == 902
    assert [driver.library.cuStreamEndCapture(stream, byref(graph)) for stream in (first, second)] == [901, 901]


def test_another_thread_cannot_end_a_capture_or_allocate_during_it(driver: Driver) -> None:
    stream, graph, results, address = driver.stream(), c_void_p(), [], c_uint64()
    context = c_void_p()
    driver.call("cuCtxGetCurrent", byref(context))
    driver.call("cuStreamBeginCapture_v2", stream, 0)

    def other() -> None:
        results.append(driver.library.cuCtxSetCurrent(context))
        results.append(driver.library.cuStreamEndCapture(stream, byref(graph)))
        results.append(driver.library.cuMemAlloc_v2(byref(address), c_size_t(4)))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert results == [0, 908, 900]
    assert driver.library.cuStreamEndCapture(stream, byref(graph)) == 901


def test_memory_of_a_graph_comes_with_each_launch(driver: Driver, found: Session) -> None:
    stream, address, host = driver.stream(), c_uint64(), np.zeros(1, np.uint32)
    add_one = driver.function(driver.module(), "add_one")
    driver.call("cuStreamBeginCapture_v2", stream, 0)
    driver.call("cuMemAllocAsync", byref(address), c_size_t(4), stream)
    driver.call("cuMemsetD32Async", address, 5, c_size_t(1), stream)
    assert driver.launch(add_one, address, stream=stream) == 0
    driver.call("cuMemcpyDtoHAsync_v2", c_void_p(host.ctypes.data), address, c_size_t(4), stream)
    driver.call("cuMemFreeAsync", address, stream)
    made = executable(driver, captured(driver, stream))
    for _ in range(2):
        host[0] = 0
        driver.call("cuGraphLaunch", made, stream)
        driver.call("cuStreamSynchronize", stream)
        assert host[0] == 6
    assert found.ok


def test_handles_that_are_no_graphs(driver: Driver) -> None:
    stream, out, count = driver.stream(), c_void_p(), c_size_t()
    for wrong in (c_void_p(), c_void_p(8), stream):
        assert driver.library.cuGraphDestroy(wrong) == 1
        assert driver.library.cuGraphLaunch(wrong, stream) == 1
        assert driver.library.cuGraphExecDestroy(wrong) == 1
        assert driver.library.cuGraphGetNodes(wrong, None, byref(count)) == 1
        assert driver.library.cuGraphInstantiateWithFlags(byref(out), wrong, c_uint64(0)) == 1
        assert driver.library.cuGraphDestroyNode(wrong) == 1
    driver.call("cuGraphCreate", byref(out), 0)
    driver.call("cuGraphDestroy", out)
    assert driver.library.cuGraphDestroy(out) == 1
