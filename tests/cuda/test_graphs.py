"""Graphs with kernels: what launches of a captured graph compute, and changes of executable graphs."""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np

from ptxlab.interop.session import Session
from tests.cuda.driver_helpers import Driver, needs_compiler

pytestmark = needs_compiler
WORD = np.zeros(1, np.uint32)
HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)


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


class CopyWanted(ctypes.Structure):
    """CUDA_MEMCPY3D, as far as a copy of bytes from the device to the host needs it, with what stands before it."""

    _fields_ = (
        ("flags", c_int * 2),
        ("context", c_void_p),
        ("source", c_size_t * 4),
        ("source_kind", c_int),
        ("source_host", c_void_p),
        ("source_device", c_uint64),
        ("source_rest", c_size_t * 4),
        ("target", c_size_t * 4),
        ("target_kind", c_int),
        ("target_host", c_void_p),
        ("target_device", c_uint64),
        ("target_rest", c_size_t * 4),
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
    )


class KernelWanted(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS."""

    _fields_ = (
        ("function", c_void_p),
        ("shape", c_uint32 * 7),
        ("parameters", c_void_p),
        ("extra", c_void_p),
        ("kernel", c_void_p),
        ("context", c_void_p),
    )


class FillWanted(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS."""

    _fields_ = (
        ("to", c_uint64),
        ("pitch", c_size_t),
        ("value", c_uint32),
        ("element", c_uint32),
        ("width", c_size_t),
        ("height", c_size_t),
        ("context", c_void_p),
    )


class HostWanted(ctypes.Structure):
    """CUDA_HOST_NODE_PARAMS."""

    _fields_ = (("function", c_void_p), ("data", c_void_p))


def test_a_graph_keeps_the_kernels_of_a_module_that_is_unloaded(driver: Driver, found: Session) -> None:
    stream, address, module, graph = driver.stream(), driver.to_device(WORD), driver.module(), c_void_p()
    driver.call("cuStreamBeginCapture_v2", stream, 0)
    assert driver.launch(driver.function(module, "add_one"), address, stream=stream) == 0
    driver.call("cuStreamEndCapture", stream, byref(graph))
    driver.call("cuModuleUnload", module)
    made, images = executable(driver, graph), driver.own.bridge._modules
    for _ in range(2):
        driver.call("cuGraphLaunch", made, stream)
    driver.call("cuStreamSynchronize", stream)
    assert driver.from_device(address, WORD).tolist() == [2]
    before = len(images)
    for handle, destroy in ((made, "cuGraphExecDestroy"), (graph, "cuGraphDestroy")):
        driver.call(destroy, handle)
    driver.call("cuModuleUnload", driver.module())
    assert len(images) == before - 1, "the image has gone with the graph"
    assert found.ok


def node_wanted(kind: int, wanted: ctypes.Structure) -> ctypes.Array[ctypes.c_char]:
    """CUgraphNodeParams: the type, and what the type has."""
    made = ctypes.create_string_buffer(256)
    ctypes.memmove(made, byref(c_int(kind)), 4)
    ctypes.memmove(ctypes.addressof(made) + 16, byref(wanted), ctypes.sizeof(wanted))
    return made


KERNEL, COPY, FILL, HOST, CHILD, EMPTY, EVENT_WAIT, EVENT_RECORD, BATCH = 0, 1, 2, 3, 4, 5, 6, 7, 12
HOST_MEMORY, DEVICE_MEMORY = 1, 2
INVALID_VALUE, NOT_SUPPORTED = 1, 801


def test_nodes_of_all_types_by_one_structure(driver: Driver, found: Session) -> None:
    stream, address, into = driver.stream(), driver.allocate(4), np.zeros(1, np.uint32)
    add_one, argument, graph = driver.function(driver.module(), "add_one"), c_uint64(address.value), c_void_p()
    driver.call("cuGraphCreate", byref(graph), 0)
    pointers = (c_void_p * 1)(ctypes.addressof(argument))
    fill = FillWanted(to=address.value, value=7, element=4, width=1, height=1)
    kernel = KernelWanted(function=add_one, shape=(1, 1, 1, 1, 1, 1, 0), parameters=ctypes.addressof(pointers))
    copy = CopyWanted(
        source_kind=DEVICE_MEMORY,
        source_device=address.value,
        target_kind=HOST_MEMORY,
        target_host=into.ctypes.data,
        width=4,
        height=1,
        depth=1,
    )
    nodes: list[c_void_p] = []
    for kind, wanted in ((FILL, fill), (KERNEL, kernel), (COPY, copy), (EMPTY, FillWanted())):
        node, before = c_void_p(), (c_void_p * 1)(*nodes[-1:])
        driver.call("cuGraphAddNode_v2", byref(node), graph, before, None, c_size_t(len(nodes[-1:])), node_wanted(kind, wanted))
        nodes.append(node)
    made = executable(driver, graph)
    fill.value = 20
    driver.call("cuGraphNodeSetParams", nodes[0], node_wanted(FILL, fill))
    for expected in (8, 31):
        driver.call("cuGraphLaunch", made, stream)
        driver.call("cuStreamSynchronize", stream)
        assert into.tolist() == [expected]
        fill.value = 30
        driver.call("cuGraphExecNodeSetParams", made, nodes[0], node_wanted(FILL, fill))
    again = executable(driver, graph)
    driver.call("cuGraphLaunch", again, stream)
    driver.call("cuStreamSynchronize", stream)
    assert into.tolist() == [21]
    assert found.ok


def params_of(driver: Driver, node: c_void_p) -> tuple[int, Any]:
    """The type of a node, and what the type has."""
    room = ctypes.create_string_buffer(b"\xff" * 256, 256)
    driver.call("cuGraphNodeGetParams", node, room)
    kind = c_int.from_buffer(room).value
    structure = {KERNEL: KernelWanted, COPY: CopyWanted, FILL: FillWanted, HOST: HostWanted}.get(kind)
    assert not any(room.raw[4:16])
    assert not any(room.raw[248:256])
    return kind, None if structure is None else structure.from_buffer_copy(room.raw[16:])


def test_what_nodes_of_all_types_hold(driver: Driver, found: Session) -> None:
    """Nodes by hand and captured ones; what is read of the first makes the second."""
    stream, address, into = driver.stream(), driver.allocate(4), np.zeros(1, np.uint32)
    add_one, graph, inner, context = driver.function(driver.module(), "add_one"), c_void_p(), c_void_p(), driver.context()
    event, calls = driver.event(), list[int]()
    call = HOST_FUNCTION(lambda data: calls.append(data))
    driver.call("cuGraphCreate", byref(inner), 0)
    driver.call("cuStreamBeginCapture_v2", stream, 0)
    driver.call("cuMemsetD32Async", address, 7, c_size_t(1), stream)
    assert driver.launch(add_one, address, stream=stream) == 0
    driver.call("cuMemcpyDtoHAsync_v2", c_void_p(into.ctypes.data), address, c_size_t(4), stream)
    driver.call("cuLaunchHostFunc", stream, call, c_void_p(12))
    driver.call("cuStreamEndCapture", stream, byref(graph))
    count, nodes, again = c_size_t(4), (c_void_p * 4)(), c_void_p()
    driver.call("cuGraphGetNodes", graph, nodes, byref(count))
    given = [params_of(driver, c_void_p(node)) for node in nodes]
    assert [kind for kind, _ in given] == [FILL, KERNEL, COPY, HOST]
    fill, kernel, copy, host = (wanted for _, wanted in given)
    assert (fill.to, fill.value, fill.element, fill.width, fill.height, fill.context) == (address.value, 7, 4, 1, 1, context.value)
    assert (kernel.function, list(kernel.shape)) == (add_one.value, [1, 1, 1, 1, 1, 1, 0])
    assert ctypes.cast(kernel.parameters, ctypes.POINTER(ctypes.POINTER(c_uint64)))[0][0] == address.value
    assert (copy.source_kind, copy.source_device, copy.target_kind) == (DEVICE_MEMORY, address.value, HOST_MEMORY)
    assert (copy.target_host, copy.width, copy.height, copy.depth) == (into.ctypes.data, 4, 1, 1)
    assert (copy.context, host.data) == (context.value, 12)
    driver.call("cuGraphCreate", byref(again), 0)
    before = (c_void_p * 1)()
    for i, (kind, wanted) in enumerate(given):
        node = c_void_p()
        driver.call("cuGraphAddNode_v2", byref(node), again, before, None, c_size_t(min(i, 1)), node_wanted(kind, wanted))
        before[0] = node.value
    driver.call("cuGraphLaunch", executable(driver, again), stream)
    driver.call("cuStreamSynchronize", stream)
    assert (into.tolist(), calls) == ([8], [12])
    for name, kind, handle in (
        ("cuGraphAddChildGraphNode", CHILD, inner),
        ("cuGraphAddEventWaitNode", EVENT_WAIT, event),
        ("cuGraphAddEventRecordNode", EVENT_RECORD, event),
    ):
        node, room = c_void_p(), ctypes.create_string_buffer(256)
        driver.call(name, byref(node), graph, None, c_size_t(0), handle)
        driver.call("cuGraphNodeGetParams", node, room)
        assert c_int.from_buffer(room).value == kind
        if kind != CHILD:
            assert c_uint64.from_buffer(room, 16).value == event.value
    assert driver.cuGraphNodeGetParams(nodes[0], None) == INVALID_VALUE
    assert driver.cuGraphNodeGetParams(address, ctypes.create_string_buffer(256)) == INVALID_VALUE
    assert found.ok


def test_wrong_nodes_by_one_structure(driver: Driver, found: Session) -> None:
    graph, node = c_void_p(), c_void_p()
    driver.context()
    driver.call("cuGraphCreate", byref(graph), 0)
    driver.call("cuGraphAddNode", byref(node), graph, None, c_size_t(0), node_wanted(EMPTY, FillWanted()))
    assert driver.cuGraphAddNode(byref(node), graph, None, c_size_t(0), None) == INVALID_VALUE
    reserved = node_wanted(EMPTY, FillWanted())
    reserved[4] = b"\1"
    assert driver.cuGraphAddNode(byref(node), graph, None, c_size_t(0), reserved) == INVALID_VALUE
    assert driver.cuGraphNodeSetParams(node, node_wanted(KERNEL, KernelWanted())) == INVALID_VALUE
    assert not found.diagnostics
    assert driver.cuGraphAddNode(byref(node), graph, None, c_size_t(0), node_wanted(BATCH, FillWanted())) == NOT_SUPPORTED
    assert [d.code for d in found.diagnostics] == ["I503"]
