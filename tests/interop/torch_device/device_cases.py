"""What programs do with the device cuda, as functions: each is one case, and raises if something is not as on a GPU.

``python -m tests.interop.torch_device.device_cases (host | driver) [NAME ...]`` runs them in this process, with memory of the
computer or of the virtual driver, and prints one JSON line for each.
"""

from __future__ import annotations

import copy
import ctypes
import io
import json
import pickle
import re
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ptxlab.cuda
import ptxlab.interop.torch

CASES: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


def raises(kind: type[BaseException], text: str, function: Callable[[], object]) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        function()


@case
def a_tensor_says_cuda() -> None:
    x = torch.ones(2, 3, device="cuda")
    assert (str(x.device), x.is_cuda, x.type()) == ("cuda:0", True, "torch.cuda.FloatTensor")
    assert "device='cuda:0'" in repr(x)
    assert torch.cuda.is_available()
    assert torch.version.cuda == "13.0"
    assert torch.backends.cuda.is_built()
    assert x.data_ptr() % 512 == 0
    assert (ctypes.c_float * 6).from_address(x.data_ptr())[5] == 1.0, "the memory is the computer's"


@case
def a_host_copy_is_needed() -> None:
    x = torch.arange(4.0, device="cuda")
    raises(TypeError, "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu()", x.numpy)
    copied = x.cpu()
    x.zero_()
    assert copied.tolist() == [0, 1, 2, 3]
    assert np.asarray(copied).sum() == 6


@case
def devices_do_not_mix() -> None:
    here, there = torch.ones(3), torch.ones(3, device="cuda")
    text = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    for function in (
        lambda: there + here,
        lambda: there.add_(here),
        lambda: torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3, device="cuda")),
        lambda: torch.cat([there, here]),
        lambda: torch.add(there, there, out=torch.empty(3)),
        lambda: torch.tensor(1.0).add_(there.sum()),
        lambda: torch.nn.Linear(3, 2).to("cuda")(here),
    ):
        raises(RuntimeError, text, function)
    assert (there + torch.tensor(2.0)).tolist() == [3, 3, 3], "a CPU tensor of dimension 0 is a number"
    assert there[torch.tensor([0, 2])].tolist() == [1, 1], "indices may be on the CPU"


@case
def views_share_memory() -> None:
    x = torch.arange(24.0, device="cuda").view(4, 6)
    for view in (x.t(), x[1:], x[:, ::2], x.unfold(1, 2, 2), x.reshape(2, 12), x.as_strided((2, 2), (6, 1)), x.diagonal(), x.unsqueeze(0)):
        assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert view._is_view()
        assert view.device == x.device
    x[1:].zero_()
    assert x.sum().item() == 15
    bits = torch.tensor([1.0], device="cuda").view(torch.int32)
    assert bits.item() == 0x3F800000
    z = torch.view_as_complex(torch.tensor([[1.0, 2.0]], device="cuda"))
    assert z.conj().imag.item() == -2.0
    assert (z.conj() * z).real.item() == 5.0


@case
def writing_in_place_and_to_out() -> None:
    x = torch.arange(4.0, device="cuda")
    address = x.data_ptr()
    assert x.add_(1).mul_(2) is x
    assert (x.data_ptr(), x.tolist()) == (address, [2, 4, 6, 8])
    out = torch.empty(0, device="cuda")
    assert torch.add(x, x, out=out) is out
    assert out.tolist() == [4, 8, 12, 16]
    values, indices = torch.empty(0, device="cuda"), torch.empty(0, dtype=torch.int64, device="cuda")
    torch.sort(x, descending=True, out=(values, indices))
    assert (values.tolist(), indices.tolist()) == ([8, 6, 4, 2], [3, 2, 1, 0])
    part = torch.zeros(6, device="cuda")
    torch.mul(x, 2, out=part[1:5])
    assert part.tolist() == [0, 4, 8, 12, 16, 0]


@case
def resizing_keeps_what_fits() -> None:
    x = torch.arange(4.0, device="cuda")
    shared = x.view(4)
    x.resize_(1000)
    assert x[:4].tolist() == [0, 1, 2, 3]
    assert x.device.type == "cuda"
    assert shared.data_ptr() == x.data_ptr(), "the storage is the same"
    x.resize_(2)
    assert x.tolist() == [0, 1]
    y = torch.empty(0, device="cuda")
    y.set_(x)
    assert y.is_set_to(x)
    y.set_(x.untyped_storage(), 1, (2,), (1,))
    assert y.tolist() == [1, 2]


@case
def types_of_eight_bits() -> None:
    x = torch.tensor([0.1, 1.0, 300.0, -2.5], device="cuda")
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16):
        assert torch.equal(x.to(dtype).float().cpu(), x.cpu().to(dtype).float())
        assert x.to(dtype).device.type == "cuda"


@case
def attention() -> None:
    q, k, v = (torch.randn(2, 3, 17, 16, device="cuda", requires_grad=True) for _ in range(3))
    for causal in (False, True):
        found = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        expected = torch.nn.functional.scaled_dot_product_attention(q.cpu(), k.cpu(), v.cpu(), is_causal=causal)
        assert torch.allclose(found.cpu(), expected, atol=1e-5)
    found.sum().backward()
    assert q.grad.device.type == "cuda"


@case
def layers_of_networks_and_their_gradients() -> None:
    for make, shape in (
        (lambda: torch.nn.Conv2d(4, 4, 3, groups=4), (2, 4, 8, 8)),
        (lambda: torch.nn.ConvTranspose2d(4, 2, 3), (2, 4, 5, 5)),
        (lambda: torch.nn.Conv3d(2, 2, 3), (1, 2, 5, 5, 5)),
        (lambda: torch.nn.BatchNorm2d(4), (2, 4, 5, 5)),
        (lambda: torch.nn.MaxPool2d(2), (2, 4, 6, 6)),
        (lambda: torch.nn.LSTM(5, 7, num_layers=2, bidirectional=True), (6, 3, 5)),
        (lambda: torch.nn.GRU(5, 7, bias=False), (6, 3, 5)),
        (lambda: torch.nn.GRUCell(5, 7), (3, 5)),
        (lambda: torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 5, 8)),
    ):
        torch.manual_seed(0)
        here, x = make(), torch.randn(shape)
        results = []
        for device in ("cpu", "cuda"):
            layer, leaf = copy.deepcopy(here).to(device), x.to(device, copy=True).requires_grad_()
            y = layer(leaf)
            y = y[0] if isinstance(y, tuple) else y
            y.square().sum().backward()
            assert y.device.type == device
            results.append([t.cpu() for t in (y, leaf.grad, *(p.grad for p in layer.parameters()))])
        for a, b in zip(*results, strict=True):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-5), type(here).__name__


@case
def optimizers() -> None:
    for make in (
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
        lambda p: torch.optim.AdamW(p, 0.1),
        lambda p: torch.optim.Adam(p, 0.1, fused=True),
        lambda p: torch.optim.Adam(p, 0.1, foreach=True),
        lambda p: torch.optim.RMSprop(p, 0.1),
    ):
        weights = []
        for device in ("cpu", "cuda"):
            torch.manual_seed(1)
            model = torch.nn.Linear(4, 3).to(device)
            optimizer = make(model.parameters())
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.ones(2, 4, device=device)).square().sum().backward()
                optimizer.step()
            weights.append(model.weight.detach().cpu())
        assert torch.allclose(*weights, rtol=1e-5, atol=1e-6)


@case
def mixed_precision() -> None:
    model = torch.nn.Linear(8, 4).to("cuda")
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cuda")
    before = model.weight.detach().clone()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y = model(torch.ones(2, 8, device="cuda"))
        assert y.dtype == torch.bfloat16
        assert torch.nn.functional.softmax(y, -1).dtype == torch.float32
    scaler.scale(y.float().sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(model.weight, before)


@case
def random_numbers() -> None:
    torch.manual_seed(3)
    first = torch.rand(5, device="cuda")
    torch.cuda.manual_seed(3)
    assert torch.equal(first, torch.rand(5, device="cuda"))
    state = torch.cuda.get_rng_state()
    x = torch.nn.functional.dropout(torch.ones(64, device="cuda"), 0.5)
    torch.cuda.set_rng_state(state)
    assert torch.equal(x, torch.nn.functional.dropout(torch.ones(64, device="cuda"), 0.5))
    cpu_state = torch.get_rng_state()
    torch.randn(4, device="cuda")
    assert torch.equal(cpu_state, torch.get_rng_state()), "the CPU has numbers of its own"
    generator = torch.Generator(device="cuda").manual_seed(7)
    a = torch.randperm(20, device="cuda", generator=generator)
    assert torch.equal(a, torch.randperm(20, device="cuda", generator=generator.manual_seed(7)))
    assert str(generator.device) == "cuda:0"
    raises(RuntimeError, "generator", lambda: torch.rand(2, device="cuda", generator=torch.Generator()))
    assert len(torch.cuda.default_generators) == 1
    assert torch.cuda.initial_seed() == 3


@case
def state_of_generators_is_seed_and_offset() -> None:
    generator = torch.Generator(device="cuda").manual_seed(2**40 + 1)
    state = generator.get_state()
    assert state.device.type == "cpu"
    assert state.view(torch.int64).tolist() == [2**40 + 1, 0]
    first, second = (torch.rand(8, device="cuda", generator=generator) for _ in range(2))
    seed, offset = generator.get_state().view(torch.int64).tolist()
    assert (seed, offset) == (2**40 + 1, generator.get_offset())
    assert offset in range(4, 1000, 4)
    assert not torch.equal(first, second)
    for _ in range(2):
        generator.set_state(state)
        assert torch.equal(first, torch.rand(8, device="cuda", generator=generator))
        assert torch.equal(second, torch.rand(8, device="cuda", generator=generator))
    copy = generator.clone_state()
    assert torch.equal(torch.rand(8, device="cuda", generator=copy), torch.rand(8, device="cuda", generator=generator))
    with torch.random.fork_rng(devices=[0]):
        inside = torch.rand(8, device="cuda")
    assert torch.equal(inside, torch.rand(8, device="cuda"))
    raises(RuntimeError, "RNG state is wrong size", lambda: generator.set_state(torch.zeros(3, dtype=torch.uint8)))
    raises(RuntimeError, "multiple of 4", lambda: generator.set_offset(2))


@case
def layer_norm_of_16_bits_computes_in_float() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.rand(16000, 8, device="cuda", dtype=dtype, requires_grad=True)
        weight, bias = (torch.ones(8, device="cuda", dtype=dtype, requires_grad=True) for _ in range(2))
        y = torch.nn.functional.layer_norm(x, (8,), weight, bias)
        y.backward(torch.ones_like(y))
        assert bias.grad.tolist() == [16000.0] * 8, bias.grad
        assert {x.grad.dtype, weight.grad.dtype, bias.grad.dtype, y.dtype} == {dtype}
        exact = x.detach().float()
        _, mean, rstd = torch.ops.aten.native_layer_norm(x.detach(), (8,), weight.detach(), bias.detach(), 1e-5)
        assert torch.allclose(mean, exact.mean(1, keepdim=True), rtol=1e-6)
        assert torch.allclose(rstd, (exact.var(1, keepdim=True, unbiased=False) + 1e-5).rsqrt(), rtol=1e-5)
        mixed = torch.nn.functional.layer_norm(x.detach(), (8,), weight.detach().float().requires_grad_(), bias.detach().float())
        assert mixed.dtype == dtype


@case
def products_of_16_bits_compute_in_float() -> None:
    a, b, c = (torch.randn(shape, device="cuda") for shape in ((128, 1024), (1024, 256), (128, 256)))
    for dtype in (torch.float16, torch.bfloat16):
        x, y, z = (each.to(dtype) for each in (a, b, c))
        product = x.float() @ y.float()
        assert torch.equal(x @ y, product.to(dtype))
        assert torch.equal(torch.bmm(x[None], y[None]), torch.bmm(x[None].float(), y[None].float()).to(dtype))
        for found in (torch.addmm(z, x, y, beta=0.5), torch.baddbmm(z[None], x[None], y[None], beta=0.5)[0]):
            assert found.dtype == dtype
            assert torch.allclose(found.float(), product + z.float() / 2, rtol=torch.finfo(dtype).eps, atol=1e-3)
        raises(RuntimeError, "same dtype", lambda x=x: x @ b)


@case
def saved_and_loaded() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).to("cuda")
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for where, device in ((None, "cuda"), ("cpu", "cpu"), ("cuda:0", "cuda"), (torch.device("cuda"), "cuda")):
        file.seek(0)
        state = torch.load(file, map_location=where)
        assert state["0.weight"].device.type == device
        assert torch.equal(state["0.weight"].cpu(), model[0].weight.cpu())
    model.load_state_dict(state)
    assert torch.equal(copy.deepcopy(model)[0].weight, model[0].weight)
    x = pickle.loads(pickle.dumps(torch.arange(3, device="cuda")))
    assert (x.device.type, x.tolist()) == ("cuda", [0, 1, 2])
    assert torch.UntypedStorage(8, device="cuda").device.type == "cuda"
    assert torch.UntypedStorage(8).device.type == "cpu"


@case
def pinned_memory() -> None:
    x = torch.ones(5).pin_memory()
    assert x.is_pinned()
    assert not torch.ones(5).is_pinned()
    assert torch.empty(4, pin_memory=True).is_pinned()
    assert x.to("cuda", non_blocking=True).sum().item() == 5
    assert torch.ones(3, device="cuda").to("cpu", non_blocking=True).is_pinned()
    raises(RuntimeError, "cannot pin", lambda: torch.ones(2, device="cuda").pin_memory())
    loader = torch.utils.data.DataLoader(torch.arange(8.0).reshape(4, 2), batch_size=2, pin_memory=True)
    batches = [batch for batch in loader if batch.is_pinned()]
    assert torch.cat([batch.cuda() for batch in batches]).flatten().tolist() == list(range(8))


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


@case
def products_of_scaled_matrices() -> None:
    """One scale for all, for each row, and for each block of 16 or 32 elements; the sums are integers, so that they are exact."""
    generator = np.random.default_rng(5)
    rows, columns, inner = 160, 48, 96
    left, right = generator.integers(-2, 3, (rows, inner)), generator.integers(-2, 3, (columns, inner))
    a, b = (torch.tensor(each, dtype=torch.float32).to(torch.float8_e4m3fn).to("cuda") for each in (left, right))
    one = torch.tensor(2.0, device="cuda")
    assert np.array_equal(torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.float32).cpu(), 4 * left @ right.T)
    by_row, by_column = generator.integers(1, 4, (rows, 1)), generator.integers(1, 4, (1, columns))
    scales = (torch.tensor(each, dtype=torch.float32, device="cuda") for each in (by_row, by_column))
    assert np.array_equal(torch._scaled_mm(a, b.t(), *scales, out_dtype=torch.float32).cpu(), by_row * (left @ right.T) * by_column)

    def tiled(scale: Any) -> Any:
        """The order of scales that cuBLAS takes: tiles of 128 rows and 4 columns, element by element."""
        tiles = np.zeros((-(-scale.shape[0] // 128), -(-scale.shape[1] // 4), 32, 4, 4), np.float32)
        for (row, column), value in np.ndenumerate(scale):
            tiles[row // 128, column // 4, row % 32, row % 128 // 32, column % 4] = value
        return torch.tensor(tiles.ravel())

    def packed(values: Any) -> Any:
        codes = np.where(values < 0, 8, 0) + np.array([0, 2, 4])[abs(values)]
        return torch.tensor((codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)).view(torch.float4_e2m1fn_x2).to("cuda")

    for block, kind, pair in (
        (16, torch.float8_e4m3fn, (packed(left), packed(right))),
        (32, torch.float8_e8m0fnu, (a, b)),
    ):
        scale_a, scale_b = (2.0 ** generator.integers(0, 3, (size, inner // block)) for size in (rows, columns))
        expected = (left * scale_a.repeat(block, 1)) @ (right * scale_b.repeat(block, 1)).T
        given = [tiled(scale).to(kind).to("cuda") for scale in (scale_a, scale_b)]
        assert np.array_equal(torch._scaled_mm(pair[0], pair[1].t(), *given, out_dtype=torch.float32).cpu(), expected), block
    raises(ValueError, "Invalid scaling configuration", lambda: torch._scaled_mm(a, b.t(), given[0][:-1], given[1]))

    from torch.nn.functional import ScalingType, SwizzleType, scaled_grouped_mm

    ends = [32, 160]
    groups, matrices = np.split(left, ends[:1]), np.stack([right, right[::-1]])
    scales_a, scales_b = ([2.0 ** generator.integers(0, 3, (len(each), inner // 32)) for each in many] for many in (groups, matrices))
    expected = [
        (group * scale_a.repeat(32, 1)) @ (matrix * scale_b.repeat(32, 1)).T
        for group, matrix, scale_a, scale_b in zip(groups, matrices, scales_a, scales_b, strict=True)
    ]
    found = scaled_grouped_mm(
        a,
        torch.tensor(matrices, dtype=torch.float32).to(torch.float8_e4m3fn).to("cuda").transpose(1, 2),
        scale_a=torch.cat([tiled(scale) for scale in scales_a]).to(torch.float8_e8m0fnu).to("cuda"),
        scale_recipe_a=ScalingType.BlockWise1x32,
        scale_b=torch.stack([tiled(scale) for scale in scales_b]).to(torch.float8_e8m0fnu).to("cuda"),
        scale_recipe_b=ScalingType.BlockWise1x32,
        swizzle_a=SwizzleType.SWIZZLE_32_4_4,
        swizzle_b=SwizzleType.SWIZZLE_32_4_4,
        offs=torch.tensor(ends, dtype=torch.int32, device="cuda"),
        output_dtype=torch.float32,
    )
    assert np.array_equal(found.cpu(), np.concatenate(expected))


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
def memory_statistics() -> None:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == 1 << 20
    free, total = torch.cuda.mem_get_info()
    assert total == torch.cuda.get_device_properties(0).total_memory
    assert total - free == torch.cuda.memory_allocated()
    del x
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() >= before + (1 << 20)
    assert "allocated" in torch.cuda.memory_summary().lower()
    raises(torch.cuda.OutOfMemoryError, "CUDA out of memory", lambda: torch.empty(total + 1, dtype=torch.uint8, device="cuda"))


@case
def results_are_in_device_memory() -> None:
    before = torch.cuda.memory_allocated()
    x = torch.ones(1000, device="cuda")
    kept = [x + 1, x.sort(), torch.nn.functional.conv1d(x.view(1, 1, -1), torch.ones(1, 1, 3, device="cuda")), x.nonzero()]
    assert torch.cuda.memory_allocated() - before >= 4 * (1000 + 1000 + 1000 + 998) + 8 * 2000
    del kept, x
    assert torch.cuda.memory_allocated() == before


@case
def properties() -> None:
    found = torch.cuda.get_device_properties("cuda:0")
    assert (found.major, found.minor) == torch.cuda.get_device_capability() == (10, 0)
    assert (found.multi_processor_count, found.warp_size, found.shared_memory_per_block_optin) == (148, 32, 232448)
    assert found.name == torch.cuda.get_device_name()
    assert torch.cuda.device_count() == 1
    assert not torch.cuda.can_device_access_peer(0, 0)
    assert torch.cuda.cudart().cudaMemGetInfo(0)[1] == found.total_memory
    torch.cuda._sleep(100)
    with torch.cuda.nvtx.range("a"), torch.cuda.profiler.profile():
        torch.cuda.nvtx.mark("b")
    assert torch.cuda.is_bf16_supported()
    assert torch.cuda.get_arch_list() == ["sm_100a"]
    assert torch.accelerator.current_accelerator() == torch.device("cuda")


@case
def exchange_with_other_libraries() -> None:
    x = torch.arange(6.0, device="cuda").view(2, 3)
    assert int(x.__dlpack_device__()[0]) == 2
    again = torch.from_dlpack(x)
    assert (again.data_ptr(), again.device) == (x.data_ptr(), x.device)
    interface = x.t().__cuda_array_interface__
    assert (interface["shape"], interface["strides"], interface["data"][0]) == ((3, 2), (4, 12), x.data_ptr())
    seen = torch.as_tensor(type("Array", (), {"__cuda_array_interface__": interface})(), device="cuda")
    assert torch.equal(seen, x.t())
    assert seen.data_ptr() == x.data_ptr()
    from ptxlab.formats import array_of

    array = array_of(x)
    assert array is not None
    array[0, 0] = 7
    assert x[0, 0].item() == 7


@case
def default_devices() -> None:
    with torch.device("cuda"):
        assert torch.ones(2).device.type == "cuda"
    torch.set_default_device("cuda")
    try:
        assert torch.nn.Linear(2, 2)(torch.ones(1, 2)).device.type == "cuda"
    finally:
        torch.set_default_device(None)
    assert torch.ones(2).cuda().to("cpu").device.type == "cpu"
    assert torch.ones(2).to(device="cuda", dtype=torch.float16).dtype == torch.float16
    assert torch.empty_like(torch.ones(2, device="cuda")).device.type == "cuda"


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


@case
def functional_transformations() -> None:
    x = torch.randn(4, 3, device="cuda")
    assert torch.allclose(torch.func.vmap(lambda v: v.square().sum())(x), x.square().sum(1))
    assert torch.allclose(torch.func.grad(lambda v: v.square().sum())(x), 2 * x)
    assert torch.allclose(torch.func.jvp(lambda v: v.square(), (x,), (torch.ones_like(x),))[1], 2 * x)
    with torch.inference_mode():
        assert (x + x).is_inference()


@case
def a_call_of_a_small_operator_takes_little_time() -> None:
    x = torch.randn(8, device="cuda")
    for function in (lambda: x + x, lambda: x.mul_(1.0), lambda: x.sum(), lambda: x.view(2, 4), lambda: torch.empty(8, device="cuda")):
        best = min(_seconds(function) for _ in range(5))
        assert best < 25e-6, f"{best * 1e6:.1f} us"


def _seconds(function: Callable[[], object], calls: int = 300) -> float:
    start = time.process_time()
    for _ in range(calls):
        function()
    return (time.process_time() - start) / calls


def main(names: list[str]) -> None:
    warnings.filterwarnings("ignore")
    for name, function in CASES.items():
        if not names or name in names:
            try:
                function()
                wrong = ""
            except Exception:
                wrong = traceback.format_exc()
            print(json.dumps({"case": name, "wrong": wrong}), flush=True)


torch: Any = None
if __name__ == "__main__":
    if sys.argv[1] == "driver":
        ptxlab.cuda.install()
    ptxlab.interop.torch.install()
    import torch

    torch.set_num_threads(1)
    main(sys.argv[2:])
