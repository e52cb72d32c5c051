"""Streams, events, graphs and threads of the device cuda."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import ptxlab.cuda
import ptxlab.interop.torch
from tests.interop.torch_device.case_table import case, raises

torch: Any = None
"""The module, once the device is there."""


@case
def streams_and_events() -> None:
    x, stream = torch.ones(4, device="cuda"), torch.cuda.Stream()
    assert torch.cuda.current_stream() == torch.cuda.default_stream() != stream
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
        assert torch._C._cuda_getCurrentRawStream(0) == stream.cuda_stream != 0
        y = x * 2
        x.record_stream(stream)
    torch.cuda.current_stream().wait_stream(stream)
    stream.wait_event(start)
    end.record()
    end.synchronize()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) > 0
    assert end.query()
    assert stream.query()
    assert y.sum().item() == 8
    assert isinstance(stream, torch.Stream)
    assert isinstance(end, torch.Event)
    raises(RuntimeError, "recorded", lambda: torch.cuda.Event(enable_timing=True).elapsed_time(end))
    assert torch.cuda.ExternalStream(stream.cuda_stream).cuda_stream == stream.cuda_stream
    with torch.cuda.device(0):
        assert torch.cuda.current_device() == 0
    raises(RuntimeError, "invalid device ordinal", lambda: torch.cuda.set_device(5))


@case
def graphs() -> None:
    x, total = torch.ones(4, device="cuda"), torch.zeros(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=torch.cuda.graph_pool_handle()):
        assert torch.cuda.is_current_stream_capturing()
        total.add_(x)
        doubled = total * 2
        raises(RuntimeError, "not permitted when stream is capturing", lambda: total.sum().item())
    assert not torch.cuda.is_current_stream_capturing()
    assert total.tolist() == [0] * 4, "a capture changes nothing"
    for step in (1, 2):
        graph.replay()
        assert (total.tolist(), doubled.tolist()) == ([step] * 4, [2 * step] * 4)
    x.fill_(10)
    graph.replay()
    assert doubled.tolist() == [24] * 4
    model = torch.nn.Linear(4, 2).to("cuda")
    data, static = torch.randn(3, 4, device="cuda"), torch.zeros(3, 4, device="cuda")
    with torch.cuda.graph(graph := torch.cuda.CUDAGraph()):
        loss = model(static).square().sum()
        (gradient,) = torch.autograd.grad(loss, (model.weight,))
    static.copy_(data)
    graph.replay()
    expected = torch.autograd.grad(model(data).square().sum(), (model.weight,))[0]
    assert torch.allclose(gradient, expected)
    raises(RuntimeError, "without a preceding successful capture", lambda: torch.cuda.CUDAGraph().replay())


@case
def a_profile_of_the_device_is_empty() -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA], record_shapes=True) as profiled:
        torch.ones(3, device="cuda").add_(1)
    assert len(profiled.key_averages()) == 0
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        torch.ones(3, device="cuda").add_(1)
    assert "aten::add_" in {event.key for event in profiled.key_averages()}


COPY = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry copy(.param .u64 target, .param .u64 source) {
  .reg .b32 %r<3>; .reg .b64 %rd<3>;
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [target];
  ld.param.u64 %rd2, [source];
  mad.wide.u32 %rd1, %r1, 4, %rd1;
  mad.wide.u32 %rd2, %r1, 4, %rd2;
  ld.global.u32 %r2, [%rd2];
  st.global.u32 [%rd1], %r2;
  ret;
}
"""


@case
def graphs_with_launches_of_other_code() -> None:
    """What another framework launches in the stream of a capture belongs to the graph, in its place between the operators."""
    if not ptxlab.cuda.installed():
        return
    from cuda.bindings import driver as cu

    def made(result: tuple[Any, ...]) -> Any:
        assert int(result[0]) == 0, result[0]
        return result[1] if len(result) == 2 else result[1:]

    kernel = made(cu.cuModuleGetFunction(made(cu.cuModuleLoadData(COPY.encode())), b"copy"))
    x, copied = torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        x.add_(1)
        values = (copied.data_ptr(), x.data_ptr())
        made((*cu.cuLaunchKernel(kernel, 1, 1, 1, 4, 1, 1, 0, stream.cuda_stream, (values, (ctypes.c_void_p, ctypes.c_void_p)), 0), None))
        doubled = copied * 2
    torch.cuda.synchronize()
    assert (x.tolist(), copied.tolist()) == ([0] * 4, [0] * 4), "a capture changes nothing"
    for step in (1, 2):
        graph.replay()
        assert (copied.tolist(), doubled.tolist()) == ([step] * 4, [2 * step] * 4)


@case
def threads() -> None:
    wrong: list[str] = []

    def work(number: int) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x = torch.full((100,), float(number), device="cuda", requires_grad=True)
            for _ in range(50):
                (x * x).sum().backward()
            if x.grad[0].item() != 100.0 * number:
                wrong.append(f"{number}: {x.grad[0].item()}")

    workers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong, wrong
