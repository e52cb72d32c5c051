"""Further matrix multiplications in Triton: split K, locks, more tiles and types."""

import triton
import triton.language as tl


@triton.jit
def mm_split_k(a, b, c, M, N, K, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c += a @ b.T, the K range shared by SPLIT programs that add with atomics."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    pk = tl.program_id(2)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(pk * BK, K, SPLIT * BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        y = tl.load(b + rn[:, None] * K + (k + rk)[None, :])
        acc = tl.dot(x, y.T, acc)
    tl.atomic_add(c + rm[:, None] * N + rn[None, :], acc, sem="relaxed")


@triton.jit
def mm_split_k_ordered(a, b, c, locks, M, N, K, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a @ b.T, the SPLIT programs of a tile add one after the other: each spins until its turn comes."""
    tile = tl.program_id(0)
    pk = tl.program_id(1)
    pm = tile % tl.cdiv(M, BM)
    pn = tile // tl.cdiv(M, BM)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(pk * BK, K, SPLIT * BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        y = tl.load(b + rn[:, None] * K + (k + rk)[None, :])
        acc = tl.dot(x, y.T, acc)
    cp = c + rm[:, None] * N + rn[None, :]
    while tl.atomic_cas(locks + tile, pk, pk) != pk:
        pass
    if pk != 0:
        acc += tl.load(cp)
    tl.store(cp, acc)
    tl.debug_barrier()
    tl.atomic_xchg(locks + tile, pk + 1)


@triton.jit
def mm_tile(ad, bd, cd, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, OUT: tl.constexpr):
    """c = a @ b.T over tensor descriptors, one tile per program of a two-dimensional grid."""
    om = tl.program_id(0) * BM
    on = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(ad.load([om, k]), bd.load([on, k]).T, acc)
    cd.store([om, on], acc.to(OUT))


@triton.jit
def mm_batched(ad, bd, cd, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c[i] = a[i] @ b[i] through three-dimensional tensor descriptors."""
    i = tl.program_id(2)
    om = tl.program_id(0) * BM
    on = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = ad.load([i, om, k]).reshape(BM, BK)
        y = bd.load([i, k, on]).reshape(BK, BN)
        acc = tl.dot(x, y, acc)
    cd.store([i, om, on], acc.to(tl.float16).reshape(1, BM, BN))


@triton.jit
def mm_weights(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a @ b, whose elements are converted to the type of a; one tile per program of a two-dimensional grid."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        y = tl.load(b + (k + rk)[:, None] * N + rn[None, :])
        acc = tl.dot(x, y.to(tl.float16), acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(tl.float16))


@triton.jit
def mm_desc_weights(ad, bd, cd, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same over tensor descriptors."""
    om = tl.program_id(0) * BM
    on = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(ad.load([om, k]), bd.load([k, on]).to(tl.float16), acc)
    cd.store([om, on], acc.to(tl.float16))
