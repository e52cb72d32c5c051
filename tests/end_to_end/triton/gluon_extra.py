"""Further Gluon kernels: every shape of tcgen05.ld and .st, packed arithmetic, multicast, an f16 accumulator."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    add2,
    allocate_tensor_memory,
    fence_async_shared,
    fma2,
    max2,
    mbarrier,
    mul2,
    tcgen05_commit,
    tcgen05_mma,
    tma,
)
from triton.experimental.gluon.language.nvidia.hopper import cluster


@gluon.jit
def gl_tmem_shapes(ip, op, M: gl.constexpr, N: gl.constexpr, VARIANT: gl.constexpr, BACK: gl.constexpr):
    """Registers to tensor memory in one shape, and back in another."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    r = gl.arange(0, M, gl.SliceLayout(1, layout))
    c = gl.arange(0, N, gl.SliceLayout(0, layout))
    x = gl.load(ip + r[:, None] * N + c[None, :])
    t = allocate_tensor_memory(ip.dtype.element_ty, [M, N], TensorMemoryLayout([M, N], col_stride=1))
    there: gl.constexpr = t.get_reg_layout(instr_variant=VARIANT)
    back: gl.constexpr = t.get_reg_layout(instr_variant=BACK)
    t.store(gl.convert_layout(x, there))
    gl.store(op + r[:, None] * N + c[None, :], gl.convert_layout(t.load(back), layout))


@gluon.jit
def gl_packed(xp, yp, op, n, BLOCK: gl.constexpr):
    """fma, mul, add and max two elements at a time; op has a row of n for each."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    x = gl.load(xp + i, mask=i < n, other=0.0)
    y = gl.load(yp + i, mask=i < n, other=0.0)
    gl.store(op + i, fma2(x, y, x), mask=i < n)
    gl.store(op + n + i, mul2(x, y), mask=i < n)
    gl.store(op + 2 * n + i, add2(x, y), mask=i < n)


@gluon.jit
def gl_packed_half(xp, yp, op, n, BLOCK: gl.constexpr):
    """The same in half precision, with max."""
    layout: gl.constexpr = gl.BlockedLayout([8], [32], [4], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    x = gl.load(xp + i, mask=i < n, other=0.0)
    y = gl.load(yp + i, mask=i < n, other=0.0)
    gl.store(op + i, fma2(x, y, x), mask=i < n)
    gl.store(op + n + i, mul2(x, y), mask=i < n)
    gl.store(op + 2 * n + i, add2(x, y), mask=i < n)
    gl.store(op + 3 * n + i, max2(x, y), mask=i < n)


@gluon.jit
def gl_mm_multicast(ad, bd, cp, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """Two CTAs of a cluster share the columns: each multiplies its half of the rows, b comes by multicast."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0], cga_layout=[[1, 0]])
    om = gl.program_id(0) * BM
    on = gl.program_id(1) * BN
    asm = gl.allocate_shared_memory(ad.dtype, [BM, BK], ad.layout)
    bsm = gl.allocate_shared_memory(bd.dtype, [BN, BK], bd.layout)
    acc = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM // 2, BN], col_stride=1, cga_layout=[[1, 0]]))
    loaded = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    phase = 0
    use = False
    for k in range(0, K, BK):
        mbarrier.expect(loaded, ad.nbytes_per_cta + bd.nbytes_per_cta)
        cluster.barrier()
        tma.async_load(ad, [om, k], loaded, asm)
        tma.async_load(bd, [on, k], loaded, bsm, multicast=True)
        mbarrier.wait(loaded, phase=phase)
        tcgen05_mma(asm, bsm.permute((1, 0)), acc, use_acc=use)
        tcgen05_commit(done)
        mbarrier.wait(done, phase=phase)
        phase ^= 1
        use = True
    rm = om + gl.arange(0, BM, gl.SliceLayout(1, layout))
    rn = on + gl.arange(0, BN, gl.SliceLayout(0, layout))
    gl.store(cp + rm[:, None] * N + rn[None, :], gl.convert_layout(acc.load(), layout))


@gluon.jit
def gl_mm_acc16(ad, bd, cp, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """c = a @ b.T with an f16 accumulator."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    om = gl.program_id(0) * BM
    on = gl.program_id(1) * BN
    asm = gl.allocate_shared_memory(ad.dtype, [BM, BK], ad.layout)
    bsm = gl.allocate_shared_memory(bd.dtype, [BN, BK], bd.layout)
    acc = allocate_tensor_memory(gl.float16, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=2))
    loaded = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    phase = 0
    use = False
    for k in range(0, K, BK):
        mbarrier.expect(loaded, ad.nbytes_per_cta + bd.nbytes_per_cta)
        tma.async_load(ad, [om, k], loaded, asm)
        tma.async_load(bd, [on, k], loaded, bsm)
        mbarrier.wait(loaded, phase=phase)
        tcgen05_mma(asm, bsm.permute((1, 0)), acc, use_acc=use, mbarriers=[done])
        mbarrier.wait(done, phase=phase)
        phase ^= 1
        use = True
    rm = om + gl.arange(0, BM, gl.SliceLayout(1, layout))
    rn = on + gl.arange(0, BN, gl.SliceLayout(0, layout))
    gl.store(cp + rm[:, None] * N + rn[None, :], gl.convert_layout(acc.load(), layout))


@gluon.jit
def gl_reduce_store(xp, yd, M: gl.constexpr, N: gl.constexpr):
    """Every program adds its tile to the same place with a TMA reduction."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    r = gl.arange(0, M, gl.SliceLayout(1, layout))
    c = gl.arange(0, N, gl.SliceLayout(0, layout))
    x = gl.load(xp + gl.program_id(0) * M * N + r[:, None] * N + c[None, :])
    s = gl.allocate_shared_memory(yd.dtype, [M, N], yd.layout)
    s.store(x)
    fence_async_shared()
    tma.async_atomic_add(yd, [0, 0], s)
    tma.store_wait(pendings=0)
