"""When a launch that waits counts as hung, while other threads of the program and other processes take the processor."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from ptxlab.cuda import turns
from ptxlab.cuda.memory import DriverMemory

PATIENCE = 0.4


class WaitingProgram:
    """A driver whose program waits, while no stream goes on."""

    def ptxlab_stalled(self) -> None:
        pass

    def ptxlab_activity(self, waiting: Any, moving: Any) -> None:
        waiting._obj.value, moving._obj.value = 1, 0


class NoMemory:
    def forget_mirrors(self) -> None:
        pass


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> turns.Turns:
    """Turns in which a launch takes part that waits for another thread of the program."""
    monkeypatch.setattr(turns, "_HOPELESS", PATIENCE)
    monkeypatch.setattr(turns, "_HOPELESS_BESIDE_THREADS", PATIENCE)
    made = turns.Turns(WaitingProgram(), cast(DriverMemory, NoMemory()))
    made.__enter__()
    return made


def rounds_until_hung(mine: turns.Turns, one_round: Any) -> int:
    """How often the launch stalls until it counts as hung; at most 100 times."""
    for count in range(100):
        if not mine.stalled(1):
            return count
        one_round()
        mine.turn()
    return 100


def test_time_that_others_take_is_no_progress(mine: turns.Turns) -> None:
    slower = turns._RECENT + 0.05
    assert rounds_until_hung(mine, lambda: time.sleep(slower)) <= PATIENCE / slower + 2


def test_a_launch_that_computes_makes_progress(mine: turns.Turns) -> None:
    busy_rounds = iter(range(6))

    def compute() -> None:
        end = time.thread_time() + (turns._RECENT + 0.05 if next(busy_rounds, None) is not None else 0)
        while time.thread_time() < end:
            pass

    assert rounds_until_hung(mine, compute) > 6
