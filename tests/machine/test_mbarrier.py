from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxlab.engine.context import WORDS
from ptxlab.engine.mbarrier_rows import ROW_BYTES
from ptxlab.engine.turns.words import BarrierCell, ClusterCell
from ptxlab.isa.context import Misuse
from ptxlab.machine.schedule.barriers import ClusterBarrier, MbarrierState, NamedBarrier


def machine() -> Any:
    launch = SimpleNamespace(progress=0, barrier_arrivals=0, woken=[], observer=None, arrivals_together=False)

    def wake(waiters: list[object]) -> None:
        launch.woken += waiters
        waiters.clear()

    launch.wake = wake
    return launch


def mbarrier(launch: Any, offset: int, count: int) -> MbarrierState:
    return MbarrierState(launch, 0, offset, count, memoryview(bytearray(ROW_BYTES)).cast("i"))


def test_fresh_barrier_has_completed_the_phase_of_parity_one() -> None:
    barrier = mbarrier(machine(), 0x400, 1)
    assert barrier.completed(1)
    assert not barrier.completed(0)
    barrier.arrive()
    assert barrier.completed(0)
    assert not barrier.completed(1)


def test_transactions_may_complete_before_they_are_expected() -> None:
    barrier = mbarrier(machine(), 0x400, 1)
    barrier.complete_tx(4096)
    assert barrier.transactions == -4096
    barrier.arrive()
    assert barrier.phase == 0
    assert barrier.facts()[3] == ("transaction bytes", "-4096 (completed, not yet expected)")
    barrier.expect_tx(4096)
    assert (barrier.transactions, barrier.phase) == (0, 1)


def test_the_waiters_wake_when_the_phase_completes() -> None:
    launch = machine()
    barrier = mbarrier(launch, 0x400, 2)
    barrier.waiters.append("split")
    barrier.arrive()
    assert launch.woken == []
    barrier.arrive()
    assert launch.woken == ["split"]
    assert barrier.waiters == []


def test_opaque_states_tell_phase_and_pending_count() -> None:
    barrier = mbarrier(machine(), 0x400, 3)
    state = barrier.arrive()
    assert state & 0xFFFFF == 3
    assert not barrier.passed(state)
    barrier.arrive(2)
    assert barrier.passed(state)


def test_arrive_drop_lowers_later_phases() -> None:
    barrier = mbarrier(machine(), 0x400, 3)
    barrier.drop()
    barrier.arrive(2)
    assert (barrier.phase, barrier.pending, barrier.expected) == (1, 2, 2)


def test_an_object_that_has_ended_keeps_its_state() -> None:
    """A copy that was in flight completes on it, and not on the object that was made there later."""
    row = memoryview(bytearray(ROW_BYTES)).cast("i")
    old = MbarrierState(machine(), 0, 0x400, 2, row)
    old.arrive()
    old.detach()
    assert row[0] == 0
    new = MbarrierState(machine(), 0, 0x400, 3, row)
    old.complete_tx(16)
    assert (old.phase, old.pending, old.expected, old.transactions) == (0, 1, 2, -16)
    assert (new.phase, new.pending, new.expected, new.transactions) == (0, 3, 3, 0)


def test_misuse() -> None:
    barrier = mbarrier(machine(), 0x408, 2)
    with pytest.raises(Misuse, match="3 arrivals on the mbarrier at shared offset 0x408, but only 2 of 2 are pending in phase 0") as caught:
        barrier.arrive(3)
    assert caught.value.code == "B505"
    barrier.expect_tx((1 << 20) - 1)
    with pytest.raises(Misuse, match=r"becomes 1048576, outside -\(2\^20 - 1\) to 2\^20 - 1"):
        barrier.expect_tx(1)


@given(st.integers(1, 5), st.lists(st.one_of(st.just("arrive"), st.integers(1, 64)), max_size=40))
def test_phases_against_counting(count: int, steps: list[Any]) -> None:
    """Every expected byte completes later; phases end exactly when both counts reach zero."""
    barrier = mbarrier(machine(), 0x400, count)
    phase, arrived, pending_bytes = 0, 0, []
    for step in steps:
        if step == "arrive":
            if arrived == count:
                continue
            barrier.arrive()
            arrived += 1
        elif arrived < count:
            barrier.expect_tx(step)
            pending_bytes.append(step)
        elif pending_bytes:
            barrier.complete_tx(pending_bytes.pop())
        if arrived == count and not pending_bytes:
            phase, arrived = phase + 1, 0
        assert (barrier.phase, barrier.pending, barrier.transactions) == (phase, count - arrived, sum(pending_bytes))


def test_named_barrier_counts_and_refuses_different_counts() -> None:
    barrier = NamedBarrier(machine(), 3, np.zeros(BarrierCell.END, np.int64).data)
    assert not barrier.arrive(32, 64, 64)
    with pytest.raises(Misuse, match="barrier 3 is awaited by 64 threads and by all threads of the CTA in the same phase"):
        barrier.arrive(32, 128, None)
    assert barrier.arrive(32, 64, 64)
    assert barrier.generation == 1
    with pytest.raises(Misuse, match="96 threads arrive at barrier 3, which expects 64"):
        barrier.arrive(96, 64, 64)


def warp() -> Any:
    """A warp whose lanes all execute."""
    return SimpleNamespace(mask=0xFFFF_FFFF, words=[0] * WORDS)


def test_cluster_barrier_completes_when_the_rest_has_exited() -> None:
    cells = np.zeros(ClusterCell.END, np.int64)
    cells[ClusterCell.LIVE] = 64
    barrier = ClusterBarrier(machine(), cells.data)
    barrier.arrive(warp())
    assert barrier.phase == 0
    barrier.exited(warp(), 0xFFFF_FFFF)
    assert barrier.phase == 1


def test_threads_that_have_arrived_and_exited_are_not_waited_for_and_do_not_count() -> None:
    cells = np.zeros(ClusterCell.END, np.int64)
    cells[ClusterCell.LIVE] = 96
    barrier, first = ClusterBarrier(machine(), cells.data), warp()
    barrier.arrive(first)
    barrier.exited(first, 0xFFFF_FFFF)
    barrier.arrive(warp())
    assert barrier.phase == 0
    barrier.arrive(warp())
    assert barrier.phase == 1
