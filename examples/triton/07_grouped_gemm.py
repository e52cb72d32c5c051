"""Products of different sizes in one launch, with tables of pointers to the operands. Runs on sm_90a, sm_100a and sm_103a."""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl
from report import differs

DEVICE = triton.runtime.driver.active.get_active_torch_device()


@triton.jit
def grouped_kernel(addresses, sizes, strides, groups, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Each program computes every PROGRAMS-th tile, counted over all products."""
    tile = tl.program_id(0)
    before = 0
    for g in range(groups):
        M, N, K = tl.load(sizes + 3 * g), tl.load(sizes + 3 * g + 1), tl.load(sizes + 3 * g + 2)
        across = tl.cdiv(N, BN)
        tiles = tl.cdiv(M, BM) * across
        while (tile >= before) & (tile < before + tiles):
            a_ptr = tl.load(addresses + 3 * g).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(addresses + 3 * g + 1).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(addresses + 3 * g + 2).to(tl.pointer_type(tl.float16))
            sa, sb, sc = tl.load(strides + 3 * g), tl.load(strides + 3 * g + 1), tl.load(strides + 3 * g + 2)
            m = (tile - before) // across * BM + tl.arange(0, BM)
            n = (tile - before) % across * BN + tl.arange(0, BN)
            k = tl.arange(0, BK)
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for start in range(0, K, BK):
                a = tl.load(a_ptr + m[:, None] * sa + (start + k)[None, :], mask=(m[:, None] < M) & ((start + k)[None, :] < K), other=0.0)
                b = tl.load(b_ptr + (start + k)[:, None] * sb + n[None, :], mask=((start + k)[:, None] < K) & (n[None, :] < N), other=0.0)
                acc = tl.dot(a, b, acc)
            tl.store(c_ptr + m[:, None] * sc + n[None, :], acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))
            tile += PROGRAMS
        before += tiles


def grouped(a: list[torch.Tensor], b: list[torch.Tensor]) -> list[torch.Tensor]:
    c = [torch.empty(x.shape[0], y.shape[1], device=DEVICE, dtype=x.dtype) for x, y in zip(a, b, strict=True)]
    triples = list(zip(a, b, c, strict=True))
    addresses = torch.tensor([[t.data_ptr() for t in triple] for triple in triples], device=DEVICE)
    sizes = torch.tensor([[x.shape[0], y.shape[1], x.shape[1]] for x, y, _ in triples], dtype=torch.int32, device=DEVICE)
    strides = torch.tensor([[t.stride(0) for t in triple] for triple in triples], dtype=torch.int32, device=DEVICE)
    programs = 4
    grouped_kernel[(programs,)](addresses, sizes, strides, len(a), PROGRAMS=programs, BM=64, BN=64, BK=32)
    return c


def main() -> int:
    torch.manual_seed(0)
    shapes = ((128, 192, 96), (64, 128, 64), (96, 72, 40))
    a = [torch.randn(M, K, device=DEVICE, dtype=torch.float16) for M, _, K in shapes]
    b = [torch.randn(K, N, device=DEVICE, dtype=torch.float16) for _, N, K in shapes]
    wrong = 0
    for i, (c, x, y) in enumerate(zip(grouped(a, b), a, b, strict=True)):
        wrong |= differs(f"grouped GEMM, product {i}", c, x.double() @ y.double(), 3e-2)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
