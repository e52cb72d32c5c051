"""The kernels of ``rows.cu``: blocks of 128 threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.hardware.kernels.case_helpers import case
from tests.hardware.kernels.gemm_cases import INF, NAN
from tests.hardware.kernels.inputs import DTYPES, below_two, full, integers, ordinary, special
from tests.hardware.suite._kernel import Kernel

THREADS = 128
f32 = np.float32


def rows(entry: str, args: list[Any], results: list[Any], grid: int, inputs: str = "", block: int = THREADS) -> Kernel:
    return case("rows", entry, args, results, inputs=inputs, grid=grid, block=block)


def zeros(*shape: int, kind: str = "f32") -> Any:
    return np.zeros(shape, DTYPES[kind])


def softmaxes() -> list[Kernel]:
    found = []
    for inputs in ("", "large", "special"):
        x = ordinary(51, "f32", 5, 300) * f32(80 if inputs == "large" else 4)
        if inputs == "special":
            special(x, "f32", {(0, 7): NAN, (1, 9): INF, (2, 100): -INF})
            x[3] = -INF
        labels = integers(52, 0, 300, 5)
        for entry in ("softmax_online", "log_softmax_fast"):
            y = np.zeros_like(x)
            found.append(rows(entry, [x, y, 300], [y], 5, inputs))
        loss, gradient = zeros(5), np.zeros_like(x)
        found.append(rows("cross_entropy", [x, labels, loss, gradient, 300], [loss, gradient], 5, inputs))
    return found


def norms() -> list[Kernel]:
    found = []
    weight, bias = ordinary(53, "f32", 300), ordinary(54, "f32", 300)
    for inputs in ("", "full", "special"):
        x = full(55, "f16", 4, 300) if inputs == "full" else ordinary(55, "f16", 4, 300)
        if inputs == "special":
            special(x, "f16", {(0, 7): NAN, (1, 9): INF})
            x[3] = 0
        y, mean, rstd = np.zeros_like(x), zeros(4), zeros(4)
        found.append(rows("layer_norm_welford", [x, weight, bias, y, mean, rstd, 300, f32(1e-5)], [y, mean, rstd], 4, inputs))
    x, dy, mean, rstd = ordinary(56, "f32", 6, 300), below_two(57, "f32", 6, 300), ordinary(58, "f32", 6), ordinary(59, "f32", 6)
    dx, dw, db = zeros(6, 300), zeros(300), zeros(300)
    found.append(rows("layer_norm_backward", [x, dy, weight, mean, rstd, dx, 300], [dx], 6))
    found.append(rows("layer_norm_backward_columns", [x, dy, mean, rstd, dw, db, 6, 300], [dw, db], 3))
    z, gain, out = ordinary(60, "bf16", 8, 300), ordinary(61, "bf16", 300), zeros(8, 300, kind="bf16")
    found.append(rows("rms_norm_fast", [z, gain, out, 150, f32(1e-6)], [out], 8))
    images, scale, result = ordinary(62, "f32", 2, 12, 70), ordinary(63, "f32", 12), zeros(2, 12, 70)
    found.append(rows("group_norm", [images, scale, result, 12, 3, 70, np.float64(1e-5)], [result], 6))
    return found


def embeddings() -> list[Kernel]:
    found = []
    x = ordinary(64, "f32", 8, 2, 64)
    frequencies = (2.0 ** -(np.arange(32) / 4)).astype(f32)
    for inputs, first in (("", 0.0), ("far", 3.0e9)):
        halves, pairs = zeros(8, 2, 64), zeros(8, 2, 64)
        found.append(rows("rotary", [x, frequencies, halves, pairs, 2, 64, f32(first)], [halves, pairs], 8, inputs))
    z, y = ordinary(65, "f16", 16, 2, 64), zeros(16, 2, 64, kind="f16")
    return [*found, rows("rotary_fast", [z, y, 2, 32, f32(10000)], [y], 16)]


def random_numbers() -> list[Kernel]:
    n = 1000
    x, y, mask = ordinary(66, "bf16", n), zeros(n, kind="bf16"), zeros(32, kind="u32")
    normal, exponential = zeros(512), zeros(256)
    return [
        rows("dropout", [x, y, mask, n, f32(0.7), 42, 7], [y, mask], 2),
        rows("random_normal", [normal, exponential, 1234], [normal, exponential], 2),
    ]


def functions() -> list[Kernel]:
    found = []
    n = 640
    extremes = {(0,): NAN, (1,): INF, (2,): -INF, (3,): 0.0, (4,): -0.0, (5,): 1.0, (6,): -1.0, (7,): 1e-45, (8,): 88.8, (9,): -104.0}
    inputs = {"": ordinary(67, "f32", n, spread=8) * f32(16), "full": full(68, "f32", n)}
    inputs[""] = special(inputs[""], "f32", extremes)
    for name, x in inputs.items():
        exact, fast = zeros(14, n), zeros(12, n)
        found.append(rows("activations", [x, exact, n], [exact], 5, name))
        found.append(rows("activations_fast", [x, fast, n], [fast], 5, name))
    n = 512
    for name in ("", "full"):
        x = full(146, "f32", n) if name else special(ordinary(146, "f32", n, spread=6) * f32(8), "f32", extremes)
        d = full(147, "f64", n) if name else special(ordinary(147, "f64", n, spread=6), "f64", extremes)
        h, y, z, w = ordinary(148, "u32", n), zeros(19, n), zeros(3, n, kind="f64"), zeros(4, n, kind="u32")
        found.append(rows("approximations", [x, d, h, y, z, w, n], [y, z, w], 4, name))
    n = 640
    for name, x64 in {"": special(ordinary(69, "f64", n, spread=8) * 16, "f64", extremes), "full": full(70, "f64", n)}.items():
        y = zeros(10, n, kind="f64")
        found.append(rows("functions_double", [x64, y, n], [y], 5, name))
    return found


def half_precision() -> list[Kernel]:
    gate, up, dy = (ordinary(seed, "f16", 600) * np.float16(4) for seed in (71, 72, 73))
    special(gate, "f16", {(3,): NAN, (4,): INF, (5,): -INF, (6,): 11.0, (7,): -12.0})
    y, dgate, dup = (zeros(600, kind="f16") for _ in range(3))
    found = [rows("swiglu", [gate, up, dy, y, dgate, dup, 300], [y, dgate, dup], 3)]
    for kind in ("f16", "bf16"):
        a, b, c = (full(seed, kind, 1280) for seed in (74, 75, 76))
        numbers = (NAN, INF, -INF, 0.0, -0.0, 1.0, 65504.0, 6e-8)
        for i in range(64):
            special(a, kind, {(i,): numbers[i % 8]})
            special(b, kind, {(i,): numbers[i // 8]})
        special(c, kind, {(100,): NAN, (101,): INF})
        y = zeros(13, 1280, kind=kind)
        found.append(rows(f"arithmetic_{kind}", [a, b, c, y, 640], [y], 5))
    x = full(77, "f32", 512)
    x[:256] = ordinary(78, "f32", 256, spread=20)
    special(x, "f32", {(300,): NAN, (340,): INF})
    e4m3, e5m2, scales, back = zeros(512, kind="u8"), zeros(512, kind="u8"), zeros(16), zeros(512)
    found.append(rows("quantise", [x, e4m3, e5m2, scales, back], [e4m3, e5m2, scales, back], 4))
    weights, scale, vector, out = ordinary(79, "u32", 16, 64), ordinary(80, "f16", 16, 16), ordinary(81, "f16", 512), zeros(16)
    found.append(rows("int4_vector", [weights, scale, vector, out, 512], [out], 4))
    return found


def models() -> list[Kernel]:
    m, v, gradient = ordinary(82, "f32", 512), np.abs(ordinary(83, "f32", 512)), below_two(84, "f32", 512)
    parameters = special(ordinary(85, "bf16", 512), "bf16", {(3,): NAN, (4,): INF})
    adam = [m, v, gradient, parameters, f32(0.001), f32(0.9), f32(0.999), f32(1e-8), 10, 99]
    q, keys, values = ordinary(86, "f32", 4, 64) * f32(2), ordinary(87, "f32", 16, 8, 64), ordinary(88, "f32", 16, 8, 64)
    pages, out = integers(89, 0, 16, 8), zeros(4, 64)
    length, channels = 24, 16
    x, d, a = (
        ordinary(90, "f32", length, channels),
        np.abs(ordinary(91, "f32", length, channels)),
        -np.abs(ordinary(92, "f32", channels, 16)),
    )
    b, c, y = ordinary(93, "f32", length, 16), ordinary(94, "f32", length, 16), zeros(length, channels)
    decay, signal, average = np.abs(ordinary(95, "f32", 3, 300, spread=2)), below_two(96, "f32", 3, 300), zeros(3, 300)
    return [
        rows("adam", adam, [m, v, parameters], 4),
        rows("paged_decode", [q, keys, values, pages, out, 60], [out], 4, block=32),
        rows("selective_scan", [x, d, a, b, c, y, length, channels], [y], 2),
        rows("linear_recurrence", [decay, signal, average, 300], [average], 3),
    ]


def kernels() -> list[Kernel]:
    return [*softmaxes(), *norms(), *embeddings(), *random_numbers(), *functions(), *half_precision(), *models()]
