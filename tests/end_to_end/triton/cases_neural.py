"""Attention, softmax, layer norm and the fused epilogue of neural_kernels."""

from __future__ import annotations

from functools import partial

import numpy as np

from .case_helpers import Case, Expected, Family, cdiv, descriptors
from .input_helpers import matrix
from .reference_helpers import DTYPES, F64, rounding

SCALE = float(np.log2(np.e) / 8)
"""Head dimension 64: log2(e) / sqrt(64)."""


def attend(q: F64, k: F64, v: F64, causal: bool) -> tuple[F64, F64, F64]:
    """Per head: the result, the same sum over the magnitudes of v, and the log2 of the softmax denominator."""
    s = q @ k.swapaxes(1, 2) * SCALE
    if causal:
        s = np.where(np.tri(s.shape[1], dtype=bool), s, -np.inf)
    top = s.max(2, keepdims=True)
    p = np.exp2(s - top)
    total = p.sum(2, keepdims=True)
    return p @ v / total, p @ np.abs(v) / total, (top + np.log2(total))[..., 0]


def attention(name: str, heads: int, s: int, causal: bool = False, maps: bool = False) -> Case:
    """q, k, v and o are [heads, S, 64] float16; P is rounded to float16 before the second product."""
    q, k, v = (matrix((heads, s, 64), "f16", seed) for seed in (1, 2, 3))
    o, lse = np.zeros_like(q), np.zeros((heads, s), np.float32)
    result, magnitude, denominator = attend(*(x.astype(np.float64) for x in (q, k, v)), causal)
    want = {"o": Expected(near=result, atol=2.0**-10 * magnitude + rounding(np.abs(result), "f16"))}
    if maps:
        args = descriptors(name, *(x.reshape(heads * s, 64) for x in (q, k, v, o)))
        return Case(name, (s // 128, heads), [*args, s, SCALE], want, {"o": o})
    want["lse"] = Expected(near=denominator, atol=1e-5 * (1 + np.abs(denominator)))
    return Case(name, (s // 128, heads), [q, k, v, o, lse, s, SCALE], want, {"o": o, "lse": lse})


def softmax(name: str, rows: int, cols: int, programs: int) -> Case:
    """Rows of a wider array; fewer programs than rows."""
    stride = cdiv(cols, 16) * 16
    x = matrix((rows, stride), "f32", 1) * np.float32(8)
    y = np.full_like(x, -1)
    e = np.exp(x[:, :cols].astype(np.float64) - x[:, :cols].max(1, keepdims=True))
    near = np.full(x.shape, -1.0)
    near[:, :cols] = e / e.sum(1, keepdims=True)
    want = Expected(near=near, atol=1e-5 * np.abs(near) + 1e-37)
    return Case(name, (programs,), [x, y, rows, cols, stride], {"y": want}, {"y": y})


def layer_norm(name: str, rows: int, cols: int) -> Case:
    x, w, b = matrix((rows, cols), "f16", 1), matrix((cols,), "f16", 2), matrix((cols,), "f16", 3)
    y, mean, rstd = np.zeros_like(x), np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    eps = 1e-5
    v = x.astype(np.float64)
    mu = v.mean(1)
    r = 1 / np.sqrt(v.var(1) + eps)
    near = (v - mu[:, None]) * r[:, None] * w.astype(np.float64) + b.astype(np.float64)
    want = {
        "y": Expected(near=near, atol=2e-5 * (1 + np.abs(near)) + rounding(np.abs(near), "f16")),
        "mean": Expected(near=mu, atol=np.full(rows, 1e-6)),
        "rstd": Expected(near=r, atol=1e-5 * r),
    }
    return Case(name, (rows,), [x, w, b, y, mean, rstd, cols, eps], want, {"y": y, "mean": mean, "rstd": rstd})


def mm_gelu(name: str, m: int, n: int, k: int) -> Case:
    """tanh.approx is good to about 2^-11."""
    a, b = matrix((m, k), "bf16", 1), matrix((n, k), "bf16", 2)
    bias = matrix((n,), "f32", 3)
    c = np.zeros((m, n), DTYPES["bf16"])
    v = a.astype(np.float64) @ b.astype(np.float64).T + bias
    near = 0.5 * v * (1 + np.tanh(0.7978845608028654 * (v + 0.044715 * v**3)))
    want = Expected(near=near, atol=2.0**-10 * np.abs(v) + rounding(np.abs(near), "bf16") * 1.01 + 1e-5)
    programs = (cdiv(m, 128), cdiv(n, 128))
    return Case(name, programs, [a, b, bias, c, m, n, k], {"c": want}, {"c": c})


HEADS = {"1x128": {"heads": 1, "s": 128}, "2x256": {"heads": 2, "s": 256}}
CASES = {
    "flash_fp16": Family(partial(attention, "flash_fp16"), HEADS),
    "flash_causal_fp16": Family(partial(attention, "flash_causal_fp16", causal=True), HEADS),
    "flash_ws_fp16": Family(partial(attention, "flash_ws_fp16", maps=True), HEADS),
    "softmax_fp32": Family(
        partial(softmax, "softmax_fp32"),
        {"4x512": {"rows": 4, "cols": 512, "programs": 4}, "ragged": {"rows": 7, "cols": 333, "programs": 3}},
    ),
    "layer_norm_fp16": Family(
        partial(layer_norm, "layer_norm_fp16"), {"2x512": {"rows": 2, "cols": 512}, "ragged": {"rows": 3, "cols": 611}}
    ),
    "mm_gelu_bf16": Family(
        partial(mm_gelu, "mm_gelu_bf16"),
        {"128x128x64": {"m": 128, "n": 128, "k": 64}, "ragged": {"m": 144, "n": 208, "k": 128}},
    ),
}
