"""Waits that compiled code completes: it does to the clocks what Python does, and hands over what Python has to report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxlab.check.model import Component, Row, rule_table
from ptxlab.check.race import _barriers, _groups, _recorder
from ptxlab.check.race.clocks.clocks import Clocks
from ptxlab.check.race.clocks.mbarrier_clock import MbarrierClock, Use
from ptxlab.check.race.clocks.slots import CopySlot
from ptxlab.check.race.shadow.shadow import Shadow
from ptxlab.check.race.shadow.shadow_words import PROXY_FENCES, AgentWord
from ptxlab.engine.support.event_rows import ROW_WORDS

from .small_kernels import launch
from .test_copy_groups import COMMIT, COPY, LEAVE_ONE, OTHER, PLACES, READ, READ_OTHER, REPEATED, WAIT, WAIT_ALL
from .test_phases import FREE, LOOP, RING, THREE

ARRIVE = "@%p1 mbarrier.init.shared::cta.b64 [%r7], 32;\nbar.warp.sync -1;\ncp.async.mbarrier.arrive.noinc.shared.b64 [%r7];"
STAGES = "\n".join((COPY, COMMIT, OTHER, COMMIT, LEAVE_ONE, READ, WAIT, READ_OTHER))
PASSED = """
@%p1 mbarrier.init.shared::cta.b64 [%r7], 64;
mov.u32 %r3, 0;
bar.sync 0;
AGAIN: mbarrier.arrive.shared::cta.b64 _, [%r7];
bar.sync 0;
and.b32 %r4, %r3, 1;
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r4;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p4, %r3, 9;
@%p4 bra AGAIN;
"""
"""Two warps wait nine times for a phase that is complete."""
UNORDERED = """
@%p1 mbarrier.init.shared::cta.b64 [%r7], 32;
setp.lt.u32 %p3, %r1, 32;
@%p3 mbarrier.arrive.shared::cta.b64 _, [%r7];
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
"""
KERNELS: dict[str, tuple[str, dict[str, Any]]] = {
    "loop": (LOOP.format(early=FREE.format(first=1), late=""), {}),
    "overrun": (LOOP.format(early="", late=""), {}),
    "passed": (PASSED, {"block": 64}),
    "not initialised": (UNORDERED, {"block": 64}),
    "ring": (RING, {"block": 64}),
    "three": (THREE.format(threads=64, meet=""), {"block": 96}),
    "groups": (PLACES + REPEATED.format(count=300, body=STAGES) + WAIT_ALL, {"block": 32}),
    "a group too few": (PLACES + "\n".join((COPY, COMMIT, OTHER, COMMIT, LEAVE_ONE, READ, READ_OTHER, WAIT_ALL)), {"block": 32}),
    "a number between groups": (
        PLACES + "\n".join((ARRIVE, COPY, COMMIT, ARRIVE.split("\n")[-1], OTHER, COMMIT, LEAVE_ONE, READ, READ_OTHER, WAIT_ALL)),
        {"block": 32},
    ),
}


ALL_STAGES = "\n".join((COPY, OTHER, WAIT_ALL, READ, READ_OTHER))
KERNELS |= {
    "all copies": (PLACES + REPEATED.format(count=300, body=ALL_STAGES), {"block": 32}),
    "all copies and groups": (PLACES + REPEATED.format(count=9, body=f"{STAGES}\n{ALL_STAGES}\n{COMMIT}") + WAIT_ALL, {"block": 32}),
    "a read before all copies": (PLACES + REPEATED.format(count=9, body="\n".join((COPY, READ, WAIT_ALL))), {"block": 32}),
    "a copy after all copies": (PLACES + "\n".join((COPY, WAIT_ALL, OTHER, COMMIT, READ, READ_OTHER, WAIT_ALL)), {"block": 32}),
    "all copies after a number": (PLACES + "\n".join((ARRIVE, COPY, WAIT_ALL, READ, OTHER, COMMIT, WAIT, READ_OTHER)), {"block": 32}),
    "all of no copies": (PLACES + f"{WAIT_ALL} {COMMIT} {WAIT_ALL}", {"block": 32}),
    "a group beyond all copies": (PLACES + "\n".join((COPY, WAIT_ALL, OTHER, COMMIT, LEAVE_ONE, READ, READ_OTHER, WAIT)), {"block": 32}),
}


def outcome(name: str) -> list[str]:
    body, options = KERNELS[name]
    return [repr(each) for each in launch(body, **options).diagnostics]


@pytest.mark.parametrize("name", KERNELS)
def test_findings_are_those_of_python(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = outcome(name)
    monkeypatch.setattr(_recorder, "COPY_WAIT", 0)
    monkeypatch.setattr(_recorder, "MBARRIER_WAIT", 0)
    assert outcome(name) == compiled


def calls_of(monkeypatch: pytest.MonkeyPatch, owner: Any, function: str) -> list[None]:
    calls: list[None] = []
    original = getattr(owner, function)

    def counted(*arguments: Any) -> Any:
        calls.append(None)
        return original(*arguments)

    monkeypatch.setattr(owner, function, counted)
    return calls


def test_python_handles_no_waits_of_warps_that_use_an_object_after_its_initialisation(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(monkeypatch, _barriers.Barriers, "acquired")
    assert outcome("passed") == []
    assert len(calls) == 0


def test_python_handles_the_first_wait_of_a_warp_for_which_the_initialisation_is_not_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second warp waits for a phase that the first one has completed, but nothing orders it after the initialisation."""
    calls = calls_of(monkeypatch, _barriers.Barriers, "acquired")
    found = outcome("not initialised")
    assert len(calls) == 1
    assert len(found) == 1
    assert "X120" in found[0]


def test_python_handles_no_waits_for_groups_with_consecutive_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(monkeypatch, _groups, "_complete_groups")
    assert outcome("groups") == []
    assert outcome("all copies") == []
    assert len(calls) == 0


def test_of_complete_groups_the_newest_is_kept() -> None:
    words, complete = memoryview(np.zeros(AgentWord.END, np.int64)), [0, 0]
    slot = CopySlot(0, 0, words, complete)
    for _ in range(9):
        slot.commit()
    assert slot.groups == [*range(1, 10)]
    complete[0] = 66
    for _ in range(60):
        slot.commit()
    assert slot.groups == [66, 67, 68, 69]
    assert words[AgentWord.COPY_GROUPS] == 69
    slot.commit()
    slot.advance()
    slot.commit()
    assert (slot.groups, slot.clock, words[AgentWord.COPY_GROUPS]) == ([66, 67, 68, 69, 70, 72], 72, 1)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6), st.integers(0, 8)), max_size=8), st.data())
def test_late_waits_in_the_order_of_the_waits(noted: list[tuple[int, int, int]], data: st.DataObject) -> None:
    clocks = Clocks(1, (None,), 4, "practice")
    ops = [f"op {index}" for index in range(9)]
    clock, expected = MbarrierClock(clocks.agents, ops, Use(clocks.agents[0], 0, 0, None)), dict[int, tuple[int, str]]()
    for warp, own, op in noted:
        clocks.agents[warp].execution[clocks.agents[warp].main.number] = own
        clock.wait(clocks.agents[warp], op | 1 << 32, joins=False)
        expected[warp] = own, ops[op]
    gathered = np.zeros_like(clocks.agents[0].shared)
    for agent in clocks.agents:
        for row in (Row.EXECUTION, Row.TENSOR):
            gathered[row, agent.main.number + Component.EARLY] = data.draw(st.integers(0, 6))
    slots = {warp: clocks.agents[warp].main.number + Component.EARLY for warp in expected}
    uses = {warp: Use(clocks.agents[warp], slots[warp], *about) for warp, about in expected.items()}
    late = [use for warp, use in uses.items() if gathered[[Row.EXECUTION, Row.TENSOR], slots[warp]].max() < use.clock]
    assert clock.waits() == [*uses.values()]
    clock.take(gathered)
    assert clock.take_late() == late
    assert clock.waits() == []


def test_a_compiled_fence_advances_the_clock_as_python_does() -> None:
    """The row that relaxed arrivals carry, too."""
    clocks = Clocks(1, (None,), 2, "practice")
    agent, own = clocks.agents[0], clocks.agents[0].main.number
    shadow = Shadow(np.array([(PROXY_FENCES[Row.ASYNC_SHARED], 0, 0)], np.uint64), rule_table("practice"))
    shadow.header[:] = agent.header
    before = agent.rows.copy()
    recorded = np.zeros((1, ROW_WORDS), np.uint64)
    assert shadow.drain(recorded.ctypes.data, 0, 1) == 1
    compiled = agent.rows.copy()
    agent.rows[:] = before
    clocks.tick(agent)
    columns = slice(own, own + len(Component))
    assert compiled[[Row.EXECUTION, Row.TENSOR], columns].tolist() == [[2, 2], [0, 2]]
    assert agent.rows[[Row.EXECUTION, Row.TENSOR], columns].tolist() == [[2, 2], [0, 2]]
