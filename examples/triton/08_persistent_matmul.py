"""Persistent matrix multiplication with host tensor descriptors: a few programs compute all tiles.

On sm_100a and sm_103a the loop is warp-specialised and one variant uses CTA pairs; on sm_90a it is pipelined.
"""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl
from report import differs
from triton.tools.tensor_descriptor import TensorDescriptor

DRIVER = triton.runtime.driver.active
DEVICE = DRIVER.get_active_torch_device()


@triton.jit
def tile_of(tile, tiles_m, tiles_n, GROUP: tl.constexpr):
    first = tile // (GROUP * tiles_n) * GROUP
    height = min(tiles_m - first, GROUP)
    return first + tile % height, tile % (GROUP * tiles_n) // height


@triton.jit
def persistent_kernel(
    a_desc, b_desc, c_desc, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, WARP_SPECIALIZE: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True, warp_specialize=WARP_SPECIALIZE):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            a = a_desc.load([tile_m * BM, k])
            b = b_desc.load([tile_n * BN, k])
            acc = tl.dot(a, b.T, acc)
        c_desc.store([tile_m * BM, tile_n * BN], acc.to(tl.float16))


@triton.jit
def tile_kernel(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One tile for each program, of one CTA or of several."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([m, k]), b_desc.load([n, k]).T, acc)
    c_desc.store([m, n], acc.to(tl.float16))


def descriptors(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, BM: int, BN: int, BK: int) -> list[TensorDescriptor]:
    blocks = ((a, [BM, BK]), (b, [BN, BK]), (c, [BM, BN]))
    return [TensorDescriptor.from_tensor(tensor, block) for tensor, block in blocks]


def main() -> int:
    torch.manual_seed(0)
    M, N, K = 384, 256, 192
    a = torch.randn(M, K, device=DEVICE, dtype=torch.float16)
    b = torch.randn(N, K, device=DEVICE, dtype=torch.float16)
    exact = a.double() @ b.double().T
    blackwell = DRIVER.get_current_target().arch >= 100

    c = torch.zeros(M, N, device=DEVICE, dtype=torch.float16)
    tile = {"BM": 128 if blackwell else 64, "BN": 128, "BK": 64}
    sms = DRIVER.utils.get_device_properties(DRIVER.get_current_device())["multiprocessor_count"]
    programs = min(3, sms)
    persistent_kernel[(programs,)](
        *descriptors(a, b, c, **tile), M, N, K, **tile, GROUP=2, WARP_SPECIALIZE=blackwell, num_warps=4, num_stages=3
    )
    wrong = differs("persistent matmul" + (", warp-specialised" if blackwell else ""), c, exact, 4e-2)

    c.zero_()
    tile = {"BM": 128, "BN": 256, "BK": 64}
    tile_kernel[(M // 128, N // 256)](*descriptors(a, b, c, **tile), K, **tile, num_ctas=2, num_warps=4)
    return wrong | differs("descriptor matmul, clusters of two CTAs", c, exact, 4e-2)


if __name__ == "__main__":
    sys.exit(main())
