"""Compiled kernels with several workers: memory, findings, statistics and output are those of one worker.

All kernels: ``pytest tests/end_to_end/test_workers.py -m slow``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .replay_cases import KERNELS

PARALLEL = (
    *("layer_norm_fp16", "vector_add_fp32", "transpose_fp16", "h200_attention", "h200_cluster_softmax", "h200_convolution"),
    *("h200_gemm_f16", "h200_tiles_2d.bf16", "h200_cluster_bulk", "h200_fourier"),
)
"""The clusters of these are independent."""
TOGETHER = (
    "mm_split_k_fp16",
    "mm_split_k_ordered_fp16",
    "h200_scan_look_back",
    "h200_gemm_bf16_stream_k",
    "h200_histogram",
)
"""Those of these are not: sums in device memory, partial results that others wait for."""
SOMETIMES = ("h200_reduce_add.f16",)
"""Clusters in pairs add to the same bytes; both of a pair may happen to be given to one worker."""


def outcome(replay: Any, **options: Any) -> tuple[Any, list[Any]]:
    """The result of a launch, and everything that it must have in common with others."""
    result, memory = replay.run(**options)
    contents = [allocation.data.tobytes() for allocation in memory.live()]
    undefined = [None if a.mirror is None else np.asarray(a.mirror.bits).tobytes() for a in memory.live()]
    stats = result.stats
    counted = stats.instructions, stats.services, stats.ctas
    return result, [contents, undefined, result.diagnostics, counted, result.completed, result.stdout]


def compare(name: str, **options: Any) -> Any:
    replay = KERNELS[name]()
    _, one = outcome(replay, **options)
    result, two = outcome(replay, workers=2, **options)
    for found, expected in zip(two, one, strict=True):
        assert found == expected
    return result


@pytest.mark.parametrize("name", PARALLEL + TOGETHER + SOMETIMES)
def test_some_kernels(name: str) -> None:
    result = compare(name, check="all")
    if name in PARALLEL:
        assert result.stats.workers == 2, result.stats.why_alone
    elif name in TOGETHER:
        assert result.stats.workers == 1
        assert result.stats.why_alone


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel(name: str, policy: str) -> None:
    for check in ("all", "none"):
        compare(name, check=check, policy=policy)
