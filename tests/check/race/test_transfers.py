"""Transfers between registers and tensor memory, and tcgen05.fence: compiled code records them as Python does, with the same findings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ptxlab
from ptxlab.check.race import _recorder, _tensor_memory
from ptxlab.check.race._tensor_memory import TensorMemoryAccesses
from ptxlab.check.race.clocks.clocks import Clocks
from ptxlab.check.race.shadow.transfers import TransferWord
from ptxlab.native import address_of

from .order_table.pair import FRAME
from .order_table.tensor_memory import END, LD, MEET, START, WAIT_LD, WAIT_ST
from .test_compiled_arrivals import _noting as noting
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
    """Python records them only in large clusters, and one store that may read the registers of loads; the findings are the same."""
    expected = {steps: findings([*steps], "practice") for steps in ((ST, LD), (LD, ST), (WIDE_LD, USE), (LD, WAIT_LD, ST))}
    monkeypatch.setattr(_tensor_memory, "_MOST_WARPS", most)
    calls = calls_of(monkeypatch, TensorMemoryAccesses, "transferred")
    assert {steps: findings([*steps], "practice") for steps in expected} == expected
    assert len(calls) == (1 if most == 4 else 4 + 4 * 4 + 4 * 4), "stores after a load, the first store of each warp, the first load"


# ---------------------------------------------------------------------------------------------------------- registers that are read

ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%mbar2];"
USE_LAST = USE.replace("%r0", "%r3")
OF_LOOPS = (LD, WIDE_LD, USE, USE_LAST, ST, WAIT_LD, WAIT_ST, MEET, "bar.sync 0;", ARRIVE, f"@%warp0 {WAIT_LD}", f"@%first {USE}")


def looped(steps: list[str], turns: int) -> list[str]:
    before = f"@%first mbarrier.init.shared::cta.b64 [%mbar2], 128;\nbar.sync 0;\nmov.u32 %t, {turns};\nAGAIN:"
    return [before, *steps, "sub.u32 %t, %t, 1;\nsetp.ne.u32 %p0, %t, 0;\n@%p0 bra AGAIN;"]


def agree_in_loops(steps: list[str], turns: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], int]:
    """Findings, which are the same if Python asks each time whether registers have been read; how often it does otherwise."""
    fill = TensorMemoryAccesses.fill
    unread: list[Any] = []

    def fill_unknown(self: Any, warp: Any, clocks: Any, agent: Any) -> None:
        fill(self, warp, clocks, agent)
        count = len(warp.launch.program.ops)
        row, rows = np.zeros(count, np.uint8), np.zeros(count, np.uint64)
        unread.append((row, rows))
        rows[:] = address_of(row)
        agent.transfers[TransferWord.READ_BEFORE] = address_of(rows)

    found = []
    for way in (fill, fill_unknown):
        with monkeypatch.context() as patch:
            patch.setattr(TensorMemoryAccesses, "fill", way)
            made: list[Any] = []
            patch.setattr(Clocks, "__init__", noting(Clocks.__init__, made))
            calls = calls_of(patch, TensorMemoryAccesses, "consume")
            texts = findings(looped(steps, turns), "practice")
            found.append((texts, [each.rows.tolist() for each in made], len(calls)))
    assert found[0][:2] == found[1][:2]
    return texts, found[0][2]


@pytest.mark.parametrize("event", [MEET, "bar.sync 0;", ARRIVE], ids=["fences", "barrier", "mbarrier"])
def test_python_finds_once_that_registers_are_read(event: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [LD, USE, event, WIDE_LD, USE, USE_LAST, "add.u32 %r9, %r1, %r2;", event]
    _, few = agree_in_loops(steps, 5, monkeypatch)
    _, many = agree_in_loops(steps, 20, monkeypatch)
    assert few == many > 0


def test_registers_that_are_not_read_before_a_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers that are read after the barrier are not read before it in the next iteration either."""
    texts, _ = agree_in_loops(["bar.sync 0;", LD, "bar.sync 0;", ST, WAIT_ST], 6, monkeypatch)
    assert any("X108" in text for text in texts)


@pytest.mark.parametrize("use", [USE, ""], ids=["read", "not_read"])
def test_python_finds_once_whether_a_store_follows_what_reads_registers(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older load has been read, the newer one has not."""
    steps = [LD, use, WIDE_LD, ST, WAIT_ST, USE_LAST, USE, WIDE_ST, WAIT_LD, WAIT_ST]
    texts, few = agree_in_loops(steps, 5, monkeypatch)
    _, many = agree_in_loops(steps, 20, monkeypatch)
    assert few == many > 0
    assert any("X108" in text for text in texts)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.sampled_from(OF_LOOPS), max_size=12), turns=st.integers(1, 4))
def test_loops(steps: list[str], turns: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        agree_in_loops(steps, turns, patch)
