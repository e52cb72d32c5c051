"""Code for each level of processors gives the bits that an H200 has given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxlab import numerics
from tests.native.level_helpers import LEVELS, functions_of

from . import test_mma_sync_h200 as sync
from . import test_wgmma_numerics as wgmma


@pytest.mark.parametrize("level", LEVELS)
def test_wgmma(level: str) -> None:
    with functions_of(level), np.load(wgmma.RECORD) as data:
        for key, instruction in wgmma.sets().items():
            d, a, b = instruction.split(".")[-3:]
            dtype = wgmma.DTYPES.get(a, np.uint8)
            types: dict[str, Any] = {"arch": "wgmma", "kind": None, "a": a, "b": b, "d": d}
            image, *cases = (data[f"{key}/{name}"] for name in ("smem", "desc_a", "desc_b", "c", "d"))
            for desc_a, desc_b, C, D in zip(*cases, strict=True):
                A, B = (wgmma.operand(image, int(at), rows).view(dtype) for at, rows in ((desc_a, 64), (desc_b, 16)))
                assert np.array_equal(numerics.mma(**types, A=A, B=B, C=C), D), key


@pytest.mark.parametrize("level", LEVELS)
def test_mma_sync(level: str) -> None:
    with functions_of(level), np.load(sync.RECORD) as data:
        for name in sync.names():
            d, a, b, *_ = name.split(".")
            A, B, C, D = (data[f"{name}/{label}"] for label in "ABCD")
            types: dict[str, Any] = {"arch": "mma.sm_90", "kind": None, "a": a, "b": b, "d": d, "saturate": name.endswith("satfinite")}
            assert np.array_equal(numerics.mma(**types, A=A, B=B, C=C), D), name
