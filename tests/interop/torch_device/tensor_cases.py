"""Tensors on the device cuda: what they say, their memory, their types, and what a call costs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.interop.torch_device.case_table import case, raises
from tests.time_helpers import processor_seconds, quickest

torch: Any = None
"""The module, once the device is there."""


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
def results_are_in_device_memory() -> None:
    before = torch.cuda.memory_allocated()
    x = torch.ones(1000, device="cuda")
    kept = [x + 1, x.sort(), torch.nn.functional.conv1d(x.view(1, 1, -1), torch.ones(1, 1, 3, device="cuda")), x.nonzero()]
    assert torch.cuda.memory_allocated() - before >= 4 * (1000 + 1000 + 1000 + 998) + 8 * 2000
    del kept, x
    assert torch.cuda.memory_allocated() == before


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
def functional_transformations() -> None:
    x = torch.randn(4, 3, device="cuda")
    assert torch.allclose(torch.func.vmap(lambda v: v.square().sum())(x), x.square().sum(1))
    assert torch.allclose(torch.func.grad(lambda v: v.square().sum())(x), 2 * x)
    assert torch.allclose(torch.func.jvp(lambda v: v.square(), (x,), (torch.ones_like(x),))[1], 2 * x)
    with torch.inference_mode():
        assert (x + x).is_inference()


CALLS, MOST = 300, 25e-6
"""The calls of one measurement, and the most seconds that one of them may take."""


def call_often(function: Callable[[], object]) -> None:
    for _ in range(CALLS):
        function()


@case
def a_call_of_a_small_operator_takes_little_time() -> None:
    x = torch.randn(8, device="cuda")
    for function in (lambda: x + x, lambda: x.mul_(1.0), lambda: x.sum(), lambda: x.view(2, 4), lambda: torch.empty(8, device="cuda")):
        best = quickest(partial(processor_seconds, partial(call_often, function)), CALLS * MOST)
        assert best < CALLS * MOST, f"{best / CALLS * 1e6:.1f} us"
