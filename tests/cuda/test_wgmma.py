"""wgmma in every type, A from shared memory and registers, transposed and negated operands: ``wgmma_gemm.cu``, compiled here."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from tests.cuda.wgmma_cases import SOURCE, TILES, Gemm, gemms

import ptxlab
from ptxlab.interop import nvcc


@cache
def module() -> ptxlab.Module:
    return nvcc.compile(SOURCE, arch="sm_90a", fmad=False)


@pytest.mark.parametrize(("number", "gemm"), list(enumerate(gemms())), ids=lambda g: getattr(g, "name", ""))
def test_gemm(number: int, gemm: Gemm) -> None:
    """Under one policy; that of the records of `tests/hardware` is another."""
    args = gemm.arguments()
    policy = ("lazy", "random", "eager")[number % 3]
    done = module()[gemm.name].launch(grid=TILES, block=256, args=args, check="all", policy=policy)
    assert not done.diagnostics
    assert np.array_equal(args[2], gemm.expected())
