"""Gluon: a matrix multiplication of three partitions, TMA loads, tcgen05.mma and epilogue. Runs on sm_100a and sm_103a.

The partitions synchronise with mbarriers: `loaded` and `free` for the ring of operand tiles, `done` for the accumulator.
"""

from __future__ import annotations

import sys

import torch
import triton
from report import differs
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
    tma,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

DEVICE = triton.runtime.driver.active.get_active_torch_device()


@gluon.jit
def load_partition(a_desc, b_desc, c_desc, a_ring, b_ring, loaded, free, acc, done, K, STAGES: gl.constexpr):
    m = gl.program_id(0) * a_desc.block_shape[0]
    n = gl.program_id(1) * b_desc.block_shape[0]
    step = 0
    for k in range(0, K, a_desc.block_shape[1]):
        slot = step % STAGES
        mbarrier.wait(free.index(slot), step // STAGES & 1 ^ 1)
        mbarrier.expect(loaded.index(slot), a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        tma.async_load(a_desc, [m, k], loaded.index(slot), a_ring.index(slot))
        tma.async_load(b_desc, [n, k], loaded.index(slot), b_ring.index(slot))
        step += 1


@gluon.jit
def mma_partition(a_desc, b_desc, c_desc, a_ring, b_ring, loaded, free, acc, done, K, STAGES: gl.constexpr):
    step = 0
    for k in range(0, K, a_desc.block_shape[1]):
        slot = step % STAGES
        mbarrier.wait(loaded.index(slot), step // STAGES & 1)
        tcgen05_mma(a_ring.index(slot), b_ring.index(slot).permute((1, 0)), acc, use_acc=step > 0, mbarriers=[free.index(slot)])
        step += 1
    tcgen05_commit(done)


@gluon.jit
def epilogue_partition(a_desc, b_desc, c_desc, a_ring, b_ring, loaded, free, acc, done, K, STAGES: gl.constexpr):
    m = gl.program_id(0) * a_desc.block_shape[0]
    n = gl.program_id(1) * b_desc.block_shape[0]
    c_tile = gl.allocate_shared_memory(c_desc.dtype, c_desc.block_type.shape, c_desc.layout)
    mbarrier.wait(done, 0)
    c_tile.store(acc.load().to(c_desc.dtype))
    fence_async_shared()
    tma.async_store(c_desc, [m, n], c_tile)
    tma.store_wait(pendings=0)


@gluon.jit
def matmul_kernel(a_desc, b_desc, c_desc, K, STAGES: gl.constexpr):
    a_ring = gl.allocate_shared_memory(a_desc.dtype, [STAGES] + a_desc.block_type.shape, a_desc.layout)
    b_ring = gl.allocate_shared_memory(b_desc.dtype, [STAGES] + b_desc.block_type.shape, b_desc.layout)
    BM: gl.constexpr = a_desc.block_type.shape[0]
    BN: gl.constexpr = b_desc.block_type.shape[0]
    acc = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    loaded = mbarrier.allocate_mbarrier(batch=STAGES)
    free = mbarrier.allocate_mbarrier(batch=STAGES)
    done = mbarrier.allocate_mbarrier()
    for i in gl.static_range(STAGES):
        mbarrier.init(loaded.index(i), count=1)
        mbarrier.init(free.index(i), count=1)
    mbarrier.init(done, count=1)
    args = (a_desc, b_desc, c_desc, a_ring, b_ring, loaded, free, acc, done, K, STAGES)
    gl.warp_specialize([(epilogue_partition, args), (load_partition, args), (mma_partition, args)], [1, 1], [24, 24])


def matmul(a: torch.Tensor, b: torch.Tensor, stages: int = 3) -> torch.Tensor:
    """a @ b.T"""
    M, K = a.shape
    N = b.shape[0]
    BM, BN, BK = 128, 128, 64
    c = torch.empty(M, N, device=DEVICE, dtype=torch.float16)
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    blocks = ((a, [BM, BK]), (b, [BN, BK]), (c, [BM, BN]))
    descriptors = [TensorDescriptor.from_tensor(tensor, block, layout) for tensor, block in blocks]
    matmul_kernel[(M // BM, N // BN)](*descriptors, K, STAGES=stages, num_warps=4)
    return c


def main() -> int:
    torch.manual_seed(0)
    M, N, K = 256, 256, 512
    a = torch.randn(M, K, device=DEVICE, dtype=torch.float16)
    b = torch.randn(N, K, device=DEVICE, dtype=torch.float16)
    return differs("Gluon matmul, warp-specialised", matmul(a, b), a.double() @ b.double().T, 4e-2)


if __name__ == "__main__":
    sys.exit(main())
