"""What runs beside a launch: it may change the memory that the launch waits for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.machine.launch.configuration import ORDERS, STRONG, WRITES
from tests.machine.launch_helpers import kernel, store

WAIT = """
    L: ld.acquire.sys.global.b32 r1, [out];
    setp.ne.u32 p, r1, 5;
    @p bra L;
"""
COUNTED = """
    L: add.u32 r2, r2, 1;
    ld.acquire.sys.global.b32 r1, [out];
    setp.ne.u32 p, r1, 5;
    @p bra L;
"""


class Outside:
    """Counts the questions of the machine; ``help_`` is called when the launch waits."""

    def __init__(self, help_: Callable[[], bool]) -> None:
        self.help = help_
        self.turns = 0
        self.states: list[int] = []
        self.ranges: list[list[int]] = []

    def turn(self) -> None:
        self.turns += 1

    def overlapped(self) -> bool:
        return False

    def stalled(self, state: int) -> bool:
        self.states.append(state)
        return self.help()

    def wants_accesses(self) -> bool:
        return True

    def accessed(self, ranges: NDArray[np.uint64]) -> None:
        self.ranges = ranges.tolist()


def _run(body: str, help_: Callable[[ptxlab.Buffer], bool], **options: object) -> tuple[ptxlab.Result, Outside]:
    device = ptxlab.Device("sm_100a")
    flag = device.array(np.zeros(32, np.uint32))
    outside = Outside(lambda: help_(flag))
    result = kernel("mov.u32 r2, 0;" + body).launch(grid=1, block=32, args=[flag], device=device, outside=outside, **options)  # type: ignore[arg-type]
    return result, outside


def _set(flag: ptxlab.Buffer) -> bool:
    flag.write(np.full(32, 5, np.uint32))
    return True


@pytest.mark.parametrize(("body", "options"), [(WAIT, {}), (COUNTED, {"max_instructions": 20_000})], ids=["repeats", "budget"])
def test_a_launch_goes_on_when_memory_has_changed(body: str, options: dict[str, int]) -> None:
    result, outside = _run(body, _set, **options)
    assert result.ok
    assert len(outside.states) == 1


def test_it_hangs_if_nothing_outside_helps() -> None:
    result, outside = _run(WAIT, lambda _: False)
    assert [d.code for d in result.diagnostics] == ["H601"]
    assert len(outside.states) == 1


def test_the_state_says_whether_the_launch_repeats_itself() -> None:
    answers = iter([True, True, False])
    _, outside = _run(WAIT, lambda _: next(answers))
    assert len(outside.states) == 3
    assert len(set(outside.states)) == 1


def test_others_run_between_turns_of_warps() -> None:
    outside = Outside(lambda: False)
    result = kernel(store("tid")).launch(grid=64, block=32, args=[np.zeros(2048, np.uint32)], outside=outside)
    assert (result.ok, outside.states) == (True, [])
    assert outside.turns == 2


def test_what_a_launch_has_accessed() -> None:
    body = (
        "shl.b32 r1, tid, 1; and.b32 r1, r1, 28; setp.lt.u32 p, tid, 4; @p st.global.b8 [out+64], r1; atom.global.add.u32 r2, [out+8], 1;"
    )
    result, outside = _run(body + "ld.global.b32 r3, [out+96]; st.global.b32 [out+100], r3;", lambda _: False)
    assert result.completed
    base = outside.ranges[0][0] - 8
    assert [(low - base, high - base, how) for low, high, how in outside.ranges] == [
        (8, 12, WRITES | STRONG),
        (64, 65, WRITES),
        (96, 100, 0),
        (100, 104, WRITES),
    ]
    _, outside = _run("ld.acquire.sys.global.b32 r1, [out]; st.global.b32 [out+4], r1;", lambda _: False)
    assert [how for _, _, how in outside.ranges] == [STRONG | ORDERS, WRITES]
