"""Gluon matrix multiplications, with tcgen05.mma and with wgmma, into which one mistake can be planted."""

from __future__ import annotations

import sys
from typing import Any

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_mma,
    tma,
)
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor


@gluon.jit
def matmul(a_desc, b_desc, c_desc, K, BUG: gl.constexpr):
    BM: gl.constexpr = a_desc.block_type.shape[0]
    BN: gl.constexpr = b_desc.block_type.shape[0]
    a_ring = gl.allocate_shared_memory(a_desc.dtype, [1] + a_desc.block_type.shape, a_desc.layout)  # noqa: RUF005
    b_tile = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_type.shape, b_desc.layout)
    acc = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    loaded = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    phase = 0
    for k in range(0, K, a_desc.block_shape[1]):
        mbarrier.expect(loaded, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        tma.async_load(a_desc, [0, k], loaded, a_ring.index(0))
        tma.async_load(b_desc, [0, k], loaded, b_tile)
        if BUG != "missing load wait":
            mbarrier.wait(loaded, phase)
        operand = a_ring.index(k // 8 if BUG == "wrong shared-memory descriptor" else 0)
        tcgen05_mma(operand, b_tile.permute((1, 0)), acc, use_acc=k > 0, mbarriers=[done])
        if BUG != "missing wait":
            mbarrier.wait(done, phase)
        phase ^= 1
    if BUG == "wrong phase":
        mbarrier.wait(done, phase)  # once more
    c_tile = gl.allocate_shared_memory(c_desc.dtype, c_desc.block_type.shape, c_desc.layout)
    result = acc.load()
    c_tile.store(result.to(c_desc.dtype))
    fence_async_shared()
    tma.async_store(c_desc, [0, 0], c_tile)
    tma.store_wait(pendings=0)


@gluon.jit
def hopper_matmul(a_desc, b_desc, c_desc, K, BUG: gl.constexpr):
    BM: gl.constexpr = a_desc.block_type.shape[0]
    BN: gl.constexpr = b_desc.block_type.shape[0]
    a_tile = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_type.shape, a_desc.layout)
    b_tile = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_type.shape, b_desc.layout)
    layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, BN, 16])
    acc = gl.zeros((BM, BN), gl.float32, layout)
    loaded = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    phase = 0
    for k in range(0, K, a_desc.block_shape[1]):
        mbarrier.expect(loaded, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        tma.async_load(a_desc, [0, k], loaded, a_tile)
        tma.async_load(b_desc, [0, k], loaded, b_tile)
        if BUG != "missing load wait":
            mbarrier.wait(loaded, phase)
        acc = warpgroup_mma(a_tile, b_tile.permute((1, 0)), acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=1 if BUG == "missing wait" else 0, deps=(acc,))
        phase ^= 1
    if BUG == "wrong phase":
        mbarrier.wait(loaded, phase)  # once more
    c_tile = gl.allocate_shared_memory(c_desc.dtype, c_desc.block_type.shape, c_desc.layout)
    c_tile.store(acc.to(c_desc.dtype))
    fence_async_shared()
    tma.async_store(c_desc, [0, 0], c_tile)
    tma.store_wait(pendings=0)


def run(kernel: Any, bug: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, and the right one."""
    torch.manual_seed(0)
    M, N, K = 128, 64, 128
    a = torch.randint(-3, 4, (M, K)).half()
    b = torch.randint(-3, 4, (N, K)).half()
    c = torch.zeros(M, N, dtype=torch.float16)
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    rows = 2 * M if bug == "wrong descriptor" else M
    a_desc = TensorDescriptor(a[M // 2 :] if bug == "wrong descriptor" else a, [rows, K], [K, 1], [M, 64], layout)
    b_desc = TensorDescriptor.from_tensor(b, [N, 64], layout)
    kernel[(1,)](a_desc, b_desc, TensorDescriptor.from_tensor(c, [M, N], layout), K, BUG=bug, num_warps=4)
    return c, (a.double() @ b.double().T).half()


if __name__ == "__main__":
    found, right = run({"matmul": matmul, "hopper_matmul": hopper_matmul}[sys.argv[1]], sys.argv[2])
    print(torch.equal(found, right))
