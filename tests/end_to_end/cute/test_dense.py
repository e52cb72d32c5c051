"""Dense GEMMs of CuTe DSL on tcgen05: element types, majors, one CTA and pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ptxlab.interop import cute

from .cute_helpers import exact, example, integers, run

F16, F32, I32 = np.float16, np.float32, np.int32
BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2

CASES = {
    #                          A, B        C     tile             M    N    K   CTAs major accumulator target
    "f16":                    (F16,        F32, (128, 128, 64), 256, 128, 192, 1, "k",  "Float32", "sm_100a"),
    "f16 by pairs":           (F16,        F32, (256, 128, 64), 512, 128, 192, 2, "k",  "Float32", "sm_100a"),
    "bf16, M- and N-major":   (BF16,       F32, (128, 128, 64), 128, 128, 192, 1, "mn", "Float32", "sm_100a"),
    "bf16 by pairs, MN":      (BF16,       F32, (256, 128, 64), 256, 128, 192, 2, "mn", "Float32", "sm_100a"),
    "e4m3":                   (E4M3,       F32, (128, 128, 128), 128, 128, 256, 1, "k", "Float32", "sm_100a"),
    "e5m2 by pairs":          (E5M2,       F32, (256, 256, 128), 256, 256, 256, 2, "k", "Float32", "sm_100a"),
    "tf32":                   (F32,        F32, (128, 64, 32),  128, 128, 96,  1, "k",  "Float32", "sm_100a"),
    "tf32, M- and N-major":   (F32,        F32, (128, 64, 32),  128, 128, 96,  1, "mn", "Float32", "sm_100a"),
    "s8":                     (np.int8,    I32, (128, 64, 128), 128, 128, 256, 1, "k",  "Int32",   "sm_100a"),
    "u8":                     (np.uint8,   I32, (128, 64, 128), 128, 128, 256, 1, "k",  "Int32",   "sm_100a"),
    "f16 accumulator":        (F16,        F16, (128, 64, 64),  128, 128, 128, 1, "k",  "Float16", "sm_100a"),
    "64 rows":                (F16,        F32, (64, 64, 64),   128, 128, 128, 1, "k",  "Float32", "sm_100a"),
    "pairs with 64 rows":     (F16,        F32, (128, 64, 64),  256, 128, 128, 2, "k",  "Float32", "sm_100a"),
    "sm_103a":                (F16,        F16, (128, 256, 64), 128, 256, 128, 1, "k",  "Float32", "sm_103a"),
    "the family of sm_100":   (F16,        F16, (128, 256, 64), 128, 256, 128, 1, "k",  "Float32", "sm_100f"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_dense(case: tuple[Any, ...], policies: Sequence[dict[str, Any]]) -> None:
    import cutlass

    dtype, result, tile, m, n, k, ctas, major, accumulator, target = case
    low = 0 if dtype is np.uint8 else -3
    a, b, c = integers(1, (m, k), dtype, low), integers(2, (n, k), dtype, low), np.zeros((m, n), result)
    if major == "mn":
        a, b = np.ascontiguousarray(a.T).T, np.ascontiguousarray(b.T).T
    gemm = example("dense_gemm").DenseGemm(tile, ctas=ctas, accumulator=getattr(cutlass, accumulator))
    compiled = cute.compile(gemm, a, b, c, target=target)
    assert f"cta_group::{ctas}" in compiled.ptx
    run(compiled, [a, b], c, exact(a, b), policies)


def test_wild_values_against_float64() -> None:
    """Each f32 sum of K products has a relative error below K 2^-23 of the sum of magnitudes."""
    a, b = (np.random.default_rng(seed).standard_normal((128, 256)).astype(F16) for seed in (1, 2))
    c = np.zeros((128, 128), F32)
    result = cute.compile(example("dense_gemm").DenseGemm(), a, b, c).launch(a, b, c)
    assert result.ok
    assert (np.abs(c - exact(a, b)) <= 256 * 2.0**-23 * exact(np.abs(a), np.abs(b))).all()
    assert (c != 0).all()
