"""The GEMMs of ``gemm.cu``: tiles of 128 x 64, K in steps of 128 bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxlab import TensorMap
from tests.hardware.kernels.case_helpers import case
from tests.hardware.kernels.inputs import below_two, full, ordinary, special
from tests.hardware.suite._kernel import Kernel

M, N, STEP, STAGES = 128, 64, 128, 3
SHARED = STAGES * (M + N) * STEP + 16 * STAGES
SIZES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
MAP_TYPES = {"f16": "f16", "bf16": "bf16", "tf32": "f32"}
NAN, INF = float("nan"), float("inf")


def gemm(entry: str, a: str, b: str, shape: tuple[int, int, int], grid: int, inputs: str = "", cluster: tuple[int, int] = (1, 1)) -> Kernel:
    """``shape``: rows, columns and steps of K; ``cluster``: the tiles of a cluster, below each other and side by side."""
    rows, columns, steps = shape
    elements = STEP // SIZES[a]
    wide: Any = below_two if a == "tf32" else full  # so that not all sums are infinite
    make = wide if inputs == "full" else ordinary
    A, B = make(1, a, rows, steps * elements), make(2, b, columns, steps * elements)
    if inputs == "special":
        special(A, a, {(3, 5): NAN, (40, 7): INF, (41, 9): -INF, (77, 11): INF, (77, 12): -INF} if a != "e4m3" else {(3, 5): NAN})
        special(B, b, {(9, 3): NAN, (17, 7): 0.0} | ({(30, 13): INF} if b != "e4m3" else {}))
    maps = [
        TensorMap(A, (elements, M // cluster[1]), "128B", dtype=MAP_TYPES.get(a, "u8")),
        TensorMap(B, (elements, N // cluster[0]), "128B", dtype=MAP_TYPES.get(b, "u8")),
    ]
    D = np.zeros((rows, columns), np.uint32)
    scratch = [np.zeros((grid, M, N), np.float32), np.zeros(grid, np.uint32)] if "stream_k" in entry else [None, None]
    args = [*maps, D, rows, columns, steps, elements, *scratch]
    return case("gemm", entry, args, [D], inputs=inputs, grid=grid, block=384, shared_bytes=SHARED, registers=168)


def kernels() -> list[Kernel]:
    return [
        *(gemm("gemm_f16", "f16", "f16", (256, 64, 3), 2, inputs) for inputs in ("", "full", "special")),
        gemm("gemm_tf32_persistent", "tf32", "tf32", (256, 192, 2), 4),
        gemm("gemm_tf32_persistent", "tf32", "tf32", (256, 64, 2), 1, "full"),
        gemm("gemm_bf16_stream_k", "bf16", "bf16", (256, 128, 5), 3),
        gemm("gemm_bf16_stream_k", "bf16", "bf16", (128, 64, 7), 3, "special"),
        *(gemm("gemm_e4m3", "e4m3", "e4m3", (128, 128, 4), 2, inputs) for inputs in ("", "full", "special")),
        *(gemm("gemm_e4m3_promoted", "e4m3", "e4m3", (128, 128, 4), 2, inputs) for inputs in ("", "full", "special")),
        gemm("gemm_e5m2_promoted_stream_k", "e5m2", "e4m3", (256, 64, 5), 3),
        gemm("gemm_e5m2_promoted_stream_k", "e5m2", "e4m3", (128, 64, 4), 2, "full"),
        gemm("gemm_s8_multicast_b", "s8", "u8", (256, 128, 4), 4, cluster=(2, 1)),
        gemm("gemm_f16_multicast_a", "f16", "f16", (256, 128, 4), 4, cluster=(1, 2)),
        gemm("gemm_bf16_multicast_both", "bf16", "bf16", (256, 256, 4), 8, cluster=(2, 2)),
    ]
