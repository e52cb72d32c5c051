"""What the kernels of this folder compute on an H200 is what they compute here; `record_kernels_sm90` made the record."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from .cases import CASES

LISTED = [(n, s) for n, family in CASES.items() for s in family.sizes]


@cache
def record() -> dict[str, NDArray[Any]]:
    with np.load(Path(__file__).parents[2] / "hardware" / "kernels_sm90_h200.npz") as data:
        return dict(data)


@pytest.mark.parametrize(("name", "size"), LISTED)
def test_recorded(name: str, size: str) -> None:
    case = CASES[name](size)
    _, found = case.launch(policy="eager")
    for output, array in found.items():
        key = f"{name}/{size}/{output}"
        expected = case.expected[output]
        if expected.bits is not None:
            raw = np.ascontiguousarray(array).tobytes()
            assert hashlib.sha256(raw).digest() == bytes(record()[f"{key}/sha256"])
            continue
        # Approximate instructions: both are within the tolerance of the exact value.
        assert expected.near is not None
        rows = record()[f"{key}/rows"]
        every = max(len(array) // 4, 1) if len(rows) < len(array) else 1
        recorded = rows.view(array.dtype).reshape(array[::every].shape).astype(np.float64)
        tolerance = np.broadcast_to(np.asarray(expected.atol), array.shape)[::every]
        assert (np.abs(recorded - expected.near[::every]) <= tolerance).all()
        assert (np.abs(recorded - array[::every].astype(np.float64)) <= tolerance).all()
