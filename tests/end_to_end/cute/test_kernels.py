"""Block-scaled, persistent and Hopper GEMMs of CuTe DSL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptxlab
from ptxlab.interop import cute

from .cute_helpers import exact, example, integers, run

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def scaled(values: np.ndarray[Any, Any], scales: np.ndarray[Any, Any], block: int) -> np.ndarray[Any, Any]:
    return values * np.repeat(scales.astype(np.float64), block, axis=1)


@pytest.mark.parametrize("target", ["sm_100a", "sm_103a"])
def test_scales_of_32_elements(target: str, policies: Sequence[dict[str, Any]]) -> None:
    import cutlass

    module = example("block_scaled_gemm")
    m, n, k, block = 256, 128, 512, 32
    a, b = integers(1, (m, k), ml_dtypes.float8_e4m3fn), integers(2, (n, k), ml_dtypes.float8_e4m3fn)
    scales = [
        np.exp2(integers(seed, (rows, k // block), np.float64, -2, 3)).astype(ml_dtypes.float8_e8m0fnu) for seed, rows in ((3, m), (4, n))
    ]
    c = np.zeros((m, n), np.float32)
    inputs = [a, b, *(np.ascontiguousarray(module.blocked(s)) for s in scales)]
    gemm = module.BlockScaledGemm(cutlass.Float8E4M3FN, cutlass.Float8E8M0FNU, block)
    compiled = cute.compile(gemm, *inputs, c, target=target)
    assert "kind::mxf8f6f4" in compiled.ptx
    expected = exact(scaled(a.astype(np.float64), scales[0], block), scaled(b.astype(np.float64), scales[1], block))
    run(compiled, inputs, c, expected, policies)


def test_scales_of_16_elements_of_4_bits(policies: Sequence[dict[str, Any]]) -> None:
    import cutlass

    module = example("block_scaled_gemm")
    m, n, k, block = 128, 128, 512, 16
    codes = [integers(seed, (rows, k), np.uint8, 0, 16) for seed, rows in ((1, m), (2, n))]
    scales = [
        np.random.default_rng(seed).choice([0.5, 1, 1.5, 2], (rows, k // block)).astype(ml_dtypes.float8_e4m3fn)
        for seed, rows in ((3, m), (4, n))
    ]
    c = np.zeros((m, n), np.float32)
    inputs = [code[:, 0::2] | code[:, 1::2] << 4 for code in codes] + [np.ascontiguousarray(module.blocked(s)) for s in scales]
    gemm = module.BlockScaledGemm(cutlass.Float4E2M1FN, cutlass.Float8E4M3FN, block, tile=(128, 128, 256))
    compiled = cute.compile(gemm, *inputs, c)
    assert "kind::mxf4nvf4" in compiled.ptx
    run(compiled, inputs, c, exact(*(scaled(E2M1[code], scale, block) for code, scale in zip(codes, scales, strict=True))), policies)


@pytest.mark.parametrize("ctas", [1, 2])
def test_persistent_clusters_take_the_tiles_of_others(ctas: int, policies: Sequence[dict[str, Any]]) -> None:
    a, b, c = integers(1, (512, 128), np.float16), integers(2, (192, 128), np.float16), np.zeros((512, 192), np.float16)
    compiled = cute.compile(example("persistent_gemm").PersistentGemm((128 * ctas, 64, 64), ctas=ctas), a, b, c)
    tiles = 512 // (128 * ctas) * (192 // 64)
    sms = 4
    for result in run(compiled, [a, b], c, exact(a, b), policies, device=ptxlab.Device("sm_100a", sms=sms, ctas_per_sm=1)):
        asked = sum(count for name, count in result.stats.services.items() if "try_cancel" in name)
        clusters = result.stats.ctas // ctas
        # Every tile is a cluster's first or was asked for; each cluster asks once more, and hears that there is none.
        assert asked == tiles
        assert 1 <= clusters <= sms // ctas


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_hopper(dtype: Any, policies: Sequence[dict[str, Any]]) -> None:
    a, b, c = integers(1, (256, 192), dtype), integers(2, (128, 192), dtype), np.zeros((256, 128), np.float32)
    compiled = cute.compile(example("hopper_gemm").HopperGemm(), a, b, c, target="sm_90a")
    assert "wgmma.mma_async" in compiled.ptx
    assert "multicast::cluster" in compiled.ptx
    run(compiled, [a, b], c, exact(a, b), policies)


def test_hopper_with_m_and_n_major_operands(policies: Sequence[dict[str, Any]]) -> None:
    a, b = (np.ascontiguousarray(integers(seed, (192, rows), np.float16)).T for seed, rows in ((1, 256), (2, 64)))
    c = np.zeros((256, 64), np.float32)
    compiled = cute.compile(example("hopper_gemm").HopperGemm(cluster=1), a, b, c, target="sm_90a")
    run(compiled, [a, b], c, exact(a, b), policies)


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention(causal: bool, policies: Sequence[dict[str, Any]]) -> None:
    """The same bits under every policy. Probabilities and results are rounded to f16, by 2^-11: twice that is allowed."""
    module = example("fused_attention")
    q, k, v = (np.random.default_rng(seed).standard_normal((2, 256, 64)).astype(np.float16) for seed in (1, 2, 3))
    o = np.zeros_like(q)
    compiled = cute.compile(module.FusedAttention(causal=causal), q, k, v, o)
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / 8
    if causal:
        scores[:, *np.triu_indices(256, 1)] = -np.inf
    weights = np.exp(scores - scores.max(2, keepdims=True))
    expected = weights / weights.sum(2, keepdims=True) @ v.astype(np.float64)
    found = set()
    for policy in policies:
        o[:] = np.nan
        result = compiled.launch(q, k, v, o, check="all", **policy)
        assert result.ok
        assert not result.diagnostics
        assert np.abs(o - expected).max() < 2.0**-10 * np.abs(v.astype(np.float64)).max()
        found.add(o.tobytes())
    assert len(found) == 1
