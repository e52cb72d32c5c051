"""Warp-level mma.sync on wild values, recorded on an H200 by ``record_mma_sync.py``: every output, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptxlab import numerics

RECORD = Path(__file__).with_name("mma_sync_h200.npz")


def names() -> list[str]:
    with np.load(RECORD) as data:
        return sorted(name.removesuffix("/A") for name in data.files if name.endswith("/A"))


@pytest.mark.parametrize("name", names())
def test_recorded(name: str) -> None:
    d, a, b, *_ = name.split(".")
    with np.load(RECORD) as data:
        A, B, C, D = (data[f"{name}/{label}"] for label in "ABCD")
    types: dict[str, Any] = {"arch": "mma.sm_90", "kind": None, "a": a, "b": b, "d": d, "saturate": name.endswith("satfinite")}
    ours = numerics.mma(**types, A=A, B=B, C=C)
    assert np.array_equal(ours, D), f"{(ours != D).sum()} of {D.size} differ"
    assert np.array_equal(numerics.reference.mma(**types, A=A[:4], B=B[:4], C=C[:4]), D[:4])
