"""Warps that compiled code blocks at waits for mbarrier objects: the same as with handlers that are always called, in the same order.

One kernel executes lists of steps that random tests make, so it is compiled once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import ptxlab
from ptxlab.diagnostics import render_text
from ptxlab.engine.context import Word
from ptxlab.isa.sync import _mbarrier
from ptxlab.machine.launch import launch as launching
from ptxlab.machine.schedule.barriers import MbarrierState
from ptxlab.machine.schedule.turns import turns_of
from ptxlab.machine.warp import context_words
from tests.machine.launch_helpers import kernel

BARRIERS, MOST, CTAS, WARPS = 3, 24, 2, 4
"""The mbarriers of a CTA, the steps of a warp, the CTAs of the cluster and the warps of each."""
SHARED = f".shared .align 8 .b64 mb[{BARRIERS + 1}];"

STEPS = {
    "arrive": "@mine mbarrier.arrive.shared::cta.b64 state, [bar];",
    "arrive several times": "@mine mbarrier.arrive.shared::cta.b64 _, [bar], amount;",
    "arrive anywhere": "@mine mbarrier.arrive.release.cluster.shared::cluster.b64 _, [bar], amount;",
    "expect": "@mine mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [bar], amount;",
    "arrive and expect": "@mine mbarrier.arrive.expect_tx.shared::cta.b64 state, [bar], amount;",
    "complete": "@mine mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], amount;",
    "drop": "@mine mbarrier.arrive_drop.shared::cta.b64 state, [bar];",
    "wait": "and.b32 amount, amount, 1; mbarrier.try_wait.parity.shared::cta.b64 done, [bar], amount;",
    "wait in some lanes": "and.b32 amount, amount, 1; @mine mbarrier.try_wait.parity.shared::cta.b64 done, [bar], amount;",
    "wait without a result": "and.b32 amount, amount, 1; mbarrier.try_wait.parity.shared::cta.b64 _, [bar], amount;",
    "wait in a loop": "and.b32 amount, amount, 1; W: mbarrier.try_wait.parity.shared::cta.b64 done, [bar], amount; @!done bra.uni W;",
    "wait for a state": "shl.b32 amount, amount, 20; cvt.u64.u32 state, amount; mbarrier.try_wait.shared::cta.b64 done, [bar], state;",
    "wait in lanes that diverge": "@!mine bra NEXT; and.b32 amount, amount, 1; mbarrier.try_wait.parity.shared::cta.b64 _, [bar], amount;",
    "test": "and.b32 amount, amount, 1; mbarrier.test_wait.parity.shared::cta.b64 done, [bar], amount;",
    "meet": "bar.sync 1, 64;",
    "wait long": "mov.u32 r2, 0; L: add.u32 r2, r2, 1; setp.lt.u32 t, r2, 30000; @t bra L;",
    "again": "mbarrier.inval.shared::cta.b64 [bar]; mbarrier.init.shared::cta.b64 [bar], amount;",
    "overwrite": "st.shared.u32 [bar], amount;",
    "exit": "ret;",
}
NAMES = list(STEPS)
RARE = ("drop", "meet", "wait long", "again", "overwrite", "exit")
Step = tuple[int, int, int, int]
CHECKS = ("none", "none", "all", ("operands",), ("race",), ("memory", "barrier", "register"))


@cache
def loaded() -> ptxlab.Kernel:
    """A kernel whose warps execute each its list: kind, address in the window, amount, and the lanes that are executed under a guard."""
    cases = "".join(f"S{number}:\n{text}\nbra.uni NEXT;\n" for number, text in enumerate(STEPS.values()))
    body = f"""
    .reg .pred done, mine, end;
    .reg .b32 kind, bar, amount, lanes, n, order;
    .reg .b64 list, turn;
    ld.param.u64 list, [steps]; ld.param.u64 turn, [turns];
    mad.lo.u32 r1, cta, {WARPS}, warp; mul.wide.u32 rd1, r1, {MOST * 16}; add.u64 list, list, rd1;
    mul.wide.u32 rd1, r19, {8 * MOST}; add.u64 out, out, rd1;
    ld.param.u32 r3, [expected];
    setp.eq.u32 p, tid, 0;
    {"".join(f"@p mbarrier.init.shared::cta.b64 [mb+{8 * number}], r3;" for number in range(BARRIERS))}
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mov.u32 n, 0;
LOOP:
    ld.global.u32 kind, [list]; ld.global.u32 bar, [list+4]; ld.global.u32 amount, [list+8]; ld.global.u32 lanes, [list+12];
    mov.u32 r2, mb; and.b32 r2, r2, 0xffffff; add.u32 bar, bar, r2;
    shr.u32 r1, lanes, lane; and.b32 r1, r1, 1; setp.eq.u32 mine, r1, 1;
    setp.ge.u32 end, kind, {len(STEPS)};
    @end bra.uni END;
    mov.u64 state, 0; setp.ne.u32 done, n, n;
    ways: .branchtargets {", ".join(f"S{number}" for number in range(len(STEPS)))};
    brx.idx.uni kind, ways;
    {cases}
NEXT:
    bar.warp.sync 0xffffffff;
    setp.eq.u32 p, lane, 0; mov.u32 order, 0;
    @p atom.global.add.u32 order, [turn], 1;
    mul.wide.u32 rd1, order, 1; shl.b64 rd1, rd1, 32; xor.b64 state, state, rd1;
    selp.u64 rd1, 0x4000000000000000, 0, done; or.b64 state, state, rd1;
    st.global.u64 [out], state; add.u64 out, out, 8; add.u64 list, list, 16; add.u32 n, n, 1;
    setp.lt.u32 q, n, {MOST};
    @q bra.uni LOOP;
END:
    """
    return kernel(body, shared=SHARED, params=", .param .u64 steps, .param .u64 turns, .param .u32 expected")


def run(lists: list[list[Step]], expected: int, **options: Any) -> tuple[Any, ...]:
    """What a launch gives."""
    table = np.full((CTAS * WARPS, MOST, 4), len(STEPS), np.uint32)
    for number, steps in enumerate(lists):
        table[number, : len(steps)] = np.array(steps, np.uint32).reshape(-1, 4)
    out = np.zeros((CTAS * WARPS * 32, MOST), np.uint64)
    args = [out, table, np.zeros(1, np.uint32), expected]
    result = loaded().launch(grid=CTAS, block=32 * WARPS, cluster=CTAS, args=args, max_instructions=3_000_000, **options)
    return out.tolist(), render_text(result.diagnostics), result.stats.services, result.stats.instructions


def _nothing(launch: Any) -> None:
    """Permit no arrivals."""


def both_ways(lists: list[list[Step]], expected: int, **options: Any) -> tuple[Any, ...]:
    """What a launch gives with warps that compiled code blocks; the same by the handlers is asserted to be equal."""
    blocked = run(lists, expected, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launching, "turns_of", lambda launch, dispatch: None)
        assert run(lists, expected, **options) == blocked
        patch.setattr(context_words, "_permit_arrivals", _nothing)
        assert run(lists, expected, **options) == blocked
    return blocked


def step(name: str, bar: int = 0, amount: int = 1, lanes: int = 1, rank: int = 0) -> Step:
    return NAMES.index(name), rank << 24 | 8 * bar, amount, lanes


def drawn(choice: Random, own: int, bold: float) -> list[Step]:
    """Steps of a warp; the bolder, the more mistakes."""
    found = []
    for _ in range(choice.randrange(MOST)):
        name = choice.choice(NAMES if choice.random() < bold else [name for name in NAMES if name not in RARE])
        anywhere = name in ("arrive anywhere", "complete")
        rank = own ^ (choice.random() < 0.5 if anywhere else choice.random() < bold / 8)
        lanes = choice.choice((3, 0x80000001, 0xFFFFFFFF, 0)) if choice.random() < 0.1 else 1 << choice.choice((0, 0, 5))
        amount = choice.choice((0, 1, 1, 2) if "arrive" not in name or choice.random() < bold else (1, 2))
        found.append(step(name, choice.randrange(BARRIERS + (choice.random() < bold / 8)), amount, lanes, rank))
        if name in ("expect", "arrive and expect", "complete") and choice.random() < 0.8:
            other = "expect" if name == "complete" else "complete"
            found.append((NAMES.index(other), *found[-1][1:]))
    return found[:MOST]


def lists_of(seed: int) -> list[list[Step]]:
    """The lists of all warps."""
    choice = Random(seed)
    bold = choice.choice((0, 0.03, 0.3))
    return [drawn(choice, number // WARPS, bold) for number in range(CTAS * WARPS)]


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.integers(0, 1 << 32),
    st.sampled_from((1, 2, 3, 8)),
    st.sampled_from(("eager", "eager", "lazy", "random")),
    st.sampled_from(CHECKS),
)
@example(702305, 1, "eager", "none").via("a warp waits in a slice that it has begun with diverged lanes")
def test_steps_in_any_order(seed: int, expected: int, policy: str, check: Any) -> None:
    both_ways(lists_of(seed), expected, policy=policy, check=check)


PING_PONG = [
    [step("arrive", 1), step("wait in a loop", 0, 0), step("arrive", 1), step("wait in a loop", 0, 1)] * 6,
    [step("wait in a loop", 1, 0), step("arrive", 0), step("wait in a loop", 1, 1), step("arrive", 0)] * 6,
]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The waits whose handler has blocked lanes."""
    made: list[int] = []
    init = _mbarrier._Complete.__init__

    def count(self: Any, barrier: Any, operand: int, parity: bool) -> None:
        made.append(operand)
        init(self, barrier, operand, parity)

    monkeypatch.setattr(_mbarrier._Complete, "__init__", count)
    return made


def test_no_handler_blocks_where_compiled_code_can(calls: list[int]) -> None:
    _, texts, services, _ = run(PING_PONG, 1, check="none")
    assert texts == ""
    assert services["mbarrier.arrive.shared::cta.b64"] == 24
    assert services["mbarrier.try_wait.parity.shared::cta.b64"] > 24
    assert calls == []
    both_ways(PING_PONG, 1, check="none")
    assert len(calls) > 30


LONG, LOOP = step("wait long"), step("wait in a loop", 0, 0)
CASES = {
    "several warps for one phase": ([[LOOP]] * 3 + [[LONG, step("arrive"), step("wait", 0, 0)]], 1),
    "the phase completes before the wait": ([[step("arrive")], [LONG, step("wait", 0, 0), step("wait", 1, 1)]], 1),
    "two parities": ([[step("wait", 0, 0)], [step("wait", 0, 1)], [step("arrive"), step("wait", 0, 0), step("arrive")], []], 1),
    "states": (
        [
            [step("wait for a state", 0, 0)],
            [step("wait for a state", 0, 1)],
            [step("wait for a state", 0, 4)],
            [LONG, *[step("arrive")] * 3],
        ],
        1,
    ),
    "an arrival from another CTA": (
        [[LOOP], [LOOP], [], [], [LONG, step("arrive anywhere", rank=0)]],
        1,
    ),
    "bytes": (
        [[step("arrive and expect", 0, 16), step("wait", 0, 0)], [step("wait", 0, 0)], [LONG, step("complete", 0, 16)]],
        1,
    ),
    "two phases before the warp continues": (
        [[step("wait", 0, 0)], [step("wait in some lanes", 0, 0)], [LONG, step("arrive"), step("arrive"), step("arrive")]],
        1,
    ),
    "an object that ends": ([[step("wait", 0, 0)], [step("wait", 0, 0)], [LONG, step("again", 0, 1), step("arrive")]], 2),
    "an object that ends after its phase": ([[step("wait", 0, 0)], [LONG, step("arrive"), step("again", 0, 1)]], 1),
    "an object that is overwritten": ([[step("wait", 0, 0)], [step("wait", 0, 0)], [LONG, step("overwrite")]], 2),
    "an object that is overwritten after its phase": ([[step("wait", 0, 0)], [LONG, step("arrive"), step("overwrite")]], 1),
    "some lanes wait first": (
        [[step("wait in lanes that diverge", 0, 0)], [step("wait", 0, 0)], [LONG, step("wait", 0, 0)], [step("arrive")] * 2],
        2,
    ),
    "some lanes wait last": ([[step("wait", 0, 0)], [step("wait in lanes that diverge", 0, 0)], [LONG, step("arrive")]], 1),
    "warps that exit": (
        [[LOOP], [LOOP], [step("exit")], [LONG, step("arrive")]],
        1,
    ),
    "a barrier of the CTA": (
        [[step("wait", 0, 0), step("meet"), step("arrive", 1)], [step("meet"), step("wait", 1, 0)], [LONG, step("arrive")]],
        1,
    ),
    "time limits": ([[step("wait", 0, 0), step("wait without a result", 1, 0), step("arrive")], [LOOP]], 1),
}


@pytest.mark.parametrize("check", ["none", "all", ("operands",)])
@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, check: Any) -> None:
    lists, expected = CASES[name]
    both_ways(lists, expected, check=check)


@pytest.mark.parametrize("check", ["none", "all"])
def test_a_hang_is_explained_as_before(check: str) -> None:
    lists = [[LOOP], [step("arrive"), step("wait in a loop", 1, 0)], [step("wait", 0, 1), step("meet")], []]
    _, texts, *_ = both_ways(lists, 2, check=check)
    assert "waits for the phase of parity 0 to complete" in texts
    assert "1 of 2 arrivals in phase 0" in texts


def test_a_launch_without_end_stops_at_its_limit() -> None:
    """Some warps wait while the others spin, whose places the report names."""
    body = """
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared::cta.b64 [mb], 1;
    bar.sync 0;
    setp.ge.u32 q, tid, 64;
    @q bra.uni SPIN;
W:  mbarrier.try_wait.parity.shared::cta.b64 t, [mb], 0; @!t bra.uni W;
    bra.uni END;
SPIN: mov.u32 r1, 0;
L:  add.u32 r1, r1, 1; bra.uni L;
END:
    """
    found = []
    made = kernel(body, shared=SHARED)
    for way in (turns_of, lambda launch, dispatch: None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(launching, "turns_of", way)
            result = made.launch(grid=1, block=128, args=[np.zeros(1, np.uint32)], max_instructions=900_000, check="none")
        found.append((render_text(result.diagnostics), result.stats.instructions, result.stats.services))
    assert found[0] == found[1]
    assert found[0][0]


def test_warps_that_continue_are_taken_over_where_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the scheduler takes over all warps, those that can run again must execute the wait once more."""
    arrives = [step("arrive", 1), step("complete", 2)]
    arrives += [step("expect", 2), LOOP, *arrives]
    waits = [step("wait in a loop", 1, 0), step("arrive", 0), step("wait", 1, 1), step("wait in some lanes", 1, 1, 5)]
    lists = [waits, waits, arrives, []]
    expected = both_ways(lists, 1, check="none")
    taken: list[int] = []
    complete_tx = MbarrierState.complete_tx

    def complete(barrier: MbarrierState, count: int) -> None:
        taken.extend(warp.words[Word.AWAITS] for cta in barrier.launch.resident for warp in cta.warps if warp.words[Word.QUEUED])
        barrier.launch.scheduler.take_over_all()
        complete_tx(barrier, count)

    monkeypatch.setattr(MbarrierState, "complete_tx", complete)
    assert run(lists, 1, check="none") == expected
    assert any(taken)


@pytest.mark.parametrize("check", ["none", "race"])
@pytest.mark.parametrize("is_over", [False, True])
def test_a_wait_that_is_not_the_compiled_one_reaches_its_handler(check: str, is_over: bool) -> None:
    """A program may have other services than the one of which its code was compiled."""
    body = f"""
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared.b64 [mb], 32;
    bar.sync 0;
    setp.eq.u32 q, warp, {0 if is_over else 1};
    @q bra.uni ARRIVE;
    bra.uni WAIT;
ARRIVE:
    mbarrier.arrive.shared.b64 _, [mb];
WAIT:
    mbarrier.try_wait.parity.shared.b64 p, [mb], 0;
    """
    own, calls = kernel(body, shared=SHARED), []
    program, executable = own.variant(True, check == "race")

    def handler(warp: Any) -> Any:
        calls.append(warp.op.opcode)
        return wait.row.semantics(warp)

    wait = next(op for op in program.ops if op.opcode.startswith("mbarrier.try_wait"))
    changed = replace(wait, row=replace(wait.row, semantics=handler))
    ops = [changed if op is wait else op for op in program.ops]
    checks = "none" if check == "none" else (check,)
    for ran, expected in ((program, 0), (replace(program, ops=ops), 2)):
        with own.replaced(ran, executable):
            own.launch(grid=1, block=64, args=[np.zeros(64, np.uint32)], check=checks).raise_for_errors()
        assert len(calls) >= expected if expected else not calls
