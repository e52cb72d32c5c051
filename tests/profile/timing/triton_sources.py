"""Triton kernels that are timed, with their tiles as constants. `build` compiles them."""

import triton
import triton.language as tl


@triton.jit
def gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    nm = tl.cdiv(M, BM)
    rm = pid % nm * BM + tl.arange(0, BM)
    rn = pid // nm * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    ap = a + rm[:, None] * K + rk[None, :]
    bp = b + rn[None, :] * K + rk[:, None]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(tl.cdiv(K, BK)):
        acc = tl.dot(tl.load(ap), tl.load(bp), acc)
        ap += BK
        bp += BK
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def gemm_tma(ad, bd, cd, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    nm = tl.cdiv(M, BM)
    pm = pid % nm * BM
    pn = pid // nm * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        acc = tl.dot(ad.load([pm, k * BK]), bd.load([pn, k * BK]).T, acc)
    cd.store([pm, pn], acc.to(tl.float16))


@triton.jit
def attention(q, k, v, o, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    pm = tl.program_id(0)
    head = tl.program_id(1)
    rm = pm * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    rd = tl.arange(0, D)
    base = head * S * D
    x = tl.load(q + base + rm[:, None] * D + rd[None, :])
    m = tl.full((BM,), -float("inf"), tl.float32)
    z = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = (pm + 1) * BM if CAUSAL else S
    for n in range(0, end, BN):
        y = tl.load(k + base + (n + rn)[None, :] * D + rd[:, None])
        s = tl.dot(x, y) * scale
        if CAUSAL:
            s = tl.where(rm[:, None] >= (n + rn)[None, :], s, -1.0e6)
        m1 = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - m1[:, None])
        f = tl.exp2(m - m1)
        z = z * f + tl.sum(p, 1)
        acc = acc * f[:, None]
        w = tl.load(v + base + (n + rn)[:, None] * D + rd[None, :])
        acc = tl.dot(p.to(tl.float16), w, acc)
        m = m1
    tl.store(o + base + rm[:, None] * D + rd[None, :], (acc / z[:, None]).to(tl.float16))


@triton.jit
def softmax(x, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * N + at)
    v = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * N + at, v / tl.sum(v, 0))


@triton.jit
def softmax_loop(x, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    m = tl.full((BLOCK,), -float("inf"), tl.float32)
    z = tl.zeros((BLOCK,), tl.float32)
    for n in range(0, N, BLOCK):
        v = tl.load(x + row * N + n + at)
        m1 = tl.maximum(m, v)
        z = z * tl.exp(m - m1) + tl.exp(v - m1)
        m = m1
    top = tl.max(m, 0)
    total = tl.sum(z * tl.exp(m - top), 0)
    for n in range(0, N, BLOCK):
        v = tl.load(x + row * N + n + at)
        tl.store(y + row * N + n + at, tl.exp(v - top) / total)


@triton.jit
def layer_norm(x, w, b, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * N + at).to(tl.float32)
    mean = tl.sum(v, 0) / N
    d = v - mean
    r = tl.rsqrt(tl.sum(d * d, 0) / N + 1e-5)
    tl.store(y + row * N + at, (d * r * tl.load(w + at) + tl.load(b + at)).to(y.dtype.element_ty))


@triton.jit
def rms_norm(x, w, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    s = tl.zeros((BLOCK,), tl.float32)
    for n in range(0, N, BLOCK):
        v = tl.load(x + row * N + n + at).to(tl.float32)
        s += v * v
    r = tl.rsqrt(tl.sum(s, 0) / N + 1e-5)
    for n in range(0, N, BLOCK):
        v = tl.load(x + row * N + n + at).to(tl.float32)
        tl.store(y + row * N + n + at, (v * r * tl.load(w + n + at)).to(y.dtype.element_ty))


@triton.jit
def add(x, y, z, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at) + tl.load(y + at))


@triton.jit
def gelu(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at).to(tl.float32)
    t = 1.0 / (1.0 + tl.exp(-1.5957691 * v * (1.0 + 0.044715 * v * v)))
    tl.store(y + at, (v * t).to(y.dtype.element_ty))


@triton.jit
def row_sum(x, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    s = tl.zeros((BLOCK,), tl.float32)
    for n in range(0, N, BLOCK):
        s += tl.load(x + row * N + n + at)
    tl.store(y + row, tl.sum(s, 0))


@triton.jit
def column_sum(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rm = tl.arange(0, BM)
    s = tl.zeros((BM, BN), tl.float32)
    for m in range(0, M, BM):
        s += tl.load(x + (m + rm)[:, None] * N + rn[None, :])
    tl.store(y + rn, tl.sum(s, 0))


@triton.jit
def transpose(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    v = tl.load(x + rm[:, None] * N + rn[None, :])
    tl.store(y + rn[:, None] * M + rm[None, :], tl.trans(v))
