"""Graphs: nodes of events and of memory, nodes that are switched off, numbers, and user objects."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import pytest

from ptxlab.interop.session import Session
from tests.cuda.driver_helpers import Driver, needs_compiler

pytestmark = needs_compiler
WORD = np.zeros(1, np.uint32)
INVALID = 1
HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)


class AllocationNode(ctypes.Structure):
    """``CUDA_MEM_ALLOC_NODE_PARAMS``."""

    _fields_ = (
        ("type", c_int),
        ("handles", c_int),
        ("location_type", c_int),
        ("device", c_int),
        ("rest", ctypes.c_uint8 * 72),
        ("accesses", c_void_p),
        ("access_count", c_size_t),
        ("size", c_size_t),
        ("address", c_uint64),
    )


@pytest.fixture
def graph(driver: Driver) -> c_void_p:
    made = c_void_p()
    driver.call("cuGraphCreate", byref(made), 0)
    return made


def executable(driver: Driver, graph: c_void_p) -> c_void_p:
    made = c_void_p()
    driver.call("cuGraphInstantiateWithFlags", byref(made), graph, c_uint64(0))
    return made


def nodes_of(driver: Driver, graph: c_void_p) -> list[c_void_p]:
    count = c_size_t()
    driver.call("cuGraphGetNodes", graph, None, byref(count))
    nodes = (c_void_p * count.value)()
    driver.call("cuGraphGetNodes", graph, nodes, byref(count))
    return [c_void_p(node) for node in nodes]


def captured_additions(driver: Driver, stream: c_void_p, address: c_uint64, count: int) -> c_void_p:
    """A graph with so many kernels in a row."""
    made, add_one = c_void_p(), driver.function(driver.module(), "add_one")
    driver.call("cuStreamBeginCapture_v2", stream, 0)
    for _ in range(count):
        assert driver.launch(add_one, address, stream=stream) == 0
    driver.call("cuStreamEndCapture", stream, byref(made))
    return made


def test_events_of_nodes_can_be_exchanged(driver: Driver, graph: c_void_p) -> None:
    first, second, third, node, wait, found = driver.event(), driver.event(), driver.event(), c_void_p(), c_void_p(), c_void_p()
    driver.call("cuGraphAddEventRecordNode", byref(node), graph, None, c_size_t(0), first)
    driver.call("cuGraphAddEventWaitNode", byref(wait), graph, byref(node), c_size_t(1), first)
    made, stream = executable(driver, graph), driver.stream()
    driver.call("cuGraphEventRecordNodeSetEvent", node, second)
    driver.call("cuGraphEventRecordNodeGetEvent", node, byref(found))
    assert found.value == second.value
    driver.call("cuGraphEventWaitNodeGetEvent", wait, byref(found))
    assert found.value == first.value
    driver.call("cuGraphExecEventRecordNodeSetEvent", made, node, third)
    driver.call("cuGraphExecEventWaitNodeSetEvent", made, wait, third)
    driver.call("cuGraphLaunch", made, stream)
    driver.call("cuStreamSynchronize", stream)
    milliseconds = ctypes.c_float()
    recorded = [driver.cuEventElapsedTime_v2(byref(milliseconds), event, event) == 0 for event in (first, second, third)]
    assert recorded == [False, False, True]
    assert driver.cuGraphEventRecordNodeGetEvent(wait, byref(found)) == INVALID
    assert driver.cuGraphExecEventWaitNodeSetEvent(made, node, third) == INVALID


def test_a_node_that_is_switched_off_does_nothing(driver: Driver, found: Session) -> None:
    stream, address, enabled = driver.stream(), driver.to_device(WORD), c_uint32(7)
    graph = captured_additions(driver, stream, address, 3)
    made, nodes = executable(driver, graph), nodes_of(driver, graph)
    driver.call("cuGraphNodeSetEnabled", made, nodes[1], 0)
    driver.call("cuGraphNodeGetEnabled", made, nodes[1], byref(enabled))
    assert enabled.value == 0
    driver.call("cuGraphLaunch", made, stream)
    driver.call("cuStreamSynchronize", stream)
    assert driver.from_device(address, WORD).tolist() == [2]
    driver.call("cuGraphNodeSetEnabled", made, nodes[1], 1)
    driver.call("cuGraphLaunch", made, stream)
    driver.call("cuStreamSynchronize", stream)
    assert driver.from_device(address, WORD).tolist() == [5]
    assert found.ok


def test_memory_of_a_graph_comes_and_goes_with_its_launch(driver: Driver, graph: c_void_p, found: Session) -> None:
    """Zero, add one, copy out, release: the address is the same in each launch."""
    driver.context()
    wanted = AllocationNode(type=1, location_type=1, device=0, size=4)
    made, released, asked, used = c_void_p(), c_void_p(), c_uint64(), c_uint64(1)
    driver.call("cuGraphAddMemAllocNode", byref(made), graph, None, c_size_t(0), byref(wanted))
    assert wanted.address
    again = AllocationNode()
    driver.call("cuGraphMemAllocNodeGetParams", made, byref(again))
    assert (again.address, again.size) == (wanted.address, 4)
    out, add_one = driver.to_device(WORD), driver.function(driver.module(), "add_one")
    stream, inner = driver.stream(), c_void_p()
    driver.call("cuStreamBeginCapture_v2", stream, 0)
    address = c_uint64(wanted.address)
    driver.call("cuMemsetD32Async", address, 41, c_size_t(1), stream)
    assert driver.launch(add_one, address, stream=stream) == 0
    driver.call("cuMemcpyDtoDAsync_v2", out, address, c_size_t(4), stream)
    driver.call("cuStreamEndCapture", stream, byref(inner))
    child = c_void_p()
    driver.call("cuGraphAddChildGraphNode", byref(child), graph, byref(made), c_size_t(1), inner)
    driver.call("cuGraphAddMemFreeNode", byref(released), graph, byref(child), c_size_t(1), address)
    driver.call("cuGraphMemFreeNodeGetParams", released, byref(asked))
    assert asked.value == wanted.address
    ready = executable(driver, graph)
    for _ in range(2):
        driver.call("cuMemsetD32Async", out, 0, c_size_t(1), stream)
        driver.call("cuGraphLaunch", ready, stream)
        driver.call("cuStreamSynchronize", stream)
        assert driver.from_device(out, WORD).tolist() == [42]
        driver.call("cuDeviceGetGraphMemAttribute", 0, 0, byref(used))
        assert used.value == 0
    driver.call("cuDeviceGetGraphMemAttribute", 0, 1, byref(used))
    assert used.value >= 4
    assert driver.cuGraphAddMemFreeNode(byref(released), graph, None, c_size_t(0), c_uint64(4096)) == INVALID
    assert found.ok


def test_graphs_and_nodes_have_numbers(driver: Driver, graph: c_void_p) -> None:
    nodes, clone, found, number, tools = [c_void_p(), c_void_p()], c_void_p(), c_void_p(), c_uint32(), c_uint64()
    for node in nodes:
        driver.call("cuGraphAddEmptyNode", byref(node), graph, None, c_size_t(0))
    driver.call("cuGraphClone", byref(clone), graph)
    ids = []
    for each in (graph, clone):
        driver.call("cuGraphGetId", each, byref(number))
        ids.append(number.value)
    assert ids[0] != ids[1]
    seen = set()
    for node in (*nodes, *nodes_of(driver, clone)):
        driver.call("cuGraphNodeGetToolsId", node, byref(tools))
        driver.call("cuGraphNodeGetLocalId", node, byref(number))
        seen.add(tools.value)
    assert len(seen) == 4
    assert number.value == 2, "a clone keeps the numbers of the nodes"
    driver.call("cuGraphNodeGetContainingGraph", nodes[0], byref(found))
    assert found.value == graph.value


def test_a_graph_as_text(driver: Driver, tmp_path: Path) -> None:
    stream, address = driver.stream(), driver.to_device(WORD)
    graph = captured_additions(driver, stream, address, 2)
    driver.call("cuGraphDebugDotPrint", graph, str(tmp_path / "graph.dot").encode(), 0)
    lines = (tmp_path / "graph.dot").read_text().splitlines()
    assert [line.strip() for line in lines[1:-1]] == [
        'node_1 [label="add_one"];',
        'node_2 [label="add_one"];',
        "node_1 -> node_2;",
    ]
    assert driver.cuGraphDebugDotPrint(graph, str(tmp_path / "no folder" / "graph.dot").encode(), 0) == INVALID


def test_the_last_reference_destroys_a_user_object(driver: Driver, graph: c_void_p) -> None:
    destroyed: list[int] = []
    destroy = HOST_FUNCTION(lambda data: destroyed.append(data or 0))
    made = c_void_p()
    assert driver.cuUserObjectCreate(byref(made), c_void_p(5), destroy, 1, 0) == INVALID
    driver.call("cuUserObjectCreate", byref(made), c_void_p(5), destroy, 1, 1)
    driver.call("cuGraphRetainUserObject", graph, made, 1, 0)
    driver.call("cuUserObjectRelease", made, 1)
    ready = executable(driver, graph)
    driver.call("cuGraphDestroy", graph)
    assert destroyed == [], "the executable graph holds it"
    driver.call("cuGraphExecDestroy", ready)
    assert destroyed == [5]
    assert driver.cuUserObjectRelease(made, 1) == INVALID


def test_a_graph_can_take_the_references_of_the_program(driver: Driver, graph: c_void_p) -> None:
    destroyed: list[int] = []
    destroy = HOST_FUNCTION(lambda data: destroyed.append(data or 0))
    made = c_void_p()
    driver.call("cuUserObjectCreate", byref(made), c_void_p(6), destroy, 2, 1)
    driver.call("cuGraphRetainUserObject", graph, made, 2, 1)
    assert driver.cuGraphReleaseUserObject(graph, made, 3) == INVALID
    driver.call("cuGraphReleaseUserObject", graph, made, 1)
    assert destroyed == []
    driver.call("cuGraphReleaseUserObject", graph, made, 1)
    assert destroyed == [6]


def test_a_stream_whose_work_is_joined_can_end_before_the_capture(driver: Driver, found: Session) -> None:
    stream, other, forked, joined, made = driver.stream(), c_void_p(), driver.event(), driver.event(), c_void_p()
    address, add_one = driver.to_device(WORD), driver.function(driver.module(), "add_one")
    driver.call("cuStreamCreate", byref(other), 1)
    driver.call("cuStreamBeginCapture_v2", stream, 0)
    driver.call("cuEventRecord", forked, stream)
    driver.call("cuStreamWaitEvent", other, forked, 0)
    assert driver.launch(add_one, address, stream=other) == 0
    driver.call("cuEventRecord", joined, other)
    driver.call("cuStreamWaitEvent", stream, joined, 0)
    driver.call("cuStreamDestroy_v2", other)
    driver.call("cuStreamEndCapture", stream, byref(made))
    driver.call("cuGraphLaunch", executable(driver, made), stream)
    driver.call("cuStreamSynchronize", stream)
    assert driver.from_device(address, WORD).tolist() == [1]
    assert found.ok
