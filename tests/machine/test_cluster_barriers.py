"""Barriers of clusters whose arrivals compiled code counts: the same as with handlers that are always called, in the same order.

One kernel executes lists of steps that random tests make, so it is compiled once.
"""

from __future__ import annotations

from functools import cache, partial
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ptxlab
from ptxlab.check.race import _recorder, _sanitizer
from ptxlab.check.race.clocks import clocks as clocks_module
from ptxlab.check.race.clocks.cluster_clock import ClusterClock
from ptxlab.check.race.clocks.clusters import Clusters
from ptxlab.check.race.clocks.releases import mbarrier_init_fence
from ptxlab.check.race.shadow.shadow_words import INIT_FENCE
from ptxlab.diagnostics import render_text
from ptxlab.isa.sync import _barriers
from ptxlab.machine.launch import launch as launching
from ptxlab.machine.schedule.barriers import ClusterBarrier
from ptxlab.machine.schedule.scheduler import Scheduler
from ptxlab.machine.schedule.turns import turns_of
from tests.machine.launch_helpers import kernel

MOST, CTAS, WARPS = 32, 2, 3
"""The steps of a warp, the CTAs of the cluster and the warps of each."""
SHARED = f".shared .align 8 .b64 mb[2]; .shared .align 4 .b32 data[{32 * WARPS}];"
STEPS = {
    "arrive": "barrier.cluster.arrive.aligned;",
    "arrive relaxed": "barrier.cluster.arrive.relaxed.aligned;",
    "arrive released": "barrier.cluster.arrive.release;",
    "wait": "barrier.cluster.wait.aligned;",
    "wait acquired": "barrier.cluster.wait.acquire;",
    "arrive in lanes": "@mine barrier.cluster.arrive;",
    "arrive in lanes that diverge": "@!mine bra NEXT; barrier.cluster.arrive.relaxed;",
    "wait in lanes": "@mine barrier.cluster.wait;",
    "wait in lanes that diverge": "@!mine bra NEXT; barrier.cluster.wait;",
    "arrive partly": "@mine barrier.cluster.arrive.aligned;",
    "fence": "fence.acq_rel.cluster;",
    "fence init": "fence.mbarrier_init.release.cluster;",
    "write": "st.shared.u32 [own], n;",
    "write there": "st.shared::cluster.u32 [there], n;",
    "read": "ld.shared.u32 r2, [own]; cvt.u64.u32 state, r2;",
    "read there": "ld.shared::cluster.u32 r2, [there]; cvt.u64.u32 state, r2;",
    "meet": "bar.sync 0;",
    "meet two": "bar.sync 1, 64;",
    "init": "@first mbarrier.init.shared::cta.b64 [mb+8], 1;",
    "signal": "@first mbarrier.arrive.release.cluster.shared::cluster.b64 _, [far];",
    "test": "mbarrier.test_wait.parity.shared::cta.b64 done, [mb], 0;",
    "wait for signals": "mbarrier.try_wait.parity.shared::cta.b64 done, [mb], 0;",
    "wait long": "mov.u32 r2, 0; L: add.u32 r2, r2, 1; setp.lt.u32 t, r2, 30000; @t bra L;",
    "exit": "ret;",
    "exit in lanes": "@mine ret;",
}
NAMES = list(STEPS)
HARMLESS = ("fence", "fence init", "write", "write there", "read", "read there", "signal", "test", "meet", "meet two")
Step = tuple[int, int]
Lists = list[list[Step]]
CHECKS = ("none", "all", ("race",), ("barrier", "memory"))


@cache
def loaded() -> ptxlab.Kernel:
    """A kernel whose warps execute each its list: kind, and the lanes that are executed under a guard."""
    cases = "".join(f"S{number}:\n{text}\nbra.uni NEXT;\n" for number, text in enumerate(STEPS.values()))
    body = f"""
    .reg .pred done, mine, end, first;
    .reg .b32 kind, lanes, n, order, own, there, far;
    .reg .b64 list, turn;
    ld.param.u64 list, [steps]; ld.param.u64 turn, [turns];
    mad.lo.u32 r1, cta, {WARPS}, warp; mul.wide.u32 rd1, r1, {MOST * 8}; add.u64 list, list, rd1;
    mul.wide.u32 rd1, r19, {8 * MOST}; add.u64 out, out, rd1;
    setp.eq.u32 p, tid, 0; setp.eq.u32 first, lane, 0;
    @p mbarrier.init.shared::cta.b64 [mb], 2;
    mov.u32 own, data; mad.lo.u32 own, tid, 4, own;
    xor.b32 r1, cta, 1; mapa.shared::cluster.u32 there, own, r1; mov.u32 r2, mb; mapa.shared::cluster.u32 far, r2, r1;
    mov.u32 n, 0; st.shared.u32 [own], n;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
LOOP:
    ld.global.u32 kind, [list]; ld.global.u32 lanes, [list+4];
    shr.u32 r1, lanes, lane; and.b32 r1, r1, 1; setp.eq.u32 mine, r1, 1;
    setp.ge.u32 end, kind, {len(STEPS)};
    @end bra.uni END;
    mov.u64 state, 0; setp.ne.u32 done, n, n;
    ways: .branchtargets {", ".join(f"S{number}" for number in range(len(STEPS)))};
    brx.idx.uni kind, ways;
    {cases}
NEXT:
    bar.warp.sync 0xffffffff;
    mov.u32 order, 0;
    @first atom.global.add.u32 order, [turn], 1;
    mul.wide.u32 rd1, order, 1; shl.b64 rd1, rd1, 32; xor.b64 state, state, rd1;
    selp.u64 rd1, 0x4000000000000000, 0, done; or.b64 state, state, rd1;
    st.global.u64 [out], state; add.u64 out, out, 8; add.u64 list, list, 8; add.u32 n, n, 1;
    setp.lt.u32 q, n, {MOST};
    @q bra.uni LOOP;
END:
    """
    return kernel(body, shared=SHARED, params=", .param .u64 steps, .param .u64 turns")


def run(lists: Lists, **options: Any) -> tuple[Any, ...]:
    """What a launch gives, and the clocks of the warps at its end."""
    table = np.full((CTAS * WARPS, MOST, 2), len(STEPS), np.uint32)
    for number, steps in enumerate(lists):
        table[number, : len(steps)] = np.array(steps, np.uint32).reshape(-1, 2)
    out = np.zeros((CTAS * WARPS * 32, MOST), np.uint64)
    clocks: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Clusters, "leave", lambda self, ended: clocks.append(ended.rows.tolist()))
        args = [out, table, np.zeros(1, np.uint32)]
        result = loaded().launch(grid=CTAS, block=32 * WARPS, cluster=CTAS, args=args, max_instructions=2_000_000, **options)
    return out.tolist(), render_text(result.diagnostics), result.stats.services, result.stats.instructions, clocks


def both_ways(lists: Lists, **options: Any) -> tuple[Any, ...]:
    """What a launch gives with arrivals that compiled code counts; the same by the handlers is asserted to be equal."""
    counted = run(lists, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launching, "turns_of", lambda launch, dispatch: None)
        assert run(lists, **options) == counted
    return counted


def step(name: str, lanes: int = 1) -> Step:
    return NAMES.index(name), lanes


def drawn(choice: Random, rounds: int, bold: float) -> list[Step]:
    """Steps of a warp: rounds of arrivals and waits, with others between them; the bolder, the more mistakes."""
    found: list[Step] = []
    for _ in range(rounds):
        for names in (("arrive", "arrive", "arrive relaxed", "arrive released"), ("wait", "wait", "wait acquired")):
            found += [
                step(choice.choice(HARMLESS[:-2] if choice.random() > bold else NAMES), choice.choice((1, 0x80000003, 0xFFFFFFFF)))
                for _ in range(choice.choice((0, 0, 1, 2)))
            ]
            if choice.random() > bold / 4:
                found.append(step(choice.choice(names)))
    return found[:MOST]


def lists_of(seed: int) -> Lists:
    """The lists of all warps."""
    choice = Random(seed)
    bold, rounds = choice.choice((0, 0.05, 0.3)), choice.randrange(7)
    return [drawn(choice, rounds, bold) for _ in range(CTAS * WARPS)]


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 32), st.sampled_from(("eager", "eager", "lazy", "random")), st.sampled_from(CHECKS))
def test_steps_in_any_order(seed: int, policy: str, check: Any) -> None:
    both_ways(lists_of(seed), policy=policy, check=check)


@pytest.mark.parametrize("check", CHECKS)
def test_no_handler_is_called_where_compiled_code_can(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first phase is of the handlers, if a warp has rows that Python handles."""
    calls: list[object] = []
    arrive = ClusterBarrier.arrive
    monkeypatch.setattr(ClusterBarrier, "arrive", lambda barrier, warp: calls.append(warp) or arrive(barrier, warp))  # type: ignore[func-returns-value]
    monkeypatch.setattr(_barriers, "cluster_wait_of", lambda barrier: pytest.fail("a handler has blocked lanes"))
    steps = [step(name) for name in ("write", "arrive", "wait", "read there", "arrive", "wait", "arrive relaxed", "wait")]
    lists = [steps * 4] * (CTAS * WARPS)
    _, texts, services, *_ = run(lists, check=check)
    assert texts == ""
    assert services["barrier.cluster.arrive.relaxed.aligned"] == 4 * CTAS * WARPS
    assert services["barrier.cluster.wait.aligned"] > 8 * CTAS * WARPS
    assert calls == []


ARRIVE, RELAXED, WAIT, EXIT, LONG = (step(name) for name in ("arrive", "arrive relaxed", "wait", "exit", "wait long"))
FEW = 0x80000003
ROUND = [ARRIVE, WAIT]
CASES: dict[str, tuple[Lists, str]] = {
    "warps that exit before others wait": ([ROUND * 3, ROUND * 2, [LONG, ARRIVE, EXIT], ROUND * 3, [ARRIVE, WAIT, EXIT], ROUND * 3], ""),
    "a CTA that exits before others wait": ([[LONG, *ROUND, *ROUND]] * 3 + [[ARRIVE]] * 3, ""),
    "an exit completes the phase": ([ROUND, ROUND, [LONG, EXIT], ROUND, ROUND, ROUND], ""),
    "some lanes exit while others wait": ([ROUND * 2, ROUND, [LONG, step("exit in lanes", FEW), *ROUND], ROUND, ROUND, ROUND], ""),
    "an arrival without a wait": ([[ARRIVE], *[ROUND] * 5], ""),
    "two arrivals": ([[ARRIVE, ARRIVE], *[ROUND] * 5], "B511"),
    "a wait without an arrival": ([[WAIT], *[ROUND] * 5], "B512"),
    "a warp that never arrives": ([[*ROUND, step("meet two")], *[ROUND * 2] * 5], "barrier"),
    "some lanes arrive, others later": (
        [[step("arrive in lanes", FEW), LONG, step("arrive in lanes", ~FEW & 0xFFFFFFFF), WAIT], *[ROUND] * 5],
        "",
    ),
    "lanes that diverge": ([[step("arrive in lanes that diverge", FEW), *ROUND], *[ROUND] * 5], "B511"),
    "some lanes wait first": (
        [
            [ARRIVE, step("wait in lanes that diverge", FEW), step("wait in lanes", ~FEW & 0xFFFFFFFF), *ROUND],
            [ARRIVE, WAIT, *ROUND],
            [LONG, ARRIVE, WAIT, *ROUND],
            *[ROUND * 2] * 3,
        ],
        "",
    ),
    "some lanes wait last": ([[ARRIVE, WAIT]] * 4 + [[ARRIVE, step("wait in lanes", FEW)], [LONG, *ROUND]], ""),
    "an aligned arrival of some lanes": ([[step("arrive partly", FEW), WAIT], *[ROUND] * 5], "aligned"),
    "barriers of CTAs and mbarriers between": (
        [[ARRIVE, step("signal"), step("meet"), step("wait for signals"), WAIT, ARRIVE, step("meet"), WAIT]] * 6,
        "",
    ),
    "a released write": ([[step("write"), ARRIVE, WAIT, step("read there"), *ROUND]] * 6, ""),
    "a write that is not released": ([[step("write"), RELAXED, WAIT, step("read there"), *ROUND]] * 6, "X101"),
    "a write that a fence releases": ([[step("write"), step("fence"), RELAXED, WAIT, step("read there"), *ROUND]] * 6, ""),
    "a write after the fence": ([[step("fence"), step("write"), RELAXED, WAIT, step("read there"), *ROUND]] * 6, "X101"),
    "a write after the read of another": ([[step("read there"), RELAXED, WAIT, step("write"), *ROUND]] * 6, "X101"),
    "an exit after relaxed arrivals": ([[step("write there"), RELAXED, WAIT]] * 6, ""),
    "an exit without arrivals": ([[step("write there")], *[[]] * 5], "exit"),
}


@pytest.mark.parametrize("check", ["none", "all", ("race",)])
@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, check: Any) -> None:
    lists, _ = CASES[name]
    both_ways(lists, check=check)


@pytest.mark.parametrize("name", CASES)
def test_findings_of_cases(name: str) -> None:
    lists, found = CASES[name]
    texts = run(lists, check="all")[1]
    assert found in texts
    assert bool(found) == bool(texts)


def test_a_hang_is_explained_as_before() -> None:
    _, texts, *_ = both_ways([ROUND, ROUND, [step("meet")], *[ROUND] * 3], check="all")
    assert "waits at the cluster barrier" in texts


def test_a_launch_without_end_stops_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some warps wait while another spins; the report names their places."""
    body = "setp.eq.u32 p, warp, 0; @p bra.uni SPIN; barrier.cluster.arrive; barrier.cluster.wait; bra.uni END; SPIN: bra.uni SPIN; END:"
    made = kernel(body)
    found = []
    for way in (turns_of, lambda launch, dispatch: None):
        monkeypatch.setattr(launching, "turns_of", way)
        result = made.launch(grid=2, block=96, cluster=2, args=[np.zeros(1, np.uint32)], max_instructions=500_000, check="none")
        found.append((render_text(result.diagnostics), result.stats.instructions, result.stats.services))
    assert found[0] == found[1]
    assert found[0][0]


def test_warps_are_taken_over_where_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the scheduler takes over all warps, those that wait and those that can run again go on as by handlers."""
    lists = [[*ROUND, step("meet"), *ROUND, LONG, *ROUND, *ROUND * 9]] * 6
    expected = both_ways(lists, check="all")
    taken: list[object] = []

    def take_over(self: Scheduler) -> None:
        taken.append(self)
        self.take_over_all()

    for event in ("_poll_all", "now"):
        before = getattr(Scheduler, event)
        monkeypatch.setattr(Scheduler, event, lambda self, before=before: take_over(self) or before(self))  # type: ignore[func-returns-value]
    poll = Scheduler._poll
    monkeypatch.setattr(Scheduler, "_poll", lambda self, clusters: take_over(self) or poll(self, clusters))  # type: ignore[func-returns-value]
    assert run(lists, check="all") == expected
    assert taken


def test_rows_become_wider_between_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warps initialise mbarriers, each with a slot of its own, for which the rows have no room."""
    monkeypatch.setattr(clocks_module, "_OTHER_SLOTS", 0)
    monkeypatch.setattr(clocks_module, "_SMALLEST_WIDTH", 16)
    widths: list[int] = []
    widen = ClusterClock.widen
    monkeypatch.setattr(ClusterClock, "widen", lambda clock, width: widths.append(width) or widen(clock, width))  # type: ignore[func-returns-value]
    before, after = [step("fence"), step("write"), RELAXED], [WAIT, step("read there"), ARRIVE]
    lists = [[*before, *after, *[step("init")] * (number == 1), WAIT, *before, *after, WAIT] for number in range(CTAS * WARPS)]
    lists[4][7:7] = [step("init")]
    both_ways(lists, check="all")
    assert widths


INITS = [
    [step("init"), step("fence init"), RELAXED, WAIT, step("fence init"), RELAXED, step("init"), WAIT],
    [step("fence init"), RELAXED, WAIT, step("fence"), step("fence init"), RELAXED, WAIT, step("init"), step("fence init")],
    [step("fence init"), step("write"), RELAXED, WAIT, step("fence init"), ARRIVE, WAIT, step("fence init")],
]


def test_fences_of_initialisations_that_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code completes them, as Python does."""
    calls: list[object] = []
    monkeypatch.setattr(_sanitizer, "mbarrier_init_fence", lambda agent: calls.append(agent) or mbarrier_init_fence(agent))  # type: ignore[func-returns-value]
    lists = [[*steps, *ROUND, *steps, *ROUND] for steps in INITS for _ in range(2)]
    found, made = [], []
    describe = _recorder._op_table
    for bit in (INIT_FENCE, 0):
        monkeypatch.setattr(_recorder, "INIT_FENCE", bit)
        monkeypatch.setattr(_recorder, "_op_table", partial(describe))  # what launches of the kernel know is not known to this one
        calls.clear()
        found.append(run(lists, check=("race",)))
        made.append(len(calls))
    assert found[0] == found[1]
    few, every = made
    assert few < every == sum(steps.count(step("fence init")) for steps in lists)


@pytest.mark.parametrize("check", ["none", "all"])
def test_two_workers(check: str) -> None:
    body = "mov.u32 r1, 0; L: barrier.cluster.arrive; barrier.cluster.wait; add.u32 r1, r1, 1; setp.lt.u32 q, r1, 9; @q bra.uni L;"
    made, found = kernel(body), []
    for workers in (1, 2):
        result = made.launch(grid=8, block=96, cluster=2, args=[np.zeros(1, np.uint32)], check=check, workers=workers)
        found.append((render_text(result.diagnostics), result.stats.instructions, result.stats.services))
    assert found[0] == found[1]
