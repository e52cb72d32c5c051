"""Networks on the device cuda, their gradients, random numbers, and products of matrices."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from tests.interop.torch_device.case_table import case, raises

torch: Any = None
"""The module, once the device is there."""


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
