"""A tiled product for sm_100a whose tiles and buffers are constants: copies of tiles, products, and the store of a tile."""

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


@gluon.jit
def fetch(ad, bd, tiles_a, tiles_b, full, row, column, step, steps, BK: gl.constexpr, NB: gl.constexpr):
    wanted = step < steps
    at = step % NB
    mbarrier.expect(full.index(at), ad.nbytes_per_cta + bd.nbytes_per_cta, pred=wanted)
    tma.async_load(ad, [row, step * BK], full.index(at), tiles_a.index(at), pred=wanted)
    tma.async_load(bd, [step * BK, column], full.index(at), tiles_b.index(at), pred=wanted)


@gluon.jit
def product(ad, bd, cd, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, NB: gl.constexpr):
    """C = A B, with A [M, K] and B [K, N]; each product is waited for before the next tiles are fetched into its buffer."""
    row, column = gl.program_id(0) * BM, gl.program_id(1) * BN
    tiles_a = gl.allocate_shared_memory(ad.dtype, [NB, BM, BK], ad.layout)
    tiles_b = gl.allocate_shared_memory(bd.dtype, [NB, BK, BN], bd.layout)
    full = gl.allocate_shared_memory(gl.int64, [NB, 1], mbarrier.MBarrierLayout())
    done = mbarrier.allocate_mbarrier()
    for i in gl.static_range(NB):
        mbarrier.init(full.index(i), count=1)
    mbarrier.init(done, count=1)
    place: gl.constexpr = TensorMemoryLayout([BM, BN], col_stride=1)
    sums = allocate_tensor_memory(gl.float32, [BM, BN], place)
    steps = K // BK
    for i in gl.static_range(NB - 1):
        fetch(ad, bd, tiles_a, tiles_b, full, row, column, i, steps, BK, NB)
    for i in range(steps):
        fetch(ad, bd, tiles_a, tiles_b, full, row, column, i + NB - 1, steps, BK, NB)
        at = i % NB
        mbarrier.wait(full.index(at), phase=i // NB & 1)
        tcgen05_mma(tiles_a.index(at), tiles_b.index(at), sums, use_acc=i > 0, mbarriers=[done])
        mbarrier.wait(done, phase=i & 1)
    for i in gl.static_range(NB):
        mbarrier.invalidate(full.index(i))
    mbarrier.invalidate(done)
    out = gl.allocate_shared_memory(cd.dtype, [BM, BN], cd.layout)
    out.store(sums.load().to(cd.dtype))
    fence_async_shared()
    tma.async_store(cd, [row, column], out)
    tma.store_wait(pendings=0)
