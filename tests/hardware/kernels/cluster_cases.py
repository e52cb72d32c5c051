"""The kernels of ``clusters.cu``: 128 threads in each CTA."""

from __future__ import annotations

import numpy as np

from tests.hardware.kernels.case_helpers import case
from tests.hardware.kernels.gemm_cases import INF, NAN
from tests.hardware.kernels.inputs import full, integers, ordinary, special
from tests.hardware.suite._kernel import Kernel

THREADS = 128


def moved(entry: str, ctas: int, words: int = 1, kind: str = "u32") -> Kernel:
    """Words of each thread in, as many out."""
    x = ordinary(31, kind, ctas, words, THREADS)
    y = np.zeros_like(x)
    return case("clusters", entry, [x, y], [y], grid=ctas, block=THREADS)


def kernels() -> list[Kernel]:
    data, counts = integers(32, 0, 256, 8, 500, dtype=np.uint8), np.zeros((2, 256), np.uint32)
    rows = {"": ordinary(33, "f32", 3, 640), "full": full(34, "f32", 3, 640)}
    rows["special"] = special(ordinary(35, "f32", 3, 640), "f32", {(0, 3): NAN, (1, 600): INF, (2, 5): -INF})
    weight = ordinary(36, "f32", 640)
    found = [case("clusters", "cluster_histogram", [data, counts, 500], [counts], grid=8, block=THREADS)]
    for inputs, x in rows.items():
        y, z = np.zeros_like(x), np.zeros_like(x)
        args = [x, weight, y, 640, np.float32(1e-5)]
        found.append(case("clusters", "cluster_layer_norm", args, [y], inputs=inputs, grid=12, block=THREADS))
        if inputs != "full":
            found.append(case("clusters", "cluster_softmax", [x, z, 640], [z], inputs=inputs, grid=6, block=THREADS))
    items, hashes = ordinary(37, "u32", 11, THREADS), np.zeros((11, THREADS), np.uint32)
    found.append(case("clusters", "cluster_pipeline", [items, hashes, 11], [hashes], grid=2, block=THREADS))
    values, sums = ordinary(38, "u32", 8, THREADS), np.zeros((2, 5, THREADS), np.uint32)
    found.append(case("clusters", "cluster_reduce_async", [values, sums], [sums], grid=8, block=THREADS))
    line, after = full(39, "f32", 8, THREADS), np.zeros((8, THREADS), np.float32)
    found.append(case("clusters", "cluster_stencil", [line, after, 9], [after], grid=8, block=THREADS))
    return [
        *found,
        moved("cluster_ring", 8, kind="f32"),
        moved("cluster_all_to_all", 4, 16),
        moved("cluster_scan", 16),
        moved("cluster_sort", 8, kind="s32"),
        moved("cluster_bulk", 8),
    ]
