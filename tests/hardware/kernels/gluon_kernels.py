"""Kernels in Gluon for sm_90a, compiled by ``build.py``: wgmma, tensor copies, A in registers, warp specialisation, clusters, im2col."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2
from triton.experimental.gluon.language.nvidia.hopper import (
    cluster,
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)


@gluon.jit
def gl_pipelined(ad, bd, cd, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr):
    """c = a @ b.T: a ring of stages, one wgmma in flight while the next stage is loaded."""
    om = gl.program_id(0) * BM
    on = gl.program_id(1) * BN
    a = gl.allocate_shared_memory(ad.dtype, [STAGES, BM, BK], ad.layout)
    b = gl.allocate_shared_memory(bd.dtype, [STAGES, BN, BK], bd.layout)
    bars = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(bars.index(i), count=1)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    acc = warpgroup_mma_init(gl.zeros((BM, BN), gl.float32, layout))
    for i in gl.static_range(STAGES - 1):
        mbarrier.expect(bars.index(i), ad.nbytes_per_cta + bd.nbytes_per_cta)
        tma.async_load(ad, [om, i * BK], bars.index(i), a.index(i))
        tma.async_load(bd, [on, i * BK], bars.index(i), b.index(i))
    for i in range(K // BK):
        mbarrier.wait(bars.index(i % STAGES), i // STAGES & 1)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        acc = warpgroup_mma(a.index(i % STAGES), b.index(i % STAGES).permute((1, 0)), acc, is_async=True)
        j = i + STAGES - 1
        more = j < K // BK
        mbarrier.expect(bars.index(j % STAGES), ad.nbytes_per_cta + bd.nbytes_per_cta, pred=more)
        tma.async_load(ad, [om, j * BK], bars.index(j % STAGES), a.index(j % STAGES), pred=more)
        tma.async_load(bd, [on, j * BK], bars.index(j % STAGES), b.index(j % STAGES), pred=more)
    acc = warpgroup_mma_wait(0, deps=(acc,))
    c = gl.allocate_shared_memory(cd.dtype, cd.block_type.shape, cd.layout)
    c.store(acc.to(cd.dtype))
    fence_async_shared()
    tma.async_store(cd, [om, on], c)
    tma.store_wait(pendings=0)


@gluon.jit
def gl_registers(ap, bd, cp, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """c = (2 a + 1) @ b: A goes through registers, b is N-major."""
    om = gl.program_id(0) * BM
    on = gl.program_id(1) * BN
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, layout, 2)
    b = gl.allocate_shared_memory(bd.dtype, [BK, BN], bd.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    rm = om + gl.arange(0, BM, gl.SliceLayout(1, operand))
    rk = gl.arange(0, BK, gl.SliceLayout(0, operand))
    acc = gl.zeros((BM, BN), gl.float32, layout)
    phase = 0
    for k in range(0, K, BK):
        mbarrier.expect(bar, bd.nbytes_per_cta)
        tma.async_load(bd, [k, on], bar, b)
        a = gl.load(ap + rm[:, None] * K + (k + rk)[None, :])
        mbarrier.wait(bar, phase)
        acc = warpgroup_mma(a * 2.0 + 1.0, b, acc)
        phase ^= 1
    sm = om + gl.arange(0, BM, gl.SliceLayout(1, layout))
    sn = on + gl.arange(0, BN, gl.SliceLayout(0, layout))
    gl.store(cp + sm[:, None] * N + sn[None, :], acc)


@gluon.jit
def producer(ad, bd, a, b, full, empty, om, on, K, BK: gl.constexpr, STAGES: gl.constexpr):
    """The warp that loads."""
    for i in range(K // BK):
        mbarrier.wait(empty.index(i % STAGES), i // STAGES & 1 ^ 1)
        mbarrier.expect(full.index(i % STAGES), ad.nbytes_per_cta + bd.nbytes_per_cta)
        tma.async_load(ad, [om, i * BK], full.index(i % STAGES), a.index(i % STAGES))
        tma.async_load(bd, [on, i * BK], full.index(i % STAGES), b.index(i % STAGES))


@gluon.jit
def consumer(cp, a, b, full, empty, om, on, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr):
    """The warpgroup that multiplies."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    acc = gl.zeros((BM, BN), gl.float32, layout)
    for i in range(K // BK):
        mbarrier.wait(full.index(i % STAGES), i // STAGES & 1)
        acc = warpgroup_mma(a.index(i % STAGES), b.index(i % STAGES).permute((1, 0)), acc)
        mbarrier.arrive(empty.index(i % STAGES), count=1)
    sm = om + gl.arange(0, BM, gl.SliceLayout(1, layout))
    sn = on + gl.arange(0, BN, gl.SliceLayout(0, layout))
    gl.store(cp + sm[:, None] * N + sn[None, :], acc)


@gluon.jit
def gl_specialised(ad, bd, cp, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr):
    """c = a @ b.T by two partitions of warps."""
    om = gl.program_id(0) * BM
    on = gl.program_id(1) * BN
    a = gl.allocate_shared_memory(ad.dtype, [STAGES, BM, BK], ad.layout)
    b = gl.allocate_shared_memory(bd.dtype, [STAGES, BN, BK], bd.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    gl.warp_specialize(
        [
            (consumer, (cp, a, b, full, empty, om, on, N, K, BM, BN, BK, STAGES)),
            (producer, (ad, bd, a, b, full, empty, om, on, K, BK, STAGES)),
        ],
        [1],
        [24],
    )


@gluon.jit
def gl_async_copy(ap, bp, cp, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """c = a @ b.T with cp.async in two stages and mma.sync."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8])
    copy: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    om = gl.program_id(0) * BM
    on = gl.program_id(1) * BN
    a = gl.allocate_shared_memory(ap.dtype.element_ty, [2, BM, BK], shared)
    b = gl.allocate_shared_memory(bp.dtype.element_ty, [2, BN, BK], shared)
    rm = om + gl.arange(0, BM, gl.SliceLayout(1, copy))
    rn = on + gl.arange(0, BN, gl.SliceLayout(1, copy))
    rk = gl.arange(0, BK, gl.SliceLayout(0, copy))
    acc = gl.zeros((BM, BN), gl.float32, layout)
    async_copy.async_load(a.index(0), ap + rm[:, None] * K + rk[None, :])
    async_copy.async_load(b.index(0), bp + rn[:, None] * K + rk[None, :])
    async_copy.commit_group()
    for i in range(K // BK):
        more = (i + 1) * BK
        inside = (rk + more < K)[None, :]
        async_copy.async_load(a.index((i + 1) % 2), ap + rm[:, None] * K + (more + rk)[None, :], mask=inside)
        async_copy.async_load(b.index((i + 1) % 2), bp + rn[:, None] * K + (more + rk)[None, :], mask=inside)
        async_copy.commit_group()
        async_copy.wait_group(1)
        gl.barrier()
        x = a.index(i % 2).load(gl.DotOperandLayout(0, layout, 2))
        y = b.index(i % 2).permute((1, 0)).load(gl.DotOperandLayout(1, layout, 2))
        acc = mma_v2(x, y, acc)
        gl.barrier()
    async_copy.wait_group(0)
    sm = om + gl.arange(0, BM, gl.SliceLayout(1, layout))
    sn = on + gl.arange(0, BN, gl.SliceLayout(0, layout))
    gl.store(cp + sm[:, None] * N + sn[None, :], acc)


@gluon.jit
def gl_multicast(ad, bd, cp, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """c = a @ b.T by clusters of two CTAs, which share b by multicast."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 32], [[1, 0]])
    om = gl.program_id(0) * BM
    on = gl.program_id(1) * BN
    a = gl.allocate_shared_memory(ad.dtype, [BM, BK], ad.layout)
    b = gl.allocate_shared_memory(bd.dtype, [BN, BK], bd.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    acc = gl.zeros((BM, BN), gl.float32, layout)
    phase = 0
    for k in range(0, K, BK):
        mbarrier.expect(bar, ad.nbytes_per_cta + bd.nbytes_per_cta)
        cluster.barrier()
        tma.async_load(ad, [om, k], bar, a)
        tma.async_load(bd, [on, k], bar, b, multicast=True)
        mbarrier.wait(bar, phase)
        acc = warpgroup_mma(a, b.permute((1, 0)), acc)
        phase ^= 1
    sm = om + gl.arange(0, BM, gl.SliceLayout(1, layout))
    sn = on + gl.arange(0, BN, gl.SliceLayout(0, layout))
    gl.store(cp + sm[:, None] * N + sn[None, :], acc)


@gluon.jit
def gl_im2col(image, filters, cp, P, Q, K, C: gl.constexpr, R: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr):
    """A convolution of NHWC: columns of pixels by im2col, filters [K, R, R, C] by tiles."""
    om = gl.program_id(0) * BM
    on = gl.program_id(1) * BN
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    a = gl.allocate_shared_memory(image.dtype, [BM, C], image.layout)
    b = gl.allocate_shared_memory(filters.dtype, [BN, C], filters.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    acc = gl.zeros((BM, BN), gl.float32, layout)
    n = om // (P * Q)
    p = om // Q % P
    q = om % Q
    phase = 0
    for tap in range(R * R):
        mbarrier.expect(bar, image.nbytes_per_cta + filters.nbytes_per_cta)
        tma.async_load_im2col(image, [n, p - 1, q - 1, 0], [(tap // R).to(gl.int16), (tap % R).to(gl.int16)], bar, a)
        tma.async_load(filters, [on, tap * C], bar, b)
        mbarrier.wait(bar, phase)
        acc = warpgroup_mma(a, b.permute((1, 0)), acc)
        phase ^= 1
    sm = om + gl.arange(0, BM, gl.SliceLayout(1, layout))
    sn = on + gl.arange(0, BN, gl.SliceLayout(0, layout))
    gl.store(cp + sm[:, None] * K + sn[None, :], acc)


@gluon.jit
def gl_reductions(xp, yd, zd, wd, M: gl.constexpr, N: gl.constexpr):
    """Tiles of all programs are combined in one place: a minimum, a maximum and an exclusive or, by the tensor memory accelerator."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    r = gl.arange(0, M, gl.SliceLayout(1, layout))
    c = gl.arange(0, N, gl.SliceLayout(0, layout))
    s = gl.allocate_shared_memory(yd.dtype, [M, N], yd.layout)
    s.store(gl.load(xp + gl.program_id(0) * M * N + r[:, None] * N + c[None, :]))
    fence_async_shared()
    tma.async_atomic_min(yd, [0, 0], s)
    tma.async_atomic_max(zd, [0, 0], s)
    tma.async_atomic_xor(wd, [0, 0], s)
    tma.store_wait(pendings=0)
