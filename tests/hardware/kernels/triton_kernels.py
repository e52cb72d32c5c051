"""Kernels in Triton, compiled by ``build.py``: attention backward, norms, rotary embedding, dropout, sorting, scans, products."""

import triton
import triton.language as tl


@triton.jit
def attention_dkdv(q, k, v, do, lse, delta, dk, dv, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Gradients of BN keys and values of one head, causal; ``scale`` holds log2(e)."""
    pn = tl.program_id(0)
    base = tl.program_id(1) * S
    rn = pn * BN + tl.arange(0, BN)
    rd = tl.arange(0, D)
    kt = tl.load(k + (base + rn)[:, None] * D + rd[None, :])
    vt = tl.load(v + (base + rn)[:, None] * D + rd[None, :])
    dkt = tl.zeros((BN, D), tl.float32)
    dvt = tl.zeros((BN, D), tl.float32)
    for start in range((pn * BN) // BM * BM, S, BM):
        rm = start + tl.arange(0, BM)
        qt = tl.load(q + (base + rm)[:, None] * D + rd[None, :])
        dot = tl.load(do + (base + rm)[:, None] * D + rd[None, :])
        s = tl.dot(kt, qt.T) * scale
        p = tl.exp2(s - tl.load(lse + base + rm)[None, :])
        p = tl.where(rm[None, :] >= rn[:, None], p, 0.0)
        dvt = tl.dot(p.to(tl.float16), dot, dvt)
        dp = tl.dot(vt, dot.T)
        ds = p * (dp - tl.load(delta + base + rm)[None, :])
        dkt = tl.dot(ds.to(tl.float16), qt, dkt)
    tl.store(dk + (base + rn)[:, None] * D + rd[None, :], dkt)
    tl.store(dv + (base + rn)[:, None] * D + rd[None, :], dvt)


@triton.jit
def attention_dq(q, k, v, do, lse, delta, dq, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """The gradient of BM queries of one head, causal."""
    pm = tl.program_id(0)
    base = tl.program_id(1) * S
    rm = pm * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    qt = tl.load(q + (base + rm)[:, None] * D + rd[None, :])
    dot = tl.load(do + (base + rm)[:, None] * D + rd[None, :])
    m = tl.load(lse + base + rm)
    d = tl.load(delta + base + rm)
    dqt = tl.zeros((BM, D), tl.float32)
    for start in range(0, (pm + 1) * BM, BN):
        rn = start + tl.arange(0, BN)
        kt = tl.load(k + (base + rn)[:, None] * D + rd[None, :])
        vt = tl.load(v + (base + rn)[:, None] * D + rd[None, :])
        p = tl.exp2(tl.dot(qt, kt.T) * scale - m[:, None])
        p = tl.where(rm[:, None] >= rn[None, :], p, 0.0)
        ds = p * (tl.dot(dot, vt.T) - d[:, None])
        dqt = tl.dot(ds.to(tl.float16), kt, dqt)
    tl.store(dq + (base + rm)[:, None] * D + rd[None, :], dqt)


@triton.jit
def rms_norm(x, w, y, cols, eps, BLOCK: tl.constexpr):
    """Root mean square normalisation with a root and a division that are rounded correctly."""
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + c, mask=c < cols, other=0.0).to(tl.float32)
    r = tl.div_rn(1.0, tl.sqrt_rn(tl.div_rn(tl.sum(v * v, 0), cols.to(tl.float32)) + eps))
    tl.store(y + row * cols + c, (v * r).to(tl.bfloat16) * tl.load(w + c, mask=c < cols), mask=c < cols)


@triton.jit
def layer_norm_grad(x, dy, w, mean, rstd, dx, dw, db, rows, cols, BLOCK: tl.constexpr):
    """Layer norm backward; each program sums its rows for the weights into a row of its own."""
    p = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < cols
    g = tl.load(w + c, mask=mask, other=0.0)
    sum_w = tl.zeros((BLOCK,), tl.float32)
    sum_b = tl.zeros((BLOCK,), tl.float32)
    for row in range(p, rows, tl.num_programs(0)):
        a = tl.load(x + row * cols + c, mask=mask, other=0.0).to(tl.float32)
        d = tl.load(dy + row * cols + c, mask=mask, other=0.0).to(tl.float32)
        h = tl.where(mask, (a - tl.load(mean + row)) * tl.load(rstd + row), 0.0)
        wd = g * d
        c1 = tl.sum(h * wd, 0) * 0.00390625
        c2 = tl.sum(wd, 0) * 0.00390625
        tl.store(dx + row * cols + c, ((wd - (h * c1 + c2)) * tl.load(rstd + row)).to(tl.float16), mask=mask)
        sum_w += d * h
        sum_b += d
    tl.store(dw + p * cols + c, sum_w, mask=mask)
    tl.store(db + p * cols + c, sum_b, mask=mask)


@triton.jit
def rotary(x, cos, sin, y, heads, HALF: tl.constexpr, BLOCK: tl.constexpr):
    """Rotary embedding of both kinds: halves, and pairs of neighbours."""
    position = tl.program_id(0)
    h = tl.arange(0, BLOCK)
    j = tl.arange(0, HALF)
    mask = (h < heads)[:, None]
    at = (position * heads + h)[:, None] * (2 * HALF) + j[None, :]
    c = tl.load(cos + position * HALF + j)[None, :]
    s = tl.load(sin + position * HALF + j)[None, :]
    a = tl.load(x + at, mask=mask).to(tl.float32)
    b = tl.load(x + at + HALF, mask=mask).to(tl.float32)
    tl.store(y + at, (a * c - b * s).to(tl.bfloat16), mask=mask)
    tl.store(y + at + HALF, (b * c + a * s).to(tl.bfloat16), mask=mask)
    k = tl.arange(0, 2 * HALF)
    pairs = tl.load(x + (position * heads + h)[:, None] * (2 * HALF) + k[None, :], mask=mask, other=0.0).to(tl.float32)
    even, odd = tl.split(pairs.reshape(BLOCK, HALF, 2))
    mixed = tl.join(even * c - odd * s, odd * c + even * s).reshape(BLOCK, 2 * HALF)
    out = y + (tl.num_programs(0) * heads + position * heads + h)[:, None] * (2 * HALF) + k[None, :]
    tl.store(out, mixed.to(tl.bfloat16), mask=mask)


@triton.jit
def dropout_residual(x, residual, y, n, keep, seed, BLOCK: tl.constexpr):
    """Dropout by Philox and an addition; the mask is not stored."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    kept = tl.rand(seed, i) < keep
    v = tl.load(x + i, mask=mask, other=0.0).to(tl.float32)
    v = tl.where(kept, tl.div_rn(v, keep + 0.0 * v), 0.0) + tl.load(residual + i, mask=mask, other=0.0).to(tl.float32)
    tl.store(y + i, v.to(tl.float16), mask=mask)


@triton.jit
def random_numbers(normal, uniform, bits, seed, BLOCK: tl.constexpr):
    """Normal and uniform numbers and the bits of Philox."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(normal + i, tl.randn(seed, i))
    tl.store(uniform + i, tl.rand(seed, i))
    a, b, c, d = tl.randint4x(seed, i)
    tl.store(bits + i, (a ^ b ^ c ^ d).to(tl.int32, bitcast=True))


@triton.jit
def sort_and_select(x, ascending, descending, best, COLS: tl.constexpr):
    """Rows sorted both ways, and the largest eight."""
    row = tl.program_id(0)
    c = tl.arange(0, COLS)
    v = tl.load(x + row * COLS + c)
    tl.store(ascending + row * COLS + c, tl.sort(v))
    tl.store(descending + row * COLS + c, tl.sort(v, descending=True))
    tl.store(best + row * 8 + tl.arange(0, 8), tl.topk(v, 8))


@triton.jit
def join(f1, g1, f2, g2):
    """Of two affine functions the one and then the other."""
    return f1 * f2, g1 * f2 + g2


@triton.jit
def greater(v1, i1, v2, i2):
    """The larger value and its place; of equal ones the first."""
    first = (v1 > v2) | ((v1 == v2) & (i1 < i2))
    return tl.where(first, v1, v2), tl.where(first, i1, i2)


@triton.jit
def scans(x, decay, recurrence, products, backward, best, places, COLS: tl.constexpr):
    """Along rows: a linear recurrence, products, sums from the end, and running maxima with their places."""
    row = tl.program_id(0)
    c = tl.arange(0, COLS)
    v = tl.load(x + row * COLS + c)
    d = tl.load(decay + row * COLS + c)
    _, h = tl.associative_scan((d, v), 0, join)
    tl.store(recurrence + row * COLS + c, h)
    tl.store(products + row * COLS + c, tl.cumprod(d + 0.25, 0))
    tl.store(backward + row * COLS + c, tl.cumsum(v, 0, reverse=True))
    m, i = tl.associative_scan((v, c), 0, greater)
    tl.store(best + row * COLS + c, m)
    tl.store(places + row * COLS + c, i)


@triton.jit
def merge(mean1, square1, n1, mean2, square2, n2):
    """Welford's statistics of two parts."""
    n = n1 + n2
    d = mean2 - mean1
    f = tl.where(n == 0.0, 0.0, tl.div_rn(n2, n))
    return mean1 + d * f, square1 + square2 + d * d * n1 * f, n


@triton.jit
def statistics(x, out, cols, BLOCK: tl.constexpr):
    """Mean and variance of rows by Welford's method, a sum in f64, extremes, a parity."""
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < cols
    v = tl.load(x + row * cols + c, mask=mask, other=0.0)
    mean, square, _ = tl.reduce((v, tl.zeros_like(v), mask.to(tl.float32)), 0, merge)
    tl.store(out + row * 6 + 0, mean)
    tl.store(out + row * 6 + 1, square)
    tl.store(out + row * 6 + 2, tl.sum(v.to(tl.float64), 0).to(tl.float32))
    tl.store(out + row * 6 + 3, tl.max(tl.where(mask, v, -float("inf")), 0))
    tl.store(out + row * 6 + 4, tl.min(tl.where(mask, v, float("inf")), 0))
    tl.store(out + row * 6 + 5, tl.xor_sum(v.to(tl.int32, bitcast=True), 0).to(tl.float32, bitcast=True))


@triton.jit
def cross_entropy(x, labels, loss, gradient, cols, BLOCK: tl.constexpr):
    """Cross entropy over blocks of columns with a running maximum, and its gradient."""
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    label = tl.load(labels + row)
    top = -float("inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        v = tl.load(x + row * cols + start + c, mask=start + c < cols, other=-float("inf"))
        more = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - more) + tl.sum(tl.exp(v - more), 0)
        top = more
    tl.store(loss + row, top + tl.log(total) - tl.load(x + row * cols + label))
    for start in range(0, cols, BLOCK):
        v = tl.load(x + row * cols + start + c, mask=start + c < cols, other=-float("inf"))
        g = tl.exp(v - top) / total - tl.where(start + c == label, 1.0, 0.0)
        tl.store(gradient + row * cols + start + c, g, mask=start + c < cols)


@triton.jit
def mm_fp8(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, IMPRECISE: tl.constexpr):
    """c = a @ b.T of 8-bit floats; sums go to f32 registers of their own after IMPRECISE elements of K."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        y = tl.load(b + rn[None, :] * K + (k + rk)[:, None])
        acc = tl.dot(x, y, acc, max_num_imprecise_acc=IMPRECISE)
    tl.store(c + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def mm_scaled_blocks(a, b, sa, sb, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """8-bit floats with a scale for each block of BK of K: a row of a, a block of b."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    blocks = K // BK
    for i in range(blocks):
        x = tl.load(a + rm[:, None] * K + (i * BK + rk)[None, :])
        y = tl.load(b + rn[None, :] * K + (i * BK + rk)[:, None])
        scale = tl.load(sa + rm * blocks + i)[:, None] * tl.load(sb + tl.program_id(1) * blocks + i)
        acc += tl.dot(x, y) * scale
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(tl.bfloat16))


@triton.jit
def mm_f32(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr):
    """c = a @ b.T of f32 with another input precision."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        y = tl.load(b + rn[None, :] * K + (k + rk)[:, None])
        acc = tl.dot(x, y, acc, input_precision=PRECISION)
    tl.store(c + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def mm_int4(a, b, scales, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a @ dequantised(b): 4-bit weights in bytes, zero point 8, a scale for each BK of K; A of the product comes from registers."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    half = tl.arange(0, BK // 2)
    acc = tl.zeros((BN, BM), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[None, :] * K + (k + rk)[:, None])
        packed = tl.load(b + rn[:, None] * (K // 2) + (k // 2 + half)[None, :])
        low = (packed & 15).to(tl.float16) - 8.0
        high = (packed >> 4).to(tl.float16) - 8.0
        w = tl.join(low, high).reshape(BN, BK) * tl.load(scales + rn * (K // BK) + k // BK)[:, None]
        acc = tl.dot(w.to(tl.float16), x, acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.T.to(tl.float16))


@triton.jit
def mm_f16_sums(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a @ b.T with sums in f16."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float16)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        y = tl.load(b + rn[None, :] * K + (k + rk)[:, None])
        acc = tl.dot(x, y, acc, out_dtype=tl.float16)
    tl.store(c + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def mm_mixed_scales(a, sa, b, sb, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Block-scaled: a of e4m3, b of e2m1 in pairs, scales of 32 elements; without such instructions it is emulated in bf16."""
    rm = tl.arange(0, BM)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    half = tl.arange(0, BK // 2)
    rs = tl.arange(0, BK // 32)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        y = tl.load(b + rn[None, :] * (K // 2) + (k // 2 + half)[:, None])
        u = tl.load(sa + rm[:, None] * (K // 32) + (k // 32 + rs)[None, :])
        w = tl.load(sb + rn[:, None] * (K // 32) + (k // 32 + rs)[None, :])
        acc = tl.dot_scaled(x, u, "e4m3", y, w, "e2m1", acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def mm_split_integers(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    """Split-K of s8; the sums are added with atomics, whose order does not show."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.program_id(2) * BK + tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.int32)
    for k in range(0, K, BK * SPLIT):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        y = tl.load(b + rn[None, :] * K + (k + rk)[:, None])
        acc = tl.dot(x, y, acc)
    tl.atomic_add(c + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def mm_groups(a, b, c, firsts, N, K, GROUPS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Rows of a in groups, each with a matrix of its own; persistent programs go through the tiles of all groups."""
    tile = tl.program_id(0)
    before = 0
    for g in range(GROUPS):
        first = tl.load(firsts + g)
        end = tl.load(firsts + g + 1)
        tiles = tl.cdiv(end - first, BM) * (N // BN)
        while tile < before + tiles:
            at = tile - before
            rm = first + at // (N // BN) * BM + tl.arange(0, BM)
            rn = at % (N // BN) * BN + tl.arange(0, BN)
            rk = tl.arange(0, BK)
            acc = tl.zeros((BM, BN), tl.float32)
            for k in range(0, K, BK):
                x = tl.load(a + rm[:, None] * K + (k + rk)[None, :], mask=(rm < end)[:, None], other=0.0)
                y = tl.load(b + g * N * K + rn[None, :] * K + (k + rk)[:, None])
                acc = tl.dot(x, y, acc)
            tl.store(c + rm[:, None] * N + rn[None, :], acc.to(tl.bfloat16), mask=(rm < end)[:, None])
            tile += tl.num_programs(0)
        before += tiles


@triton.jit
def mlp_swiglu(x, gate, up, down, y, K: tl.constexpr, H: tl.constexpr, BM: tl.constexpr, BH: tl.constexpr):
    """(silu(x gate) * (x up)) down in one kernel: the second product takes A from registers."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rk = tl.arange(0, K)
    xt = tl.load(x + rm[:, None] * K + rk[None, :])
    acc = tl.zeros((BM, K), tl.float32)
    for h in range(0, H, BH):
        rh = h + tl.arange(0, BH)
        g = tl.dot(xt, tl.load(gate + rk[:, None] * H + rh[None, :]))
        u = tl.dot(xt, tl.load(up + rk[:, None] * H + rh[None, :]))
        s = g * tl.sigmoid(g) * u
        acc = tl.dot(s.to(tl.bfloat16), tl.load(down + rh[:, None] * K + rk[None, :]), acc)
    tl.store(y + rm[:, None] * K + rk[None, :], acc.to(tl.bfloat16))


@triton.jit
def convolution(x, w, y, H, W, P, Q, C: tl.constexpr, R: tl.constexpr, BP: tl.constexpr, BK: tl.constexpr):
    """A convolution of NHWC with stride 2 and padding 1 as a product, through pointers and masks."""
    rp = tl.program_id(0) * BP + tl.arange(0, BP)
    rk = tl.program_id(1) * BK + tl.arange(0, BK)
    rc = tl.arange(0, C)
    n = rp // (P * Q)
    p = rp // Q % P
    q = rp % Q
    acc = tl.zeros((BP, BK), tl.float32)
    for tap in range(R * R):
        h = 2 * p + tap // R - 1
        v = 2 * q + tap % R - 1
        inside = (h >= 0) & (h < H) & (v >= 0) & (v < W) & (n < 2)
        image = tl.load(x + ((n * H + h) * W + v)[:, None] * C + rc[None, :], mask=inside[:, None], other=0.0)
        taps = tl.load(w + (rk[None, :] * R * R + tap) * C + rc[:, None])
        acc = tl.dot(image, taps, acc)
    tl.store(y + rp[:, None] * (BK * tl.num_programs(1)) + rk[None, :], acc.to(tl.float16), mask=(n < 2)[:, None])


@triton.jit
def decode_split(q, k, v, part, most, total, S, scale, D: tl.constexpr, BN: tl.constexpr, SPLIT: tl.constexpr):
    """One query of each head over a part of the keys."""
    head = tl.program_id(0)
    s = tl.program_id(1)
    rd = tl.arange(0, D)
    query = tl.load(q + head * D + rd).to(tl.float32)
    acc = tl.zeros((D,), tl.float32)
    m = -float("inf")
    sum = 0.0
    for start in range(s * BN, S, BN * SPLIT):
        rn = start + tl.arange(0, BN)
        kt = tl.load(k + (head * S + rn)[:, None] * D + rd[None, :], mask=(rn < S)[:, None], other=0.0).to(tl.float32)
        score = tl.where(rn < S, tl.sum(kt * query[None, :], 1) * scale, -float("inf"))
        more = tl.maximum(m, tl.max(score, 0))
        p = tl.exp2(score - more)
        vt = tl.load(v + (head * S + rn)[:, None] * D + rd[None, :], mask=(rn < S)[:, None], other=0.0).to(tl.float32)
        less = tl.exp2(m - more)
        acc = acc * less + tl.sum(p[:, None] * vt, 0)
        sum = sum * less + tl.sum(p, 0)
        m = more
    tl.store(part + (head * SPLIT + s) * D + rd, acc)
    tl.store(most + head * SPLIT + s, m)
    tl.store(total + head * SPLIT + s, sum)


@triton.jit
def adam(p, g, m, v, n, lr, b1, b2, eps, c1, c2, BLOCK: tl.constexpr):
    """A step of Adam with exact roots and divisions."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    grad = tl.load(g + i, mask=mask, other=0.0).to(tl.float32)
    first = b1 * tl.load(m + i, mask=mask, other=0.0) + (1 - b1) * grad
    second = b2 * tl.load(v + i, mask=mask, other=0.0) + (1 - b2) * grad * grad
    step = tl.div_rn(first * c1, tl.sqrt_rn(second * c2) + eps)
    tl.store(m + i, first, mask=mask)
    tl.store(v + i, second, mask=mask)
    tl.store(p + i, tl.load(p + i, mask=mask, other=0.0) - lr * step, mask=mask)


@triton.jit
def reduce_tiles(x, y, M: tl.constexpr, N: tl.constexpr):
    """Each program adds its tile to its place with a tensor reduction, through a descriptor made on the device."""
    i = tl.program_id(0)
    source = tl.make_tensor_descriptor(x, [M * tl.num_programs(0), N], [N, 1], [M, N])
    target = tl.make_tensor_descriptor(y, [M * tl.num_programs(0), N], [N, 1], [M, N])
    target.atomic_add([i * M, 0], source.load([i * M, 0]) * 2.0)


@triton.jit
def gather_and_count(x, index, y, counts, ROWS: tl.constexpr, COLS: tl.constexpr):
    """A gather along rows in shared memory, and a histogram."""
    r = tl.arange(0, ROWS)
    c = tl.arange(0, COLS)
    at = r[:, None] * COLS + c[None, :]
    v = tl.load(x + at)
    i = tl.load(index + at)
    tl.store(y + at, tl.gather(v, i, 1))
    tl.store(counts + c, tl.histogram(i.reshape(ROWS * COLS), COLS))
