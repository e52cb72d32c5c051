"""The kernels of ``algorithms.cu``."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.hardware.kernels.case_helpers import case
from tests.hardware.kernels.gemm_cases import INF, NAN
from tests.hardware.kernels.inputs import below_two, full, integers, ordinary, special
from tests.hardware.suite._kernel import Kernel

THREADS = 128


def run(entry: str, args: list[Any], results: list[Any], grid: int, inputs: str = "", block: int = THREADS) -> Kernel:
    return case("algorithms", entry, args, results, inputs=inputs, grid=grid, block=block)


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


def sorts() -> list[Kernel]:
    found = []
    wild = full(101, "f32", 2, 256)
    special(wild, "f32", {(0, 3): NAN, (0, 90): -NAN, (0, 100): INF, (1, 4): -INF, (1, 7): 0.0, (1, 8): -0.0, (1, 9): 0.0})
    for inputs, x in (("full", wild), ("few", integers(102, 0, 5, 2, 256, dtype=np.float32))):
        y, places = np.zeros_like(x), zeros(2, 256, dtype=np.int32)
        found.append(run("bitonic_sort", [x, y, places], [y, places], 2, inputs))
    keys, ordered = ordinary(103, "s32", 256), zeros(256, dtype=np.int32)
    found.append(run("merge_sort_warp", [keys, ordered], [ordered], 2))
    words, sorted_words = ordinary(104, "u32", 2, 512), zeros(2, 512, dtype=np.uint32)
    found.append(run("radix_sort", [words, sorted_words], [sorted_words], 2))
    rows = full(105, "f32", 3, 500)
    special(rows, "f32", {(0, 3): INF, (1, 8): -INF, (2, 499): NAN})
    values, places = zeros(3, 8), zeros(3, 8, dtype=np.int32)
    return [*found, run("top_k", [rows, values, places, 500], [values, places], 3)]


def scans() -> list[Kernel]:
    x, y = ordinary(106, "u32", 8 * THREADS), zeros(8 * THREADS, dtype=np.uint32)
    states, ticket = zeros(8, dtype=np.uint64), zeros(1, dtype=np.uint32)
    z, flags, sums = below_two(107, "f32", 2, 256), (integers(108, 0, 9, 2, 256) == 0).astype(np.uint8), zeros(2, 256)
    found = [
        run("scan_look_back", [x, y, states, ticket], [y, states, ticket], 8),
        run("scan_segments", [z, flags, sums], [sums], 2),
    ]
    for inputs in ("", "full", "special"):
        rows = full(109, "f32", 3, 400) if inputs == "full" else ordinary(109, "f32", 3, 400)
        if inputs == "special":
            special(rows, "f32", {(0, 9): NAN, (1, 9): INF, (1, 300): -INF, (2, 7): -INF, (2, 8): 0.0})
        sums, extremes, places, products = zeros(3), zeros(3, 2), zeros(3, dtype=np.int32), zeros(3, dtype=np.float64)
        results = [sums, extremes, places, products]
        found.append(run("reductions", [rows, *results, 400], results, 3, inputs))
    data, counts = integers(110, 0, 40, 3001, dtype=np.uint8), zeros(256, dtype=np.uint32)
    return [*found, run("histogram", [data, counts, 3001], [counts], 3)]


def integer_kernels() -> list[Kernel]:
    messages, digests = ordinary(111, "u32", THREADS, 16), zeros(THREADS, 8, dtype=np.uint32)
    data, crc, murmur = ordinary(112, "u8", THREADS, 37), zeros(THREADS, dtype=np.uint32), zeros(THREADS, dtype=np.uint32)
    a, b = ordinary(113, "u32", THREADS, 8), ordinary(114, "u32", THREADS, 8)
    products, quotients = zeros(THREADS, 16, dtype=np.uint32), zeros(THREADS, 4, dtype=np.uint64)
    p, q, r = (ordinary(seed, "u32", 2 * THREADS) for seed in (115, 116, 117))
    bits = zeros(14, 2 * THREADS, dtype=np.uint32)
    v, votes = ordinary(118, "s32", 2 * THREADS), zeros(6, 2 * THREADS, dtype=np.int32)
    programs, outcomes = ordinary(119, "u8", THREADS, 40), zeros(THREADS, dtype=np.int32)
    cells, arrived = ordinary(120, "u32", 2, 4 * THREADS), zeros(1, dtype=np.uint32)
    return [
        run("sha256", [messages, digests], [digests], 1),
        run("hashes", [data, crc, murmur, 37], [crc, murmur], 1),
        run("big_integers", [a, b, products, quotients], [products, quotients], 1),
        run("bit_operations", [p, q, r, bits, 2 * THREADS], [bits], 2),
        run("warp_operations", [v, votes, 2 * THREADS], [votes], 2),
        run("interpreter", [programs, outcomes, 40], [outcomes], 1),
        run("automaton", [cells, arrived, 9], [cells], 4),
    ]


def matrices() -> list[Kernel]:
    lu, pivots = ordinary(121, "f64", 2, 32, 32), zeros(2, 32, dtype=np.int32)
    square = ordinary(122, "f32", 2, 32, 32).astype(np.float64)
    positive = np.round((square @ square.transpose(0, 2, 1) + 4 * np.eye(32)) * 1024).astype(np.float32) / np.float32(1024)
    x, spectrum = below_two(123, "f32", 2, 256, 2), zeros(2, 256, 2)
    twiddle = np.round(np.exp(-2j * np.pi * np.arange(128) / 256).view(np.float64).reshape(128, 2) * 2.0**22).astype(
        np.float32
    ) / np.float32(2**22)
    line, transformed = full(124, "f32", 1024) * np.float32(2.0**-12), zeros(1024)
    special(line, "f32", {(1000,): 0.0})
    starts = np.cumsum(np.concatenate([[0], integers(125, 0, 80, 20)])).astype(np.int32)
    columns, values = integers(126, 0, 200, int(starts[-1])), below_two(127, "f32", int(starts[-1]))
    vector, product = ordinary(128, "f32", 200), zeros(20)
    return [
        run("lu_decomposition", [lu, pivots], [lu, pivots], 2, block=32),
        run("cholesky", [positive], [positive], 2, block=32),
        run("fourier", [x, twiddle, spectrum], [spectrum], 2),
        run("hadamard", [line, transformed], [transformed], 1),
        run("sparse_vector", [starts, columns, values, vector, product, 20], [product], 5),
    ]


def graphs() -> list[Kernel]:
    first, second = integers(129, 0, 4, 2, THREADS, dtype=np.uint8), integers(130, 0, 4, 2, 150, dtype=np.uint8)
    scores, places = zeros(2, 4, dtype=np.int32), zeros(2, 4, dtype=np.int32)
    weights = np.where(integers(131, 0, 5, 64, 64) == 0, integers(132, 1, 1000, 64, 64), 0x7FFF).astype(np.uint16)
    distances = zeros(64, 32, dtype=np.uint32)
    degrees = integers(133, 0, 6, 400)
    starts = np.cumsum(np.concatenate([[0], degrees])).astype(np.int32)
    edges, levels = integers(134, 0, 400, int(starts[-1])), zeros(400, dtype=np.int32)
    return [
        run("alignment", [first, second, scores, places, 150], [scores, places], 2),
        run("shortest_paths", [weights, distances], [distances], 1),
        run("breadth_first", [starts, edges, levels, 400], [levels], 1),
    ]


def conversions() -> Kernel:
    n = 4 * THREADS
    x, d = full(135, "f32", n), full(136, "f64", n)
    x[:256] = ordinary(137, "f32", 256, spread=30) * np.float32(2.0**16)
    d[:256] = ordinary(138, "f64", 256, spread=90) * 2.0**40
    extremes = (NAN, INF, -INF, 0.0, -0.0, 0.5, 1.5, 2.5, -0.5, 448.0, 464.0, 57344.0, 65519.9, 65520.0, 2.0**31, 2.0**63, -(2.0**63), 6e-8)
    for i, value in enumerate(extremes):
        special(x, "f32", {(i,): value})
        special(d, "f64", {(i,): value})
    y = zeros(19, n, dtype=np.uint32)
    return run("conversions", [x, d, y, n], [y], 4)


def kernels() -> list[Kernel]:
    return [*sorts(), *scans(), *integer_kernels(), *matrices(), *graphs(), conversions()]
