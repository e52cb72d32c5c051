"""The kernels of ``attention.cu``: heads of 64 elements."""

from __future__ import annotations

import numpy as np

from tests.hardware.kernels.case_helpers import case
from tests.hardware.kernels.gemm_cases import INF, NAN
from tests.hardware.kernels.inputs import ordinary, special
from tests.hardware.suite._kernel import Kernel

HEADS, LENGTH, SCALE = 2, 192, np.float32(0.125 * 1.4426950408889634)


def forward(entry: str, inputs: str = "") -> Kernel:
    q, k, v = (ordinary(seed, "f16", HEADS, LENGTH, 64, spread=6) for seed in (21, 22, 23))
    if inputs == "special":
        special(q, "f16", {(0, 3, 5): INF, (0, 70, 1): NAN, (1, 100, 7): -INF})
        special(v, "f16", {(1, 5, 9): INF, (1, 6, 9): -INF, (0, 10, 3): NAN})
    elif inputs == "large":
        q *= np.float16(64)
    o, most, total = np.zeros_like(q), np.zeros((HEADS, LENGTH), np.float32), np.zeros((HEADS, LENGTH), np.float32)
    args = [q, k, v, o, most, total, LENGTH, SCALE]
    return case("attention", entry, args, [o, most, total], inputs=inputs, grid=(LENGTH // 64, HEADS), block=128)


def backward(entry: str, inputs: str = "") -> Kernel:
    q, k, v, do = (ordinary(seed, "f16", HEADS, LENGTH, 64, spread=6) for seed in (21, 22, 23, 24))
    if inputs == "special":
        special(do, "f16", {(0, 3, 5): INF, (0, 70, 1): NAN})
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) * np.float64(SCALE)
    most = np.ceil(scores.max(axis=2) * 4).astype(np.float32) / 4
    total = np.ceil(np.exp2(scores - most[:, :, None]).sum(axis=2) * 8).astype(np.float32) / 8
    delta = ordinary(25, "f32", HEADS, LENGTH)
    dq = np.zeros((LENGTH // 64, HEADS, LENGTH, 64), np.float32)
    dk, dv = np.zeros((HEADS, LENGTH, 64), np.float32), np.zeros((HEADS, LENGTH, 64), np.float32)
    args = [q, k, v, do, most, total, delta, dq, dk, dv, LENGTH, SCALE]
    return case("attention", entry, args, [dq, dk, dv], inputs=inputs, grid=(LENGTH // 64, HEADS), block=128)


def delta() -> Kernel:
    o, do = ordinary(26, "f16", HEADS, LENGTH, 64, spread=14), ordinary(27, "f16", HEADS, LENGTH, 64, spread=14)
    out = np.zeros((HEADS, LENGTH), np.float32)
    return case("attention", "attention_delta", [o, do, out], [out], grid=HEADS * LENGTH // 4, block=128)


def kernels() -> list[Kernel]:
    return [
        forward("attention"),
        forward("attention", "special"),
        forward("attention_causal"),
        *(forward(entry, inputs) for entry in ("attention_exact", "attention_causal_exact") for inputs in ("", "large", "special")),
        backward("attention_backward"),
        backward("attention_backward_exact"),
        backward("attention_backward_exact", "special"),
        delta(),
    ]
