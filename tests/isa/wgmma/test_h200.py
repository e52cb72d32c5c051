"""The recorded executions of wgmma on an H200, as kernels."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab
from tests.hardware import record_wgmma, wgmma_cases

from . import wgmma_helpers as bench

SHOWS = {
    "test_recorded_kernels": ("wgmma.mma_async.sync*",),
}

RECORD = Path(__file__).parents[2] / "hardware" / "wgmma_h200.npz"


@cache
def sets() -> dict[str, dict[str, Any]]:
    """The recorded sets by name."""
    with np.load(RECORD) as data:
        meta = json.loads(bytes(data["meta"]))
    return {row["key"]: row for row in meta}


def replay(key: str, policy: str, most: int) -> None:
    row = sets()[key]
    assert row["smem_base"] == bench.BASE
    with np.load(RECORD) as data:
        image, desc_a, desc_b, c, d = (data[f"{key}/{name}"] for name in ("smem", "desc_a", "desc_b", "c", "d"))
    every = max(len(c) // most, 1)
    tail = bench.tail_of(row["instruction"].split(".")[-2], transposed=(row["trans_a"], row["trans_b"]))
    # Recorded start addresses count from the start of the image.
    descriptors = np.stack([desc_a, desc_b], axis=1)[::every] + np.uint64(bench.BASE >> 4)
    found = bench.run(row["instruction"], image, descriptors, c[::every], tail=tail, policy=policy)
    assert np.array_equal(found, d[::every])


@pytest.mark.parametrize("key", sets())
def test_recorded(key: str) -> None:
    replay(key, "eager", 6)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["eager", "lazy"])
@pytest.mark.parametrize("key", sets())
def test_all_recorded(key: str, policy: str) -> None:
    replay(key, policy, 1 << 20)


RECORDED = wgmma_cases.instructions()


@cache
def more() -> dict[str, Any]:
    with np.load(RECORD.with_name("wgmma_h200_more.npz")) as data:
        return dict(data)


def run_recorded(i: Any) -> None:
    """The very kernel that was recorded."""
    text = ".version 8.4\n.target sm_90a\n.address_size 64\n" + record_wgmma.ptx(0, i)
    kernel = ptxlab.loads(text).kernel()
    for number in range(i.cases):
        case = wgmma_cases.Case.of(i, number, more())
        out = np.zeros((128, i.d_registers), np.uint32)
        arguments = [case.image(), case.c_registers(), out, case.a_registers(), case.meta_registers()]
        result = kernel.launch(grid=(1,), block=(128,), args=arguments, check="all")
        assert result.ok, result.diagnostics
        d = wgmma_cases.from_registers(i, out)
        assert hashlib.sha256(d.tobytes()).digest() == bytes(more()[f"{i}/sha256"][number]), str(i)


@pytest.mark.recording
@pytest.mark.parametrize("i", [i for i in RECORDED if i.registers and i.n == 64] + RECORDED[::29], ids=str)
def test_recorded_kernels(i: Any) -> None:
    run_recorded(i)


@pytest.mark.slow
@pytest.mark.parametrize("i", RECORDED, ids=str)
def test_all_recorded_kernels(i: Any) -> None:
    run_recorded(i)
