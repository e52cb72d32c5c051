"""Arrivals and expectations that compiled code completes: the same as by their handlers, in whatever order they come."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ptxlab
from ptxlab.machine.schedule.barriers import MbarrierState
from tests.machine.direct_steps_helpers import (
    ARRIVALS,
    BARRIERS,
    CHECKS,
    MBARRIERS,
    META,
    MOST,
    OTHERS,
    STEPS,
    Step,
    arrival_steps,
    both_ways,
    interpreter,
    lists_of,
)
from tests.machine.launch_helpers import kernel, run


@cache
def arrivals_kernel() -> ptxlab.Kernel:
    return interpreter(ARRIVALS | OTHERS)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.integers(0, 1 << 32),
    st.sampled_from((1, 2, 4, 32, 33, 64)),
    st.booleans(),
    st.sampled_from(("eager", "lazy", "random")),
    st.sampled_from(CHECKS),
)
def test_arrivals_in_any_order(seed: int, expected: int, meets: bool, policy: str, check: Any) -> None:
    both_ways(arrivals_kernel(), lists_of(arrival_steps, seed), expected, meets, policy, check)


def step(name: str, bar: int = 0, amount: int = 1, lanes: int = 1, odd: int = 0) -> Step:
    return STEPS.index(name), 8 * bar, amount, lanes, odd


def test_states_of_several_lanes() -> None:
    out, texts, *_ = both_ways(arrivals_kernel(), [[step("several arrivals", 0, 2, 0b1011), step("arrive", 0, 1, 4)]], 8, True)
    assert texts == []
    assert [row[0] for row in out[:4]] == [8, 6, 0, 4]
    assert out[2][1] == 2


@pytest.mark.parametrize(
    ("steps", "code", "text"),
    [
        ([step("arrive"), step("several arrivals", 0, 3)], "B505", "3 arrivals on the mbarrier at shared offset 0x400, but only 1 of 2"),
        (
            [step("arrive and expect", 0, 9), step("arrive", lanes=3)],
            "B505",
            "1 arrivals on the mbarrier at shared offset 0x400, but only 0",
        ),
        ([step("several arrivals", 0, 0)], "B504", "the count of the arrival is 0"),
        ([step("expect", 0, META)], "B504", "the transaction count is 1048576"),
        ([step("expect", 0, META - 1), step("expect", 0, 1)], "B506", "becomes 1048576"),
        ([step("arrive"), step("overwrite"), step("arrive")], "B515", "was overwritten"),
        ([step("arrive", BARRIERS)], "B503", "it was never initialised"),
        ([(0, 4, 1, 1, 0)], "B501", "must be aligned to 8 bytes"),
        ([(0, 1 << 24, 1, 1, 0)], "B502", "reaches only that of its own CTA"),
        ([(STEPS.index("anywhere"), 2 << 24, 1, 1, 0)], "M407", "names CTA rank 2 of a cluster of 2"),
    ],
)
def test_mistakes_after_arrivals(steps: list[Step], code: str, text: str) -> None:
    _, texts, *_ = both_ways(arrivals_kernel(), [steps], 2, True)
    (found,) = texts
    assert code in found
    assert text in found


def test_the_last_arrival_before_the_bytes_completes_nothing() -> None:
    lists = [[step("arrive and expect", 0, 16), step("test", 0, 0), step("complete", 0, 16), step("test", 0, 0), step("arrive")]]
    out, texts, *_ = both_ways(arrivals_kernel(), lists, 1, True)
    assert texts == []
    assert [state >> 62 for state in out[0][:5]] == [0, 0, 0, 1, 0]
    assert out[0][4] == 1 << 20 | 1


def test_an_arrival_at_a_cta_that_has_exited() -> None:
    waits = [step("wait", 0, 0)] * MOST
    lists = [[(STEPS.index("anywhere"), 1 << 24, 1, 1, 0)] * 2, waits, [], []]
    _, texts, *_ = both_ways(arrivals_kernel(), lists, 2, True)
    assert texts == []


@pytest.mark.parametrize("name", ["anywhere", "several anywhere", "arrive and expect anywhere"])
@pytest.mark.parametrize("check", ["none", "race", "all"])
def test_lanes_that_arrive_at_different_ctas(name: str, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code arrives for them."""
    calls = []
    arrive = MbarrierState.arrive
    monkeypatch.setattr(MbarrierState, "arrive", lambda barrier, count=1: (calls.append(count), arrive(barrier, count))[1])
    bytes_of, expects = 2, "expect" in name
    steps = [(STEPS.index(each), 0, bytes_of, 3, 1 << 24) for each in [name, *["complete"] * expects]] * 6
    _, texts, *_ = both_ways(arrivals_kernel(), [steps, [], [], []], 100, True, check=check)
    assert texts == []
    assert len(calls) == 6 * 2


def test_few_arrivals_reach_a_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last one of warp 0 does, because warp 1 waits."""
    calls = []
    arrive = MbarrierState.arrive
    monkeypatch.setattr(MbarrierState, "arrive", lambda barrier, count=1: (calls.append(count), arrive(barrier, count))[1])
    body = """
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared.b64 [mb], 32;
    @p mbarrier.init.shared.b64 [mb+8], 1;
    bar.sync 0;
    setp.ge.u32 p, tid, 32;
    @p bra WAITS;
    mov.u32 r1, 0;
LOOP:
    mbarrier.arrive.shared.b64 state, [mb];
    add.u32 r1, r1, 1; setp.lt.u32 p, r1, 100; @p bra LOOP;
    setp.eq.u32 p, tid, 0;
    AWAITED:
    @p mbarrier.test_wait.parity.shared.b64 q, [mb], 1;
    bar.sync 1, 64;
    @p mbarrier.arrive.shared.b64 _, [mb+8];
    bra END;
    WAITS:
    bar.sync 1, 64;
    SPIN:
    mbarrier.try_wait.parity.shared.b64 q, [mb+8], 0;
    @!q bra SPIN;
    END:
    """
    for check in ("none", "operands", "race", "all"):
        calls.clear()
        _, result = run(body, 64, shared=MBARRIERS, check=(check,) if check == "operands" else check)
        assert result.ok
        assert result.stats.services["mbarrier.arrive.shared.b64"] == 101
        assert len(calls) <= 1


def test_waiting_warps_continue_when_compiled_code_arrives_first() -> None:
    """The waits stand in the scheduler; the arrivals before the last one are compiled code's."""
    wait = [step("wait", 0, 0), step("wait", 1, 0), step("arrive", 2)]
    arrive = [step("wait", 2, 0), *[step("arrive", 0)] * 3, *[step("arrive", 1)] * 3]
    out, texts, services, *_ = both_ways(arrivals_kernel(), [arrive, [step("arrive", 2), step("arrive", 2), *wait]], 3, True)
    assert texts == []
    assert [row[2] >> 62 for row in out[32:33]] == [1]
    assert services["mbarrier.arrive.shared::cta.b64"] == 9


@pytest.mark.parametrize("check", ["none", "race"])
def test_an_arrival_that_is_not_the_compiled_one_reaches_its_handler(check: str) -> None:
    """A program may have other services than the one of which its code was compiled."""
    body = """
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared.b64 [mb], 32;
    bar.sync 0;
    mbarrier.arrive.shared.b64 _, [mb];
    """
    own, calls = kernel(body, shared=MBARRIERS), []
    program, executable = own.variant(True, check == "race")

    def handler(warp: Any) -> Any:
        calls.append(warp.op.opcode)
        return arrival.row.semantics(warp)

    arrival = next(op for op in program.ops if op.opcode.startswith("mbarrier.arrive"))
    changed = replace(arrival, row=replace(arrival.row, semantics=handler))
    ops = [changed if op is arrival else op for op in program.ops]
    checks = "none" if check == "none" else (check,)
    for ran, expected in ((program, 0), (replace(program, ops=ops), 1)):
        with own.replaced(ran, executable):
            own.launch(grid=1, block=32, args=[np.zeros(32, np.uint32)], check=checks).raise_for_errors()
        assert len(calls) == expected
