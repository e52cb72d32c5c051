"""wgmma on wild values, recorded on an H200: every output, bit for bit."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab import numerics

RECORD = Path(__file__).with_name("wgmma_h200.npz")
DTYPES: dict[str, Any] = {"f16": np.uint16, "bf16": np.uint16, "tf32": np.uint32}


@cache
def sets() -> dict[str, str]:
    """The names of the recorded sets with their instructions."""
    with np.load(RECORD) as data:
        meta = json.loads(bytes(data["meta"]))
    return {row["key"]: row["instruction"] for row in meta if row["key"].startswith("numerics/")}


def operand(image: NDArray[np.uint8], descriptor: int, rows: int) -> NDArray[np.uint8]:
    """32 bytes of K for each row; K-major without swizzle: core matrices of 8 rows by 16 bytes."""
    start, leading, stride = ((descriptor >> bit & 0x3FFF) << 4 for bit in (0, 16, 32))
    row, byte = np.arange(rows)[:, None], np.arange(32)[None]
    return image[start + row // 8 * stride + byte // 16 * leading + row % 8 * 16 + byte % 16]


@pytest.mark.parametrize("key", sets())
def test_recorded(key: str) -> None:
    d, a, b = sets()[key].split(".")[-3:]
    with np.load(RECORD) as data:
        image, *cases = (data[f"{key}/{name}"] for name in ("smem", "desc_a", "desc_b", "c", "d"))
    types: dict[str, Any] = {"arch": "wgmma", "kind": None, "a": a, "b": b, "d": d}
    dtype = DTYPES.get(a, np.uint8)
    for index, (desc_a, desc_b, C, D) in enumerate(zip(*cases, strict=True)):
        A, B = operand(image, int(desc_a), 64).view(dtype), operand(image, int(desc_b), 16).view(dtype)
        assert np.array_equal(numerics.mma(**types, A=A, B=B, C=C), D)
        if index == 0:
            assert np.array_equal(numerics.reference.mma(**types, A=A[:16], B=B, C=C[:16]), D[:16])
