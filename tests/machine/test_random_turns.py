"""Turns under the policy ``random`` that compiled code begins: the same as by the scheduler alone, for each seed."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ptxlab.diagnostics import render_text
from ptxlab.engine.turns.words import NUMBERS, QueueWord
from ptxlab.isa.operations import AsyncOperation
from ptxlab.machine.launch import launch as launching
from ptxlab.machine.schedule.draws import Draws
from ptxlab.machine.schedule.operations import Operations
from ptxlab.machine.schedule.queues import Queue
from ptxlab.machine.schedule.scheduler import Scheduler
from ptxlab.machine.schedule.shared_turns import SharedTurns
from tests.machine.launch_helpers import kernel

CTAS, THREADS, WORDS = 6, 96, 256
SHARED = f".shared .align 16 .b32 data[{WORDS}]; .shared .align 8 .b64 mb[2];"
SOURCE = np.arange(CTAS * THREADS, dtype=np.uint32)

TURNS = """
    mov.u32 r1, 0; mov.u32 r4, 0; mov.u32 r10, data; shl.b32 r11, tid, 2; add.u32 r10, r10, r11;
    mov.u32 r12, data; xor.b32 r13, r11, 128; add.u32 r12, r12, r13;
LOOP:
    setp.ge.u32 p, warp, 2; @p bra.uni OTHERS;
    st.shared.u32 [r10], r1; bar.sync 1, 64; ld.shared.u32 r3, [r12]; add.u32 r4, r4, r3; bar.sync 1, 64;
OTHERS:
    setp.eq.u32 p, lane, 0; @p atom.global.add.u32 r3, [order], 1; @p mad.lo.u32 r4, r4, 31, r3;
    bar.sync 0;
    add.u32 r1, r1, 1; setp.lt.u32 q, r1, {}; @q bra LOOP;
    st.global.u32 [at], r4;
"""
"""The order of the warps of all CTAs is part of the result."""

COPIES = """
    mov.u32 r1, 0; mov.u32 r4, 0; mov.u32 r10, data; shl.b32 r11, tid, 2; add.u32 r10, r10, r11;
    ld.param.u64 rd1, [source]; cvt.u64.u32 rd2, r11; add.u64 rd1, rd1, rd2;
    setp.eq.u32 p, tid, 0; @p mbarrier.init.shared.b64 [mb], 96; @p mbarrier.init.shared.b64 [mb+8], 3;
    bar.sync 0;
LOOP:
    and.b32 r2, r1, 1;
    cp.async.ca.shared.global [r10], [rd1], 4; cp.async.mbarrier.arrive.noinc.shared.b64 [mb];
W:  mbarrier.try_wait.parity.shared.b64 q, [mb], r2; @!q bra W;
    mov.u32 r12, data; xor.b32 r13, r11, 4; add.u32 r12, r12, r13; ld.shared.u32 r3, [r12]; mad.lo.u32 r4, r4, 31, r3;
    setp.eq.u32 p, lane, 0; @p atom.global.add.u32 r3, [order], 1; @p add.u32 r4, r4, r3;
    @p mbarrier.arrive.shared.b64 _, [mb+8];
V:  mbarrier.try_wait.parity.shared.b64 q, [mb+8], r2; @!q bra V;
    cp.async.ca.shared.global [r10+512], [rd1], 4; cp.async.commit_group; cp.async.wait_group {};
    ld.shared.u32 r3, [r10+512]; mad.lo.u32 r4, r4, 31, r3;
    add.u32 r1, r1, 1; setp.lt.u32 q, r1, 6; @q bra LOOP;
    st.global.u32 [at], r4;
"""
"""Compiled code blocks warps that wait for copies, which the scheduler performs."""


def outcome(body: str, alone: bool = False, **options: Any) -> tuple[Any, ...]:
    """What a launch does; ``alone``: the scheduler chooses each warp."""
    out = np.zeros(CTAS * THREADS, np.uint32)
    made = kernel(".reg .b64 order; ld.param.u64 order, [counts];" + body, shared=SHARED, params=", .param .u64 counts, .param .u64 source")
    with pytest.MonkeyPatch.context() as patch:
        if alone:
            patch.setattr(launching, "turns_of", lambda launch, executable: None)
        result = made.launch(grid=CTAS, block=THREADS, args=[out, np.zeros(1, np.uint32), SOURCE], **options)
    return out.tolist(), result.stats.instructions, result.stats.services, render_text(result.diagnostics)


@pytest.mark.parametrize("check", ["none", "all"])
@pytest.mark.parametrize(
    ("body", "wrong"), [(TURNS.format(10), False), (COPIES.format(0), False), (COPIES.format(1), True)], ids=["turns", "copies", "race"]
)
def test_each_seed_gives_the_same_schedule(body: str, wrong: bool, check: str) -> None:
    found = set()
    for seed in range(8):
        shared = outcome(body, check=check, policy="random", seed=seed)
        assert shared == outcome(body, alone=True, check=check, policy="random", seed=seed)
        assert bool(shared[-1]) == (wrong and check == "all")
        found.add(str(shared[0]))
    assert len(found) == 8, "the order of the warps differs"


@pytest.mark.parametrize("check", ["none", "all"])
def test_turns_need_no_return(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler goes on after 32 turns of a cluster, and where random numbers are used up."""
    made: list[int] = []
    run_warp = Scheduler._run_warp
    monkeypatch.setattr(Scheduler, "_run_warp", lambda self, warp: made.append(1) or run_warp(self, warp))  # type: ignore[func-returns-value]
    begun = []
    for length in (20, 40):
        outcome(TURNS.format(length), check=check, policy="random", seed=3)
        made.clear()
        outcome(TURNS.format(length), check=check, policy="random", seed=3)
        begun.append(len(made))
    waits = 20 * CTAS * (2 * 2 + 3)
    assert begun[1] - begun[0] < waits / 16


@pytest.mark.parametrize("policy", ["lazy", "random"])
def test_copies_that_perform_let_warps_run_that_compiled_code_has_blocked(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No handler executes their waits once more."""
    taken: list[int] = []
    resumed: list[int] = []
    take_over, resume = SharedTurns.take_over_waiters, SharedTurns.resume_waiters
    monkeypatch.setattr(SharedTurns, "take_over_waiters", lambda self, *args: taken.append(1) or take_over(self, *args))  # type: ignore[func-returns-value]
    monkeypatch.setattr(SharedTurns, "resume_waiters", lambda self, *args: resumed.append(1) or resume(self, *args))  # type: ignore[func-returns-value]
    outcome(COPIES.format(0), policy=policy, check="none")
    assert resumed
    assert not taken


def test_random_numbers_are_those_of_python() -> None:
    draws, same = Draws("a seed", memoryview(bytearray(8 * QueueWord.END)).cast("q")), random.Random("a seed")
    for count in (1, 2, 3, 7, 64, 65, 1000, 1 << 31) * (NUMBERS // 4):
        assert draws.randrange(count) == same.randrange(count)
        assert draws.below(3 << 51) == (same.random() < 0.75)


class _Counted(AsyncOperation):
    """An operation that counts how often somebody asks whether it is done."""

    asked = 0
    _is_done = False

    @property
    def done(self) -> bool:
        _Counted.asked += 1
        return self._is_done

    @done.setter
    def done(self, value: bool) -> None:
        self._is_done = value


def test_signals_perform_after_the_last_operation_that_they_wait_for() -> None:
    queue = Queue(None)
    launch: Any = SimpleNamespace(policy="lazy", observer=None, progress=0, options=SimpleNamespace(seed=0), resident=())
    cta: Any = SimpleNamespace(group=SimpleNamespace(queue=queue))
    order: list[str] = []
    operations = Operations(launch)

    def issue(name: str, *after: AsyncOperation, signals: bool = False) -> AsyncOperation:
        made = _Counted(name, None, cta, lambda: order.append(name), after=after if signals else None)  # type: ignore[arg-type]
        operations.issue(made)
        return made

    first, second = issue("a"), issue("b")
    issue("none", signals=True)
    issue("both", second, first, signals=True)
    issue("first", first, signals=True)
    issue("first again", first, signals=True)
    while operations.perform_one(queue):
        pass
    assert order == ["none", "a", "first", "first again", "b", "both"]
    issue("done", first, signals=True)
    assert order[-1] == "done"
    _Counted.asked = 0
    for number in range(300):
        issue("signal", issue(str(number)), signals=True)
    while operations.perform_one(queue):
        pass
    assert len(order) == 607
    assert not operations.signals
    assert _Counted.asked < 3 * 600
