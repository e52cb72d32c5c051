"""Divergence, waits for other threads, hangs and budgets: whether a launch goes on, and how it ends."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import ptxlab
from tests.machine.launch_helpers import kernel, run, store

SHARED = ".shared .align 16 .b32 buffer[64]; .shared .align 8 .b64 bars[4];"


def test_divergent_lanes_meet_again() -> None:
    body = """
    and.b32 r1, lane, 3;
    setp.eq.u32 p, r1, 0;
    setp.eq.u32 q, r1, 1;
    @p bra A;
    @q bra B;
    mov.u32 r2, 100;
    bra JOIN;
A:  mov.u32 r2, 200;
    bra JOIN;
B:  mov.u32 r2, 300;
JOIN:
    bar.warp.sync -1;
    shfl.sync.bfly.b32 r3, r2, 1, 31, -1;
    """ + store("r3")
    out, result = run(body)
    assert result.diagnostics == ()
    assert out.tolist() == [300, 200, 100, 100] * 8


def test_loops_of_different_length() -> None:
    body = """
    mov.u32 r1, 0;
    mov.u32 r2, 0;
LOOP:
    add.u32 r2, r2, lane;
    add.u32 r1, r1, 1;
    setp.le.u32 p, r1, lane;
    @p bra LOOP;
    bar.sync 0;
    """ + store("r2")
    out, result = run(body)
    assert result.diagnostics == ()
    assert out.tolist() == [lane * (lane + 1) for lane in range(32)]


def test_a_lane_that_spins_on_another_lane() -> None:
    """The waiting lanes stand earlier in the text than the lane that releases them: a stack of divergent paths would hang."""
    body = """
    mov.u32 r1, buffer;
    setp.eq.u32 p, tid, 0;
    @p st.shared.u32 [r1], 0;
    bar.warp.sync -1;
    @p bra RELEASE;
SPIN:
    ld.acquire.cta.shared.u32 r2, [r1];
    setp.eq.u32 q, r2, 0;
    @q bra SPIN;
    bra DONE;
RELEASE:
    st.release.cta.shared.u32 [r1], 7;
    mov.u32 r2, 1;
DONE:
    """ + store("r2")
    out, result = run(body, shared=SHARED)
    assert result.diagnostics == ()
    assert out.tolist() == [1] + [7] * 31


def test_elect_after_an_elected_branch() -> None:
    """The pattern of CuTe: the elected lane joins the others at the next elect.sync."""
    body = """
    elect.sync r1|p, -1;
    mov.u32 r2, 0;
    @!p bra L;
    mov.u32 r2, 1;
L:
    elect.sync r3|q, -1;
    selp.u32 r4, 10, 0, q;
    add.u32 r4, r4, r2;
    """ + store("r4")
    out, result = run(body)
    assert result.diagnostics == ()
    assert out.tolist() == [11] + [0] * 31


def test_warp_barriers_at_different_places_meet() -> None:
    body = """
    mov.u32 r1, buffer;
    shl.b32 r3, lane, 2;
    add.u32 r1, r1, r3;
    setp.lt.u32 p, lane, 16;
    @p bra LOW;
    st.shared.u32 [r1], lane;
    bar.warp.sync -1;
    ld.shared.u32 r2, [r1+-64];
    bra DONE;
LOW:
    st.shared.u32 [r1], lane;
    bar.warp.sync -1;
    ld.shared.u32 r2, [r1+64];
DONE:
    """ + store("r2")
    out, result = run(body, shared=SHARED)
    assert result.diagnostics == ()
    assert out.tolist() == [(lane + 16) % 32 for lane in range(32)]


def test_predicated_collectives() -> None:
    """Lanes whose predicate is false go on, and may meet the others at a later instruction with the same members."""
    out, result = run("setp.lt.u32 p, lane, 5; @p bar.warp.sync -1; @!p bar.warp.sync -1;" + store("lane"))
    assert result.diagnostics == ()
    assert out.tolist() == list(range(32))
    _, result = run("setp.lt.u32 p, lane, 5; @p shfl.sync.idx.b32 r1, lane, 0, 31, -1; bar.sync 0;" + store("lane"))
    found = result.diagnostics[0]
    assert (found.code, found.message) == (
        "H605",
        "shfl.sync.idx.b32 is executed by lanes 0-4 only, and the other live lanes of the warp can never join them",
    )


def test_part_of_a_warp_at_aligned_barriers() -> None:
    body = """
    setp.lt.u32 p, lane, 16;
    @p bra LOW;
    bar.sync 0;
    bra DONE;
LOW:
    bar.sync 1;
DONE:
    """ + store("lane")
    _, result = run(body)
    found = result.diagnostics[0]
    assert found.code == "H605"
    assert found.message in (
        "bar.sync is executed by lanes 16-31 only, and the other live lanes of the warp can never join them",
        "bar.sync is executed by lanes 0-15 only, and the other live lanes of the warp can never join them",
    )


SPIN_ON_FLAG = """
    ld.param.u64 rd1, [flag];
    setp.eq.u32 p, cta, {last};
    @p st.release.gpu.global.u32 [rd1], 5;
SPIN:
    ld.acquire.gpu.global.u32 r2, [rd1];
    setp.eq.u32 q, r2, 0;
    {sleep}
    @q bra SPIN;
""" + store("r2")


@pytest.mark.parametrize("sleep", ["", "nanosleep.u32 100;"])
@pytest.mark.parametrize(("policy", "seed"), [("random", 3), pytest.param("eager", 0, marks=pytest.mark.sweep)])
def test_spinning_ctas_wait_for_a_later_one(sleep: str, policy: str, seed: int) -> None:
    flag = np.zeros(1, np.uint32)
    out, result = run(SPIN_ON_FLAG.format(last=7, sleep=sleep), 32, 8, params=", .param .u64 flag", args=(flag,), policy=policy, seed=seed)
    assert result.diagnostics == ()
    assert set(out.tolist()) == {5}
    assert flag[0] == 5


@pytest.mark.parametrize("sleep", [pytest.param("", marks=pytest.mark.sweep), "nanosleep.u32 100;"])
def test_spinning_on_a_cta_that_is_never_resident_hangs(sleep: str) -> None:
    started = time.process_time()
    flag = np.zeros(1, np.uint32)
    device = ptxlab.Device("sm_100a", sms=1, ctas_per_sm=4)
    _, result = run(SPIN_ON_FLAG.format(last=7, sleep=sleep), 32, 8, params=", .param .u64 flag", args=(flag,), device=device)
    assert [d.code for d in result.diagnostics] == ["H601"]
    assert result.diagnostics[0].message == "no warp can continue: 4 groups of converged lanes wait; 0 of 8 CTAs have ended"
    assert "spins: nothing that it reads changes any more" in str(result.diagnostics[0])
    assert not result.completed
    assert time.process_time() - started < 10


def test_a_missing_arrival_is_named() -> None:
    body = """
    .loc 1 42 5
    mov.u32 r1, bars;
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared.b64 [r1], 2;
    bar.sync 0;
    @p mbarrier.arrive.expect_tx.shared.b64 _, [r1], 4096;
LOOP:
    mbarrier.try_wait.parity.shared.b64 q, [r1], 0;
    @!q bra LOOP;
    """ + store("tid")
    out, result = run(body, 64, shared=SHARED, top='.file 1 "gemm.py"')
    assert [d.code for d in result.diagnostics] == ["H601"]
    found = result.diagnostics[0]
    assert found.message == (
        "no warp can continue: the mbarrier at shared offset 0x500 of CTA rank 0 is missing 4096 bytes and 1 arrivals; "
        "2 groups of converged lanes wait; 0 of 1 CTAs have ended"
    )
    assert found.source is not None
    assert str(found.source) == "gemm.py:42:5"
    assert found.excerpt.strip().startswith("mbarrier.try_wait.parity")
    names, text = next((n, t) for n, t in found.details if n.startswith("CTA (0, 0, 0) warp"))
    assert names == "CTA (0, 0, 0) warps 0-1 lanes 0-31"
    assert "waits for the phase of parity 0 to complete" in text
    assert "mbarrier: shared offset 0x500 of CTA rank 0" in text
    assert "current phase: 0 (parity 0), not completed" in text
    assert "pending arrivals: 1 of 2" in text
    assert "transaction bytes: +4096 still to come" in text
    assert ("mbarrier at shared offset 0x500 of CTA rank 0", "is missing 4096 bytes and 1 arrivals") in found.details
    assert found.fix == "issue the copy of the missing 4096 bytes, or let expect_tx announce what the copies bring (line 33 waits)"
    assert set(out.tolist()) == {0xDEAD}


def test_a_warp_that_skips_a_barrier() -> None:
    body = """
    setp.ge.u32 p, tid, 32;
    @p bra L;
    bar.sync 1, 64;
L:
    """ + store("tid")
    _, result = run(body, 64)
    assert "waits at barrier 1 [arrived: 32 of 64 threads]" in str(result.diagnostics[0])


def test_the_largest_grid_ends_at_the_budget() -> None:
    """More CTAs than fit in a signed 64-bit number, as the hardware permits."""
    result = kernel("").launch(grid=(2**31 - 1, 65535, 65535), block=32, args=[np.zeros(1, np.uint32)], max_instructions=10_000)
    assert [d.code for d in result.diagnostics] == ["H602"]
    assert f"of {(2**31 - 1) * 65535 * 65535} CTAs have ended" in result.diagnostics[0].message


def test_runaway_code_ends_at_the_budget() -> None:
    body = """
L:  add.u32 r1, r1, 1;
    bra L;
    """
    out, result = run("mov.u32 r1, 0;" + body + store("r1"), max_instructions=100_000)
    assert [d.code for d in result.diagnostics] == ["H602"]
    assert "more than its budget of 100000; 0 of 1 CTAs have ended" in result.diagnostics[0].message
    assert set(out.tolist()) == {0xDEAD}


def test_a_time_out_loop_ends_at_its_count() -> None:
    """A loop that counts failed waits is no hang; it comes to its end."""
    body = """
    mov.u32 r1, bars;
    mov.u32 r2, 0;
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared.b64 [r1], 1;
    bar.sync 0;
LOOP:
    add.u32 r2, r2, 1;
    mbarrier.try_wait.parity.shared.b64 q, [r1], 0, 1000;
    @q bra DONE;
    setp.lt.u32 t, r2, 50;
    @t bra LOOP;
DONE:
    """ + store("r2")
    out, result = run(body, shared=SHARED)
    assert result.diagnostics == ()
    assert set(out.tolist()) == {50}


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("heeds_interrupts")
def test_interrupt_ends_a_launch_within_a_second() -> None:
    import _thread

    at: list[tuple[float, float]] = []

    def interrupt() -> None:
        at.append((time.perf_counter(), time.process_time()))
        _thread.interrupt_main()

    out = np.zeros(32, np.uint32)
    endless = kernel("mov.u32 r1, 0; L: add.u32 r1, r1, 1; st.global.u32 [at], r1; bra L;")
    threading.Timer(0.7, interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        endless.launch(block=32, args=[out], max_instructions=1 << 60)
    wall, used = time.perf_counter() - at[0][0], time.process_time() - at[0][1]
    assert min(wall, used) < 1  # other work on this computer is not the launch's
    assert not out.any()
