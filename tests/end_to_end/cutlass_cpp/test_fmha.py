"""The forward attention kernels among the examples of the CUTLASS wheel, compiled there, against attention in float64."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab

from .compile_helpers import assert_clean, assert_legal, compiled

CASES = {
    "sm100_64": ("fmha.cu", "77_blackwell_fmha", {"HEAD_DIM": 64, "MASK": "NoMask"}),
    "sm100_128_causal": ("fmha.cu", "77_blackwell_fmha", {"HEAD_DIM": 128, "MASK": "CausalMask<true>"}),
    "sm90_64_causal": (
        "fmha_hopper.cu",
        "88_hopper_fmha",
        {"HEAD_DIM": 64, "FUSION": "CausalFusion", "SCHEDULE": "KernelTmaWarpSpecializedCooperative"},
    ),
}


UNORDERED = {"X107"}
"""What is found in the Blackwell kernel of CUTLASS 4.2.0.

The softmax warps store the row maximum and sum to tensor memory, and arrive at the barrier of the correction warps without
tcgen05.wait::st in between.
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CASES)
def test_forward(name: str) -> None:
    file, example, macros = CASES[name]
    head, causal = macros["HEAD_DIM"], "causal" in name
    host = compiled(file, f"{name.partition('_')[0].replace('sm', 'sm_')}a", macros, example=example)
    rows, columns, heads = 256, 256 if causal else 384, 2
    generator = np.random.default_rng(11)
    q, k, v = (generator.standard_normal((n, heads, head)).astype(np.float16) for n in (rows, columns, columns))
    o, lse = host.device.array(np.zeros_like(q)), host.device.array(np.zeros((heads, rows), np.float32))
    arguments = rows, columns, heads, *map(host.device.array, (q, k, v)), o, lse
    if name.startswith("sm100"):
        with pytest.raises(ptxlab.KernelError) as error:
            host["attention"](*arguments)
        errors = [found for found in error.value.diagnostics if found.severity == "error"]
        assert {found.code for found in errors} == UNORDERED
        assert all("no tcgen05.wait::st" in found.message for found in errors)
        assert_legal(host)
    else:
        assert host["attention"](*arguments) == 0
        assert_clean(host)
    wide = [x.astype(np.float64).swapaxes(0, 1) for x in (q, k, v)]
    scores = wide[0] @ wide[1].swapaxes(1, 2) / np.sqrt(head)
    if causal:
        scores = np.where(np.tri(rows, columns, dtype=bool), scores, -np.inf)
    most = scores.max(2, keepdims=True)
    weights = np.exp(scores - most)
    total = weights.sum(2, keepdims=True)
    assert np.abs(o.numpy().swapaxes(0, 1) - weights @ wide[2] / total).max() < 2e-3
    assert np.abs(lse.numpy() - (most + np.log(total))[..., 0]).max() < 2e-3
