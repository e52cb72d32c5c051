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
    _, found = CASES[name](size).launch(policy="eager")
    for output, array in found.items():
        raw = np.ascontiguousarray(array).tobytes()
        assert hashlib.sha256(raw).digest() == bytes(record()[f"{name}/{size}/{output}/sha256"])
