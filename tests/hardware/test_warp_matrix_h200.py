"""mma.sync, mma.sp, ldmatrix and stmatrix as ``record_warp_matrix`` recorded them on an H200: the same kernels, every bit."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab

from . import warp_matrix_cases as cases

SHOWS = {
    "test_products": ("mma.(variant=sp|sp::ordered_metadata)*", "mma.sync.aligned.(shape=*(a=f64)*", "mma.sync.aligned.m8n8k4*"),
}

RECORD = Path(__file__).with_name("warp_matrix_h200.npz")


@cache
def record() -> dict[str, NDArray[Any]]:
    with np.load(RECORD) as data:
        return dict(data)


@pytest.mark.parametrize("form", cases.FORMS, ids=str)
def test_products(form: cases.Product) -> None:
    kernel = ptxlab.loads(cases.module([cases.kernel("k", form)])).kernel()
    out = np.zeros((cases.TILES, 32, form.words()["d"]), np.uint32)
    result = kernel.launch(grid=cases.TILES, block=32, args=[*cases.product_inputs(form, record()), out])
    assert result.ok, result.diagnostics
    want = record()[f"D/{form}"]
    assert np.array_equal(out, want), f"{(out != want).sum()} of {out.size} words differ, in tiles {np.unique(np.nonzero(out != want)[0])}"


@pytest.mark.parametrize("move", [*cases.MOVES, *cases.WIDENING], ids=str)
def test_moves(move: cases.Move) -> None:
    kernel = ptxlab.loads(cases.module([cases.move_kernel("k", move)], version=move.version)).kernel()
    image, rows, registers = cases.move_inputs(move)
    result = kernel.launch(grid=1, block=32, args=[image, rows, registers])
    assert result.ok, result.diagnostics
    assert np.array_equal(image if move.store else registers, record()[f"M/{move}"])
