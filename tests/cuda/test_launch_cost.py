"""How much Python a launch executes; ``benchmarks.driver`` measures times."""

from __future__ import annotations

import cProfile
import pstats
from statistics import median

import pytest

from tests.cuda.driver_helpers import Driver, needs_compiler

pytestmark = [pytest.mark.compiler, needs_compiler]

LAUNCHES, MOST_CALLS = 20, 260
"""Calls of functions for one launch of an empty kernel: they were 670 when it had a race check, and are 257."""


def test_a_launch_of_an_empty_kernel_makes_few_calls(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.context()
    empty = driver.function(driver.module(), "empty")
    assert driver.launch(empty, block=32) == 0
    profiles = []
    bridge = driver.own.bridge
    plain = bridge._run

    def counted(*arguments: object) -> int:
        profile = cProfile.Profile()
        profiles.append(profile)
        profile.enable()
        try:
            return plain(*arguments)  # type: ignore[arg-type]
        finally:
            profile.disable()

    monkeypatch.setattr(bridge, "_run", counted)
    for _ in range(LAUNCHES):
        assert driver.launch(empty, block=32) == 0
    driver.call("cuCtxSynchronize")
    # The median, since the garbage collector may call functions of other tests' objects during some of the launches.
    calls = median(pstats.Stats(profile).total_calls for profile in profiles)  # type: ignore[attr-defined]
    assert len(profiles) == LAUNCHES
    assert 20 < calls < MOST_CALLS
