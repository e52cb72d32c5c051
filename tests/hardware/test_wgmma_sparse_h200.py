"""Sparse wgmma as ``record_wgmma_sparse`` recorded it on an H200: the same kernels, every bit."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab

from . import wgmma_sparse_cases as cases

SHOWS = {
    "test_recorded": ("wgmma.mma_async.sp*",),
}

RECORD = Path(__file__).with_name("wgmma_sparse_h200.npz")


@cache
def record() -> dict[str, Any]:
    with np.load(RECORD) as data:
        return dict(data)


@pytest.mark.parametrize("number", range(len(cases.FORMS)), ids=map(str, cases.FORMS))
def test_recorded(number: int) -> None:
    form = cases.FORMS[number]
    out = np.zeros((cases.THREADS, form.count), np.uint32)
    kernel = ptxlab.loads(cases.ptx(form)).kernel()
    result = kernel.launch(grid=1, block=cases.THREADS, args=[*cases.operands(form, number, record()), out])
    assert result.ok, result.diagnostics
    assert np.array_equal(out, record()[f"D/{form}"])
