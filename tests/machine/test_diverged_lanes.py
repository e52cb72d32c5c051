"""Lanes that compiled code lets take turns where they go two ways: results, statistics and findings as by the scheduler alone."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ptxlab.engine.context import Word
from ptxlab.machine.schedule.barriers import MbarrierState
from ptxlab.machine.schedule.scheduler import Scheduler
from tests.machine.launch_helpers import kernel, store
from tests.machine.test_turns import agree, outcome, runs

__all__ = ["runs"]

MBARRIER = """
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared.b64 [data+512], 100000;
    bar.sync 0;
"""
ONE_LANE = """
    .reg .pred chosen;
    .reg .b32 n;
    mov.u32 n, 0;
LOOP:
    elect.sync _|chosen, -1;
    @!chosen bra BEHIND;
    mbarrier.arrive.shared.b64 _, [data+512];
BEHIND:
    add.u32 n, n, 1;
    setp.lt.u32 p, n, COUNT;
    @p bra LOOP;
"""


@pytest.mark.parametrize("check", ["none", "race", "all"])
def test_one_lane_that_executes_a_block_needs_no_return(check: str, runs: list[int]) -> None:
    returns = []
    for length in (20, 200):
        runs.clear()
        agree(MBARRIER + ONE_LANE.replace("COUNT", str(length)) + store("n"), 64, ctas=1, check=check)
        returns.append(len(runs))
    assert returns[1] - returns[0] < 20


def test_lanes_join_behind_a_service() -> None:
    """The lane that has arrived does not go on alone: each warp executes the rest of the loop once."""
    made = kernel(MBARRIER + ONE_LANE.replace("COUNT", "1000"), shared=".shared .align 8 .b64 data[80];")
    result = made.launch(grid=1, block=32, args=[np.zeros(32, np.uint32)])
    assert result.ok
    assert result.stats.services["mbarrier.arrive.shared.b64"] == 1000
    assert result.stats.instructions < 1000 * 6 + 50


PREDICATES = (
    "elect.sync _|{p}, -1;",
    "setp.lt.u32 {p}, lane, {n};",
    "and.b32 r1, r2, {m}; setp.eq.u32 {p}, r1, 0;",
    "setp.ge.u32 {p}, tid, {t};",
)
STEPS = (
    "add.u32 r2, r2, {n};",
    "mad.lo.u32 r2, r2, 5, lane;",
    "st.shared.u32 [r10], r2;",
    "ld.shared.u32 r3, [r10]; xor.b32 r2, r2, r3;",
    "mbarrier.arrive.shared.b64 _, [data+512];",
    "mbarrier.arrive.shared.b64 state, [data+512];",
    "atom.shared.add.u32 r3, [data+640], 1;",
)
TOGETHER = (
    "shfl.sync.bfly.b32 r3, r2, {n}, 31, -1; add.u32 r2, r2, r3;",
    "vote.sync.ballot.b32 r3, p, -1; xor.b32 r2, r2, r3;",
    "bar.warp.sync -1;",
    "bar.sync 0;",
    "elect.sync r3|q, -1;",
)


WAITS = (
    "mbarrier.arrive.shared.b64 _, [data+{b}];",
    "mbarrier.arrive.shared.b64 _, [data+{b}];",
    "mbarrier.try_wait.parity.shared.b64 q, [data+{b}], {w}; selp.u32 r3, 1, 0, q; add.u32 r2, r2, r3;",
    "{{ W: mbarrier.try_wait.parity.shared.b64 q, [data+{b}], {w}; @!q bra W; }}",
    "and.b32 r3, r2, 1; mbarrier.try_wait.parity.shared.b64 q, [data+{b}], r3;",
)
EXITS = ("setp.eq.u32 q, lane, {m}; @q ret;", "@!q ret;")


def drawn(random: Random, names: count[int], depth: int, together: bool, steps: tuple[str, ...] = STEPS) -> str:
    """Steps, some of them in branches or loops of a part of the lanes."""
    text = []
    for _ in range(random.randrange(1, 4)):
        number = next(names)
        values = {"n": random.choice((1, 2, 4, 8, 16)), "m": random.choice((1, 2, 6)), "t": random.choice((16, 32, 40)), "p": f"b{number}"}
        values |= {"b": random.choice((520, 528, 536)), "w": random.randrange(2)}
        kind = random.randrange(5 if depth else 2)
        if kind == 0 and together:
            text.append(random.choice(TOGETHER).format(**values))
        elif kind < 2:
            text.append(random.choice(steps).format(**values))
        else:
            choose = random.choice(PREDICATES[not together :]).format(**values)
            inside = drawn(random, names, depth - 1, False, steps)
            if kind == 2:
                text.append(f"{{ .reg .pred b{number}; {choose}\n@!b{number} bra E{number};\n{inside}\nE{number}: }}")
            elif kind == 3:
                other = drawn(random, names, depth - 1, False, steps)
                ways = f"@b{number} bra T{number};\n{inside}\nbra E{number};\nT{number}:\n{other}\nE{number}:"
                text.append(f"{{ .reg .pred b{number}; {choose}\n{ways} }}")
            else:
                body = drawn(random, names, depth - 1, together, steps)
                limit = "3" if together else "r12"
                begin = f".reg .pred b{number}; .reg .b32 i{number}; mov.u32 i{number}, 0;"
                step = f"add.u32 i{number}, i{number}, 1; and.b32 r12, lane, 3; setp.lt.u32 b{number}, i{number}, {limit};"
                text.append(f"{{ {begin}\nL{number}:\n{body}\n{step}\n@b{number} bra L{number}; }}")
    return "\n".join(text)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), check=st.sampled_from(["none", "race", "all"]), threads=st.sampled_from([32, 64]))
def test_drawn_branches(seed: int, check: str, threads: int) -> None:
    body = drawn(Random(seed), count(), 3, True)
    agree(f"{MBARRIER} mov.u32 r2, tid;\n{body}\nbar.sync 0;\n{store('r2')}", threads, ctas=1, check=check)


OBJECTS = "".join(f"@p mbarrier.init.shared.b64 [data+{at}], {needed};\n" for at, needed in ((520, 1), (528, 2), (536, 31)))


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    check=st.sampled_from(["none", "race", "all"]),
    threads=st.sampled_from([32, 64, 80]),
    model=st.sampled_from(["practice", "practice", "spec"]),
    policy=st.sampled_from(["eager", "eager", "lazy"]),
    exits=st.booleans(),
)
@example(93, "race", 80, "practice", "eager", False).via("a warp is blocked at a barrier that has a turn to come")
@example(101, "race", 32, "practice", "eager", False).via("a warp is blocked at a wait that has a turn to come")
def test_drawn_waits(seed: int, check: str, threads: int, model: str, policy: str, exits: bool) -> None:
    """Parts of the warps wait for phases; some wait for ever, and what is reported is the same."""
    body = drawn(Random(seed), count(), 3, True, (*STEPS, *WAITS * 3, *EXITS * exits))
    begin = MBARRIER.replace("bar.sync", f"{OBJECTS} bar.sync")
    agree(f"{begin} mov.u32 r2, tid;\n{body}\nbar.sync 0;\n{store('r2')}", threads, ctas=1, check=check, model=model, policy=policy)


PING_PONG = """
    .reg .pred chosen, first;
    .reg .b32 n, way;
    mov.u32 n, 0;
    setp.eq.u32 chosen, lane, 3; setp.eq.u32 first, warp, 0;
    @!chosen bra JOIN;
LOOP:
    and.b32 way, n, 1;
    @!first bra SECOND;
    st.shared.u32 [data], n;
    setp.ne.u32 q, n, MISSING;
    @q mbarrier.arrive.shared.b64 _, [data+520];
FIRST: mbarrier.try_wait.parity.shared.b64 q, [data+544], way; @!q bra FIRST;
    bra NEXT;
SECOND: mbarrier.try_wait.parity.shared.b64 q, [data+520], way; @!q bra SECOND;
    ld.shared.u32 r2, [data];
    mbarrier.arrive.shared.b64 _, [data+544];
NEXT:
    add.u32 n, n, 1;
    setp.lt.u32 q, n, COUNT;
    @q bra LOOP;
"""
JOINS = {
    "bar.warp.sync": "JOIN: bar.warp.sync -1;",
    "shfl.sync": "JOIN: shfl.sync.idx.b32 r2, r2, 3, 31, -1;",
    "elect.sync": "JOIN: elect.sync r3|p, -1; add.u32 r2, r2, r3;",
    "aligned service": "JOIN: bar.sync 0;",
    "before the loop": "bra AFTER; JOIN: bar.warp.sync -1; bra.uni END; AFTER: bra JOIN; END:",
}


def ping_pong(join: str, length: int, missing: int = -1) -> str:
    """A lane of each of two warps waits for the other one; the rest of the lanes wait for them; one arrival may be missing."""
    begin = MBARRIER.replace("bar.sync", OBJECTS + "@p mbarrier.init.shared.b64 [data+544], 1;\nbar.sync")
    loop = PING_PONG.replace("COUNT", str(length)).replace("MISSING", str(missing & 0xFFFFFFFF))
    return f"{begin} mov.u32 r2, tid;\n{loop}\n{join}\n{store('r2')}"


@pytest.mark.parametrize("check", ["none", "race", "all"])
@pytest.mark.parametrize("join", JOINS)
def test_waits_of_one_lane_need_no_handler(check: str, join: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the first ones, while which the other lanes go on to where they wait."""
    waits: list[int] = []
    block = Scheduler.block
    monkeypatch.setattr(Scheduler, "block", lambda *given: (waits.append(1), block(*given))[1])
    made = []
    for length in (10, 60):
        agree(ping_pong(JOINS[join], length), 64, ctas=1, check=check)
        waits.clear()
        outcome(ping_pong(JOINS[join], length), 64, 1, {"check": check}, alone=False)
        made.append(len(waits))
    assert made[1] == made[0]


@pytest.mark.parametrize("check", ["none", "race", "all"])
@pytest.mark.parametrize("join", JOINS)
def test_a_hang_of_lanes_that_wait_apart(check: str, join: str) -> None:
    *_, text = agree(ping_pong(JOINS[join], 20, 12), 64, ctas=1, check=check)
    assert "H601" in text
    assert "lanes 3: " in text
    assert "waits for the phase of parity 0 to complete" in text


@pytest.mark.parametrize("check", ["none", "race"])
def test_lanes_that_wait_apart_are_taken_over_where_they_stand(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the scheduler takes over all warps now and then, those that can run again must execute the wait once more."""
    text = ping_pong(JOINS["bar.warp.sync"], 400)
    expected = outcome(text, 64, 1, {"check": check}, alone=True)
    run_warp, taken, turns = Scheduler._run_warp, [], count()

    def run(scheduler: Scheduler, warp: Any) -> bool:
        result = run_warp(scheduler, warp)
        if not next(turns) % 5:
            taken.extend(each.words[Word.QUEUED] for each in warp.cta.warps if each.words[Word.AWAITS] and each.words[Word.OTHER_LANES])
            scheduler.take_over_all()
        return result

    monkeypatch.setattr(Scheduler, "_run_warp", run)
    assert outcome(text, 64, 1, {"check": check}, alone=False) == expected
    assert set(taken) == {0, 1}


APART = """
    .reg .b32 to;
    mov.u32 r1, data;
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared.b64 [data], 4;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    st.global.u32 [at], tid;
    setp.lt.u32 p, lane, 2;
    @p mapa.shared::cluster.u32 to, r1, lane;
    @p mbarrier.arrive.release.cluster.shared::cluster.b64 _, [to];
WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 q, [data], 0;
    @!q bra WAIT;
"""


@pytest.mark.parametrize("check", ["none", "race"])
def test_lanes_arrive_at_several_ctas(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lanes of two warps of both CTAs: each mbarrier gets four arrivals, and none of them reaches a handler."""
    calls = []
    arrive = MbarrierState.arrive
    monkeypatch.setattr(MbarrierState, "arrive", lambda barrier, count=1: (calls.append(count), arrive(barrier, count))[1])
    made = kernel(APART, shared=".shared .align 8 .b64 data;")
    result = made.launch(grid=2, block=64, cluster=2, args=[np.zeros(128, np.uint32)], check=check)
    assert result.diagnostics == ()
    assert result.stats.services["mbarrier.arrive.release.cluster.shared::cluster.b64"] == 4
    assert not calls
