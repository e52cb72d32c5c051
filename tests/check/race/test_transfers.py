"""Transfers between registers and tensor memory, and tcgen05.fence: compiled code records them as Python does, with the same findings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxlab
from ptxlab.check.race import _recorder, _tensor_memory
from ptxlab.check.race._tensor_memory import TensorMemoryAccesses
from ptxlab.check.race.clocks.clocks import Clocks

from .order_table.pair import FRAME
from .order_table.tensor_memory import END, LD, MEET, START, WAIT_LD, WAIT_ST
from .test_replayed_rows import calls_of

WIDE_LD = "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r0, %r1, %r2, %r3}, [%at+2];"
WIDE_ST = "tcgen05.st.sync.aligned.16x64b.x4.b32 [%at+1], {%tid, %tid, %tid, %tid};"
ST = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%at], {%tid};"
USE = "st.global.b32 [%out+64], %r0;"
OTHER_LANES = "add.u32 %at, %tmem, 0;"
BEFORE, AFTER = (f"tcgen05.fence::{side}_thread_sync;" for side in ("before", "after"))
FENCES = (BEFORE, AFTER, f"@%warp0 {AFTER}", f"@%first {BEFORE}")
STEPS = (LD, WIDE_LD, ST, WIDE_ST, WAIT_LD, WAIT_ST, USE, OTHER_LANES, MEET, "bar.sync 0;", f"@%warp0 {ST}", f"@%first {USE}", *FENCES)


def findings(steps: list[str], model: str) -> list[str]:
    body = START + "\n".join(steps) + f"\n{WAIT_LD}\n{WAIT_ST}" + END
    text = FRAME.format(target="sm_100a", body=body, use=USE)
    arguments: list[Any] = [np.zeros(16384, np.uint32), bytes(128)]
    result = ptxlab.loads(text, file="transfers.ptx").kernel().launch(args=arguments, block=128, shared_bytes=16384, model=model)
    return [str(finding) for finding in result.diagnostics]


def agree(steps: list[str], model: str) -> list[str]:
    found = findings(steps, model)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_recorder, "TRANSFER", 0)
        for bits in ("TENSOR_WAITS", "TENSOR_FENCES"):
            patched.setattr(_recorder, bits, {False: 0, True: 0})
        assert findings(steps, model) == found
    return found


@pytest.mark.parametrize("model", ["practice", "spec"])
@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=14))
def test_findings_are_those_of_python(steps: list[str], model: str) -> None:
    agree(steps, model)


def test_more_loads_than_compiled_code_holds() -> None:
    assert agree([WIDE_LD] * 20 + [USE, WIDE_ST], "practice")
    assert not agree([WIDE_LD] * 20 + [WAIT_LD, USE, WIDE_ST], "spec")


@pytest.mark.parametrize(("steps", "code"), [([ST, LD], "X107"), ([LD, ST], "X108")])
def test_a_wait_is_missing(steps: list[str], code: str) -> None:
    assert [code in text for text in agree(steps, "practice")] == [True]
    assert not agree([steps[0], WAIT_LD, WAIT_ST, steps[1]], "practice")


def test_python_handles_no_fence_that_compiled_code_does(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [calls_of(monkeypatch, Clocks, f"{side}_thread_sync") for side in ("before", "after")]
    assert not findings([MEET, LD, WAIT_LD] * 5, "practice")
    assert not any(calls)
    assert not agree([MEET, LD, WAIT_LD] * 5, "practice")
    assert all(calls), "if compiled code leaves them to Python"


@pytest.mark.parametrize("most", [3, 4])
def test_the_first_transfers_of_each_warp(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python records them only in large clusters, and a store that may read the registers of loads; the findings are the same."""
    expected = {steps: findings([*steps], "practice") for steps in ((ST, LD), (LD, ST), (WIDE_LD, USE), (LD, WAIT_LD, ST))}
    monkeypatch.setattr(_tensor_memory, "_MOST_WARPS", most)
    calls = calls_of(monkeypatch, TensorMemoryAccesses, "transferred")
    assert {steps: findings([*steps], "practice") for steps in expected} == expected
    assert len(calls) == (4 if most == 4 else 4 + 4 * 4 + 4 * 4), "the store after a load, the first store of each warp, the first load"
