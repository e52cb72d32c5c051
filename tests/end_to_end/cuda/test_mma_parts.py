"""mma.sync whose operands are packed from halves and bytes: ``mma_parts.cu``, compiled here. Each kernel is right once and wrong once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptxlab
from ptxlab.interop import nvcc

K = 64
SOURCE = Path(__file__).with_name("mma_parts.cu")
KERNELS = {
    "packed_halves": np.float16,
    "stored_halves": np.float16,
    "permuted_bytes": ml_dtypes.float8_e4m3fn,
    "joined_bytes": ml_dtypes.float8_e4m3fn,
}
COLUMNS = {np.float16: 8, ml_dtypes.float8_e4m3fn: 32}


@cache
def module() -> ptxlab.Module:
    return nvcc.compile(SOURCE, arch="sm_89")


def launch(name: str, dtype: Any) -> tuple[Any, bool]:
    """The result, and whether the product is right."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((16, K), (K, COLUMNS[dtype])))
    d = np.zeros((16, COLUMNS[dtype]), np.float32)
    result = module()[name].launch(grid=1, block=32, args=[a, b, d])
    return result, bool((d == a.astype(np.float64) @ b.astype(np.float64)).all())


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str) -> None:
    result, right = launch(name, KERNELS[name])
    assert right
    assert result.diagnostics == ()


@pytest.mark.parametrize("name", KERNELS)
def test_neighbours_in_k_that_are_exchanged(name: str) -> None:
    name, dtype = f"{name}_exchanged", KERNELS[name]
    result, right = launch(name, dtype)
    assert not right
    assert {found.code for found in result.diagnostics} == {"O104"}
    assert result.diagnostics[0].message == (
        f"A and B are multiplied with different k: A[0, 0] is {name}_param_0[0, 0], but B[0, 0] is {name}_param_1[1, 0]"
    )
