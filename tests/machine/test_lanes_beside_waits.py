"""Lanes that compiled code lets run while others of their warp wait: results, statistics and findings as by the scheduler alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxlab.machine.schedule.scheduler import Scheduler
from ptxlab.machine.warp.warp import Warp
from tests.machine.launch_helpers import store
from tests.machine.test_diverged_lanes import JOINS, MBARRIER, OBJECTS, STEPS, TOGETHER, WAITS, ping_pong
from tests.machine.test_turns import agree, outcome, runs

__all__ = ["runs"]


@pytest.mark.parametrize("join", JOINS)
def test_turns_of_warps_whose_lanes_stand_apart_need_no_scheduler(join: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those turns that it begins itself, as it does now and then."""
    assert_no_lanes_taken_over(lambda length: ping_pong(JOINS[join], length), monkeypatch)


def assert_no_lanes_taken_over(text: Callable[[int], str], monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """Assert that the scheduler blocks and takes over no more lanes when a loop is longer."""
    calls: list[int] = []
    for owner, name in ((Scheduler, "block"), (Warp, "take_over_lanes")):
        original = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, original=original: (calls.append(1), original(*given))[1])
    made = []
    for length in (10, 100):
        agree(text(length), 64, ctas=1, **options)
        calls.clear()
        outcome(text(length), 64, 1, options, alone=False)
        made.append(len(calls))
    assert made[1] == made[0]


BESIDE = """
    .reg .pred chosen, first;
    .reg .b32 n, way;
    mov.u32 n, 0;
    setp.eq.u32 chosen, lane, 3; setp.eq.u32 first, warp, 0;
LOOP:
    and.b32 way, n, 1;
    @!chosen bra BEHIND;
    @!first bra SECOND;
    st.shared.u32 [data], n;
    mbarrier.arrive.shared.b64 _, [data+520];
FIRST: mbarrier.try_wait.parity.shared.b64 q, [data+544], way; @!q bra FIRST;
    bra BEHIND;
SECOND: mbarrier.try_wait.parity.shared.b64 q, [data+520], way; @!q bra SECOND;
    ld.shared.u32 r2, [data];
    setp.ne.u32 q, n, MISSING;
    @q mbarrier.arrive.shared.b64 _, [data+544];
BEHIND:
    OTHERS
    bar.warp.sync -1;
    add.u32 n, n, 1;
    setp.lt.u32 q, n, COUNT;
    @q bra LOOP;
"""
OTHERS = {
    "compute": "add.u32 r2, r2, n;",
    "arrive elsewhere": "mbarrier.arrive.shared.b64 _, [data+512];",
    "a complete phase": "W: mbarrier.try_wait.parity.shared.b64 q, [data+512], 1; @!q bra W;",
    "a loop": "mov.u32 r4, 0; R: add.u32 r4, r4, 1; setp.lt.u32 q, r4, 3; @q bra R; add.u32 r2, r2, r4;",
}
BEGIN = MBARRIER.replace("bar.sync", OBJECTS + "@p mbarrier.init.shared.b64 [data+544], 1;\nbar.sync")


def beside(others: str, length: int, missing: int = -1) -> str:
    """One lane of each of two warps waits for the other one in a loop of all lanes; the rest can run meanwhile."""
    loop = BESIDE.replace("OTHERS", others).replace("COUNT", str(length)).replace("MISSING", str(missing & 0xFFFFFFFF))
    return f"{BEGIN} mov.u32 r2, tid;\n{loop}\n{store('r2')}"


@pytest.mark.parametrize("check", ["none", "race", "all"])
@pytest.mark.parametrize("others", OTHERS)
def test_lanes_run_beside_a_lane_that_waits(others: str, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_no_lanes_taken_over(lambda length: beside(OTHERS[others], length), monkeypatch, check=check)


@pytest.mark.parametrize("check", ["none", "race", "all"])
@pytest.mark.parametrize("others", OTHERS)
def test_a_hang_of_a_lane_beside_others(others: str, check: str) -> None:
    *_, text = agree(beside(OTHERS[others], 20, 12), 64, ctas=1, check=check)
    assert "H601" in text
    assert "lanes 3: " in text


@pytest.mark.parametrize("check", ["none", "race", "all"])
@pytest.mark.parametrize("model", ["practice", "spec"])
@pytest.mark.parametrize("behind", ["", "mbarrier.arrive.shared.b64 _, [data+544];", "ret;", "bra A;"])
def test_lanes_complete_the_phase_for_which_another_one_waits(check: str, model: str, behind: str) -> None:
    """The warp has a turn to come then; another warp waits for what they do next."""
    text = f"""{BEGIN}
        mov.u32 r2, tid;
        setp.eq.u32 p, warp, 1; @p bra OTHER;
        setp.eq.u32 p, lane, 3; @!p bra BEHIND;
    WAIT: mbarrier.try_wait.parity.shared.b64 q, [data+536], 0; @!q bra WAIT;
        bra JOIN;
    BEHIND: mbarrier.arrive.shared.b64 _, [data+536];
        setp.eq.u32 p, lane, 4; @!p bra JOIN;
        {behind}
        bra JOIN;
    A:  add.u32 r2, r2, 5;
    JOIN: bar.warp.sync -1;
        bra END;
    OTHER: mbarrier.try_wait.parity.shared.b64 q, [data+544], 0; @!q bra OTHER;
    END: {store("r2")}
    """
    agree(text, 64, ctas=1, check=check, model=model)


def test_a_lane_beside_standing_ones_needs_no_return_for_each_slice(runs: list[int]) -> None:
    returns = []
    for length in (1000, 20_000):
        text = f"""{BEGIN}
            .reg .b32 n;
            mov.u32 n, 0;
            setp.eq.u32 p, warp, 1; @p bra OTHER;
            setp.eq.u32 p, lane, 3; @!p bra JOIN;
        WAIT: mbarrier.try_wait.parity.shared.b64 q, [data+520], 0; @!q bra WAIT;
        LOOP: add.u32 n, n, 1; setp.lt.u32 q, n, {length}; @q bra LOOP;
        JOIN: bar.warp.sync -1;
            bra END;
        OTHER: setp.eq.u32 p, lane, 0; @p mbarrier.arrive.shared.b64 _, [data+520];
        END: {store("n")}
        """
        agree(text, 64, ctas=1)
        runs.clear()
        outcome(text, 64, 1, {}, alone=False)
        returns.append(len(runs))
    assert returns[1] == returns[0]


PARTED = """
{{ .reg .pred c{k}; setp.{test}.u32 c{k}, lane, {n}; @!c{k} bra O{k};
{before}
W{k}: mbarrier.try_wait.parity.shared.b64 q, [data+{b}], {w}; @!q bra W{k};
{behind}
bra E{k};
O{k}: {others}
E{k}: }}
"""


def drawn_waits(random: Random, names: count[int]) -> str:
    """Some lanes wait, and the others run on."""
    text = []
    for _ in range(random.randrange(1, 5)):
        number = next(names)
        values = {"n": random.choice((1, 3, 8, 31)), "k": number, "test": random.choice(("eq", "lt", "ge", "ne"))}
        values |= {"b": random.choice((520, 528, 536)), "w": random.randrange(2)}
        steps = [random.choice((*STEPS, *WAITS[:3] * 2, "", "bar.warp.sync -1;")) for _ in range(4)]
        before, behind, *others = (step.format(**values | {"b": random.choice((520, 528, 536))}) for step in steps)
        text.append(PARTED.format(**values, before=before, behind=behind, others="\n".join(others)))
        if random.randrange(2):
            text.append(random.choice(TOGETHER).format(n=4))
    body = "\n".join(text)
    if random.randrange(2):
        return body
    number = next(names)
    begin = f".reg .b32 i{number}; .reg .pred b{number}; mov.u32 i{number}, 0;"
    step = f"add.u32 i{number}, i{number}, 1; setp.lt.u32 b{number}, i{number}, 4;"
    return f"{{ {begin}\nL{number}:\n{body}\n{step}\n@b{number} bra L{number}; }}"


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    check=st.sampled_from(["none", "race", "all"]),
    threads=st.sampled_from([32, 64, 80]),
    model=st.sampled_from(["practice", "practice", "spec"]),
    policy=st.sampled_from(["eager", "eager", "lazy"]),
)
def test_drawn_lanes_beside_waits(seed: int, check: str, threads: int, model: str, policy: str) -> None:
    body = drawn_waits(Random(seed), count())
    text = f"{BEGIN} mov.u32 r2, tid; mov.u32 r3, 0;\n{body}\nbar.sync 0;\n{store('r2')}"
    agree(text, threads, ctas=1, check=check, model=model, policy=policy)
