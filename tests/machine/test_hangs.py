"""Launches that can make no progress: nothing of the report is lost, and every way to spin is found."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np
import pytest

from ptxlab.diagnostics import render_json, render_text
from ptxlab.engine.context import Context
from ptxlab.machine.launch import launch as launching
from ptxlab.machine.launch.launch import Launch
from ptxlab.machine.schedule.queues import Queue, Queues
from ptxlab.machine.schedule.scheduler import Scheduler
from ptxlab.machine.warp.warp import Warp
from tests.machine.launch_helpers import kernel, run, store
from tests.sweep_helpers import one_in

SHARED = ".shared .align 8 .b64 bars[32]; .local .align 4 .b32 own;"
INIT = "setp.eq.u32 p, tid, 0;\n@p mbarrier.init.shared.b64 [bars], 1;\nbar.sync 0;\n"
ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bars], 32;\nld.shared.u32 r5, [bars];\nmov.u32 r1, 0;\n"
TENSOR_READ = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r1}, [r5];\ntcgen05.wait::ld.sync.aligned;\n"
TENSOR_WRITE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [r5], {r1};\ntcgen05.wait::st.sync.aligned;\n"
DEALLOC = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 r5, 32;\n"
SLEEPS = pytest.mark.parametrize("sleep", ["", "nanosleep.u32 100;"], ids=["", "sleep"])
OWN_BARRIER = """
    mov.u32 r1, bars;
    shr.u32 r2, tid, 5;
    shl.b32 r2, r2, 3;
    add.u32 r1, r1, r2;
    setp.eq.u32 p, lane, 0;
    @p mbarrier.init.shared.b64 [r1], 1;
    bar.sync 0;
LOOP:
    mbarrier.try_wait.parity.shared.b64 q, [r1], 0;
    @!q bra LOOP;
"""


def test_every_group_stands_in_the_data_and_the_text_is_cut() -> None:
    """64 warps, each at a barrier of its own."""
    _, result = run(OWN_BARRIER, 1024, 2, shared=SHARED, cluster=2)
    (found,) = result.diagnostics
    assert found.code == "H601"
    assert found.message == (
        "no warp can continue: the mbarrier at shared offset 0x400 of CTA rank 0 is missing 1 of 1 arrivals in phase 0 (parity 0); "
        "64 groups of converged lanes wait; 0 of 2 CTAs have ended"
    )
    every = [f"CTA ({cta}, 0, 0) warp {warp} lanes 0-31" for cta in range(2) for warp in range(32)]
    (data,) = json.loads(render_json([found]))
    assert [name for name in data["details"] if name.startswith("CTA (")] == every
    for text in (str(found), render_text([found])):
        shown = [name for name in every if f"{name}: " in text]
        assert shown[:39] == every[:39], "the first detail is the kernel"
        assert len(shown) < 60
        assert "\n  further: " in text
        assert "is missing 1 of 1 arrivals in phase 0" in text, "what stands behind the waits is not cut"


def test_equal_waits_are_named_as_ranges() -> None:
    """All wait alike, but for one warp of the last CTA, which has left."""
    body = """
    setp.eq.u32 p, cta, 4;
    setp.ge.and.u32 p, tid, 64, p;
    @p bra DONE;
    bar.sync 1, 128;
DONE:
    """
    _, result = run(body, 96, 5)
    (found,) = result.diagnostics
    names = [name for name, _ in found.details if name.startswith("CTA")]
    assert names == ["CTAs (0-3, 0, 0) warps 0-2 lanes 0-31", "CTA (4, 0, 0) warps 0-1 lanes 0-31"]


SPINS = {
    "test_wait": (INIT, "mbarrier.test_wait.parity.shared.b64 q, [bars], 0;"),
    "try_wait": (INIT, "mbarrier.try_wait.parity.shared.b64 q, [bars], 0;"),
    "try_wait with a time limit": (INIT, "mbarrier.try_wait.parity.shared.b64 q, [bars], 0, 1000;"),
    "ld.acquire": ("", "ld.acquire.gpu.global.u32 r2, [out];\nsetp.eq.u32 q, r2, 1;"),
    "lock taken by cas": ("", "atom.global.acquire.gpu.cas.b32 r2, [out], 0, 1;\nsetp.eq.u32 q, r2, 0;"),
    "lock taken by exch": ("", "atom.global.acquire.gpu.exch.b32 r2, [out], 57005;\nsetp.eq.u32 q, r2, 0;"),
    "atom in shared memory": (INIT, "atom.shared.or.b32 r2, [bars+8], 0;\nsetp.eq.u32 q, r2, 7;"),
    "tensor memory": (ALLOC + TENSOR_WRITE, TENSOR_READ + "setp.eq.u32 q, r1, 7;"),
}


@SLEEPS
@pytest.mark.parametrize("name", SPINS)
def test_a_spin_on_what_never_changes(name: str, sleep: str) -> None:
    before, look = SPINS[name]
    started = time.process_time()
    _, result = run(f"{before}SPIN:\n{look}\n{sleep}\n@!q bra SPIN;\n", shared=SHARED, check="none")
    assert [d.code for d in result.diagnostics] == ["H601"]
    assert time.process_time() - started < 10


COUNTERS = {
    "shared": ("st.shared.u32 [bars], 0;", "ld.shared.u32 r1, [bars];", "st.shared.u32 [bars], r1;", ""),
    "local": ("st.local.u32 [own], 0;", "ld.local.u32 r1, [own];", "st.local.u32 [own], r1;", ""),
    "global": ("st.global.u32 [at], 0;", "ld.global.u32 r1, [at];", "st.global.u32 [at], r1;", ""),
    "tensor memory": (ALLOC + TENSOR_WRITE, TENSOR_READ, TENSOR_WRITE, DEALLOC),
    "clock": ("", "mov.u32 r1, %clock;", "", ""),
    "globaltimer": ("", "mov.u32 r1, %globaltimer_lo;", "", ""),
}


@SLEEPS
@pytest.mark.parametrize("name", COUNTERS)
def test_a_loop_whose_count_stands_outside_the_registers_ends(name: str, sleep: str) -> None:
    """At the end of each round all registers are what they were; only one place tells how far it is."""
    before, read, write, after = COUNTERS[name]
    limit = 1_000_000 if "clock" in name or "timer" in name else 3000
    body = f"""
    {before}
    mov.u32 r3, 0;
LOOP:
    {read}
    add.u32 r1, r1, 1;
    {write}
    setp.lt.u32 q, r1, {limit};
    mov.u32 r1, 0;
    {sleep}
    @q bra LOOP;
    {after}
    """
    out, result = run(body + store("r1"), shared=SHARED, check="none")
    assert result.diagnostics == ()
    assert set(out.tolist()) == {0}


def test_a_time_out_by_the_clock_ends_a_wait() -> None:
    """The launch stands still but for the clock that the loop reads."""
    body = f"""
    {INIT}
LOOP:
    mbarrier.try_wait.parity.shared.b64 q, [bars], 0, 1000;
    mov.u32 r1, %clock;
    setp.gt.or.u32 q, r1, 200000, q;
    mov.u32 r1, 0;
    @!q bra LOOP;
    """
    out, result = run(body + store("r1"), shared=SHARED)
    assert result.diagnostics == ()
    assert set(out.tolist()) == {0}


def test_a_clock_that_is_read_before_a_loop_does_not_hide_a_hang() -> None:
    body = (
        "mov.u64 rd1, %clock64;\nSPIN:\nld.acquire.gpu.global.u32 r2, [out];\nsetp.ne.u32 q, r2, 1;\n@q bra SPIN;\nmov.u64 rd2, %clock64;\n"
    )
    _, result = run(body + store("r2"))
    assert [d.code for d in result.diagnostics] == ["H601"]


@pytest.mark.parametrize(("threads", "budget"), [(32, 22_000_000), (128, 28_000_000)])
def test_the_default_budget_ends_an_endless_loop(threads: int, budget: int) -> None:
    started = time.process_time()
    out, result = run("mov.u32 r1, 0;\nL: add.u32 r1, r1, 1;\nbra L;\n", threads)
    (found,) = result.diagnostics
    assert found.code == "H602"
    assert f"more than its budget of {budget}; 0 of 1 CTAs have ended" in found.message
    assert set(out.tolist()) == {0xDEAD}
    assert time.process_time() - started < 5


def test_a_barrier_of_the_warp_is_not_the_headline() -> None:
    """One lane waits for an mbarrier on which nothing arrives, and the others wait for that lane."""
    body = f"""{INIT}
    setp.eq.u32 p, lane, 7;
    @!p bra JOIN;
AGAIN:
    mbarrier.try_wait.parity.shared.b64 q, [bars], 0;
    @!q bra AGAIN;
JOIN:
    bar.warp.sync 0xffffffff;
    """
    _, result = run(body, 32, shared=SHARED)
    (found,) = result.diagnostics
    assert found.code == "H601"
    assert found.excerpt.strip() == "mbarrier.try_wait.parity.shared.b64 q, [bars], 0;"
    assert found.fix.startswith("insert the missing arrival on the mbarrier")


BARRIERS = {
    "none": "",
    "bar.sync": "bar.sync 0;",
    "bar.red": "bar.red.popc.u32 r9, 0, q;",
    "barrier.cluster": "barrier.cluster.arrive;\nbarrier.cluster.wait;",
}
MEETINGS = pytest.mark.parametrize("barrier", BARRIERS.values(), ids=BARRIERS)


@MEETINGS
@pytest.mark.parametrize("warps", one_in(4, [2, 1, 3, 5]))
def test_a_spin_of_threads_that_meet_at_a_barrier(barrier: str, warps: int) -> None:
    """It is found after a number of instructions that depends on the warps alone."""
    body = f"SPIN:\nld.acquire.gpu.global.u32 r2, [out];\nsetp.eq.u32 q, r2, 1;\n{barrier}\n@!q bra SPIN;\n"
    _, result = run(body, 32 * warps, check="none")
    assert [d.code for d in result.diagnostics] == ["H601"]
    assert result.stats.instructions < 250_000 * warps


@MEETINGS
@pytest.mark.parametrize("policy", one_in(3, ["eager", "lazy", "random"]))
@pytest.mark.parametrize("waiting", [0, 1], ids=["for a later CTA", "for an earlier CTA"])
def test_a_spin_ends_when_another_cta_has_finished_its_copy(waiting: int, policy: str, barrier: str) -> None:
    """One CTA waits in a loop for a flag that the other one sets behind a ``cp.async``, for which that one waits, too."""
    body = f"""
    setp.ne.u32 p, cta, {waiting};
    @p bra PRODUCE;
SPIN:
    ld.acquire.gpu.global.u32 r2, [out+512];
    setp.eq.u32 q, r2, 7;
    {barrier}
    @!q bra SPIN;
    bra DONE;
PRODUCE:
    mov.u32 r2, 0;
    setp.ne.u32 p, tid, 0;
    @p bra DONE;
    cp.async.ca.shared.global [bars], [out+528], 16;
    cp.async.commit_group;
    cp.async.wait_group 0;
    ld.shared.u32 r3, [bars];
    st.release.gpu.global.u32 [out+512], r3;
DONE:
    st.global.u32 [at], r2;
    """
    memory = np.zeros(256, np.uint32)
    memory[132] = 7
    shared = ".shared .align 16 .b64 bars[2];"
    result = kernel(body, shared=shared).launch(grid=2, block=64, args=[memory], policy=policy, seed=3, max_instructions=3_000_000)
    assert result.diagnostics == ()
    assert memory[:128].reshape(2, 64).tolist() == [[7 if cta == waiting else 0] * 64 for cta in range(2)]


def test_a_loop_with_barriers_that_computes_starts_no_other_cta() -> None:
    """Each CTA counts its threads twice, before and behind a loop of several slices: no thread of the other one counts in between."""
    body = """
    mov.u32 r1, 0;
    atom.global.add.u32 r3, [out+512], 1;
LOOP:
    add.u32 r1, r1, 1;
    bar.sync 0;
    setp.lt.u32 q, r1, 50000;
    @q bra LOOP;
    atom.global.add.u32 r3, [out+512], 1;
    """
    memory = np.zeros(129, np.uint32)
    result = kernel(body + store("r3")).launch(grid=2, block=64, args=[memory], max_instructions=10_000_000, check="none")
    assert result.diagnostics == ()
    assert [sorted(cta) for cta in memory[:128].reshape(2, 64).tolist()] == [list(range(64, 128)), list(range(192, 256))]


class _LastFirst(Queue):
    """For many turns the last warp that can run has its turn again and again."""

    turns = 0

    def next_warp(self) -> Warp:
        self.turns += 1
        chosen = (max if self.turns < 100 else min)(self.ready, key=lambda warp: warp.warp_id)
        self.ready.remove(chosen)
        return chosen


class _Unfair(Scheduler):
    def __init__(self, launch: Launch, execute: Callable[[Context], int]) -> None:
        super().__init__(launch, execute)
        queue = _LastFirst(None)
        queue.in_order = False
        self.queues = Queues(launch, queue)


def test_a_spin_is_no_hang_before_every_warp_has_had_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "Scheduler", _Unfair)
    body = """
    setp.eq.u32 p, warp, 0;
    @p st.release.gpu.global.u32 [out+512], 7;
    SPIN:
    ld.acquire.gpu.global.u32 r2, [out+512];
    setp.eq.u32 q, r2, 7;
    @!q bra SPIN;
    """
    memory = np.zeros(129, np.uint32)
    result = kernel(body + store("r2")).launch(grid=1, block=64, args=[memory], check="none")
    assert result.diagnostics == ()
    assert set(memory[:64].tolist()) == {7}
