"""Attention, softmax, layer norm and fused epilogues in Triton."""

import triton
import triton.language as tl


@triton.jit
def attention(q, k, v, o, lse, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """Flash attention, one program per BM rows of one head; scale already holds log2(e)."""
    pm = tl.program_id(0)
    head = tl.program_id(1)
    q += head * S * D
    k += head * S * D
    v += head * S * D
    o += head * S * D
    rm = pm * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    rd = tl.arange(0, D)
    qt = tl.load(q + rm[:, None] * D + rd[None, :])
    acc = tl.zeros((BM, D), tl.float32)
    m = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    end = (pm + 1) * BM if CAUSAL else S
    for start in range(0, end, BN):
        kt = tl.load(k + (start + rn)[:, None] * D + rd[None, :])
        s = tl.dot(qt, kt.T) * scale
        if CAUSAL:
            s = tl.where(rm[:, None] >= (start + rn)[None, :], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        total = total * alpha + tl.sum(p, 1)
        vt = tl.load(v + (start + rn)[:, None] * D + rd[None, :])
        acc = tl.dot(p.to(tl.float16), vt, acc * alpha[:, None])
        m = m_new
    acc = acc / total[:, None]
    tl.store(lse + head * S + rm, m + tl.log2(total))
    tl.store(o + rm[:, None] * D + rd[None, :], acc.to(tl.float16))


@triton.jit
def attention_ws(qd, kd, vd, od, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Warp-specialised flash attention over tensor descriptors of all heads, [heads * S, D]."""
    pm = tl.program_id(0)
    head = tl.program_id(1)
    qt = qd.load([head * S + pm * BM, 0])
    acc = tl.zeros((BM, D), tl.float32)
    m = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for start in tl.range(0, S, BN, warp_specialize=True):
        kt = kd.load([head * S + start, 0])
        s = tl.dot(qt, kt.T) * scale
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        total = total * alpha + tl.sum(p, 1)
        vt = vd.load([head * S + start, 0])
        acc = tl.dot(p.to(tl.float16), vt, acc * alpha[:, None])
        m = m_new
    od.store([head * S + pm * BM, 0], (acc / total[:, None]).to(tl.float16))


@triton.jit
def softmax(x, y, rows, cols, stride, BLOCK: tl.constexpr):
    """Softmax of each row; a program takes every num_programs-th row."""
    c = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        v = tl.load(x + row * stride + c, mask=c < cols, other=-float("inf"))
        e = tl.exp(v - tl.max(v, 0))
        tl.store(y + row * stride + c, e / tl.sum(e, 0), mask=c < cols)


@triton.jit
def layer_norm(x, w, b, y, mean, rstd, cols, eps, BLOCK: tl.constexpr):
    """Layer norm of one row in blocks: two passes for the moments, one for the result."""
    row = tl.program_id(0)
    x += row * cols
    y += row * cols
    c = tl.arange(0, BLOCK)
    s = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        s += tl.load(x + start + c, mask=start + c < cols, other=0.0).to(tl.float32)
    mu = tl.sum(s, 0) / cols
    s = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        v = tl.load(x + start + c, mask=start + c < cols, other=0.0).to(tl.float32)
        d = tl.where(start + c < cols, v - mu, 0.0)
        s += d * d
    r = 1 / tl.sqrt(tl.sum(s, 0) / cols + eps)
    tl.store(mean + row, mu)
    tl.store(rstd + row, r)
    for start in range(0, cols, BLOCK):
        mask = start + c < cols
        v = tl.load(x + start + c, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(w + start + c, mask=mask)
        h = tl.load(b + start + c, mask=mask)
        tl.store(y + start + c, ((v - mu) * r * g + h).to(tl.float16), mask=mask)


@triton.jit
def mm_gelu(a, b, bias, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """gelu(a @ b.T + bias) with the tanh form of GELU; a [M, K], b [N, K] bfloat16."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :], mask=rm[:, None] < M, other=0.0)
        y = tl.load(b + rn[:, None] * K + (k + rk)[None, :], mask=rn[:, None] < N, other=0.0)
        acc = tl.dot(x, y.T, acc)
    v = acc + tl.load(bias + rn, mask=rn < N, other=0.0)[None, :]
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    t = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [u], tl.float32, is_pure=True, pack=1)
    r = 0.5 * v * (1.0 + t)
    tl.store(c + rm[:, None] * N + rn[None, :], r.to(tl.bfloat16), mask=(rm[:, None] < M) & (rn[None, :] < N))
