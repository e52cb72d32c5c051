"""The kernels of ``warp_gemm.cu``: mma.sync in each type, with rows and columns that do not fill the tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.hardware.kernels.case_helpers import case
from tests.hardware.kernels.gemm_cases import INF, NAN
from tests.hardware.kernels.inputs import below_two, full, integers, ordinary, special
from tests.hardware.suite._kernel import Kernel

ROWS, COLUMNS, BYTES = 80, 72, 208
KINDS = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "u8": 1}


def gemm(entry: str, a: str, b: str, inputs: str = "") -> Kernel:
    wide: Any = full if entry == "warp_f32_f16" else below_two
    make = wide if inputs == "full" else ordinary
    A, B = make(141, a, ROWS, BYTES // KINDS[a]), make(142, b, COLUMNS, BYTES // KINDS[b])
    if inputs == "special":
        special(A, a, {(3, 5): NAN, (40, 7): INF if a != "e4m3" else NAN, (41, 9): 0.0})
        special(B, b, {(9, 3): NAN, (17, 7): 0.0, (30, 13): -INF})
    D = np.zeros((ROWS, COLUMNS // (2 if entry == "warp_f16_f16" else 1)), np.uint32)
    return case("warp_gemm", entry, [A, B, D, ROWS, COLUMNS, BYTES], [D], inputs=inputs, grid=(2, 2), block=128)


def doubles(inputs: str) -> Kernel:
    make = below_two if inputs == "full" else ordinary
    A, B, D = make(143, "f64", 32, 48), make(144, "f64", 16, 48), np.zeros((32, 16))
    if inputs == "special":
        special(A, "f64", {(3, 5): NAN, (20, 7): INF})
        special(B, "f64", {(9, 3): -INF, (2, 7): 0.0})
    return case("warp_gemm", "warp_f64", [A, B, D, 16, 48], [D], inputs=inputs, grid=(2, 2), block=32)


def sparse() -> Kernel:
    steps = 4
    A, B = ordinary(145, "f16", 16, steps * 16), ordinary(146, "f16", 24, steps * 32)
    nibbles = np.array((4, 8, 9, 12, 13, 14), np.uint32)[integers(147, 0, 6, steps, 32, 8)]
    metadata = (nibbles << np.arange(0, 32, 4, dtype=np.uint32)).sum(axis=2, dtype=np.uint32)
    D = np.zeros((16, 24), np.float32)
    return case("warp_gemm", "warp_sparse", [A, B, metadata, D, steps], [D], grid=3, block=32)


def kernels() -> list[Kernel]:
    floats = [("warp_f32_f16", "f16", "f16"), ("warp_f16_f16", "f16", "f16"), ("warp_f32_bf16", "bf16", "bf16"),
              ("warp_f32_tf32", "tf32", "tf32"), ("warp_f32_e4m3", "e4m3", "e5m2")]  # fmt: skip
    return [
        *(gemm(*form, inputs) for form in floats for inputs in ("", "full", "special")),
        *(gemm(entry, "u8", "u8") for entry in ("warp_s32_s8", "warp_s32_s4", "warp_s32_b1")),
        *(doubles(inputs) for inputs in ("", "full", "special")),
        sparse(),
    ]
