"""Barriers, mbarriers and completion, in kernels."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from tests.machine.launch_helpers import kernel, run, store

SHOWS = {
    "test_dependent_launches_on_one_device": ("griddepcontrol.*",),
    "test_asynchronous_copies": ("cp.async.commit_group", "cp.async.wait_*"),
    "test_register_pool": ("setmaxnreg.*",),
}

EXCHANGE = """
    mov.u32 r1, buffer;
    shl.b32 r2, tid, 2;
    add.u32 r3, r1, r2;
    st.shared.u32 [r3], tid;
    {barrier}
    xor.b32 r2, r2, 384;
    add.u32 r3, r1, r2;
    ld.shared.u32 r4, [r3];
""" + store("r4")
BUFFER = ".shared .align 16 .b32 buffer[1024]; .shared .align 8 .b64 bars[4];"
POLICIES = [("eager", 0), ("lazy", 0), ("random", 1), ("random", 2)]


@pytest.mark.parametrize("barrier", ["bar.sync 0;", "barrier.sync 3;", "barrier.cta.sync.aligned 15, 128;", "bar.sync 1, 128;"])
@pytest.mark.parametrize(("policy", "seed"), POLICIES)
def test_all_warps_meet(barrier: str, policy: str, seed: int) -> None:
    out, result = run(EXCHANGE.format(barrier=barrier), 128, shared=BUFFER, policy=policy, seed=seed)
    assert result.diagnostics == ()
    assert out.tolist() == [t ^ 96 for t in range(128)]
    assert sum(result.stats.services.values()) == 4


def test_producers_arrive_and_consumers_wait() -> None:
    body = """
    setp.lt.u32 p, tid, 64;
    mov.u32 r1, buffer;
    @!p bra CONSUMER;
    st.shared.u32 [r1], 77;
    bar.arrive 2, 128;
    mov.u32 r4, 1;
    bra DONE;
CONSUMER:
    bar.sync 2, 128;
    ld.shared.u32 r4, [r1];
DONE:
    """ + store("r4")
    out, result = run(body, 128, shared=BUFFER)
    assert {found.code for found in result.diagnostics} <= {"X123"}
    assert out.tolist() == [1] * 64 + [77] * 64


def test_exited_warps_are_not_awaited() -> None:
    body = """
    setp.ge.u32 p, tid, 64;
    @p exit;
    bar.sync 0;
    """ + store("tid")
    out, result = run(body, 96, shared=BUFFER)
    assert result.diagnostics == ()
    assert out.tolist() == [*range(64), *[0xDEAD] * 32]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("bar.red.popc.u32 r4, 0, p;", 40),
        ("barrier.red.popc.u32 r4, 1, 128, !p;", 88),
        ("bar.red.or.pred q, 0, p; selp.u32 r4, 1, 0, q;", 1),
        ("bar.red.and.pred q, 0, p; selp.u32 r4, 1, 0, q;", 0),
    ],
)
def test_reductions(operation: str, expected: int) -> None:
    out, result = run(f"setp.lt.u32 p, tid, 40;\n{operation}\n" + store("r4"), 128)
    assert result.diagnostics == ()
    assert set(out.tolist()) == {expected}


INIT = """
    mov.u32 r1, bars;
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared::cta.b64 [r1], {count};
    @p fence.mbarrier_init.release.cluster;
    bar.sync 0;
"""
WAIT = """
{label}:
    mbarrier.try_wait.parity.shared::cta.b64 q, [r1], {parity};
    @!q bra {label};
"""


@pytest.mark.parametrize(("policy", "seed"), POLICIES)
def test_mbarrier_phases(policy: str, seed: int) -> None:
    rounds = "".join(
        f"mov.u32 r5, {i}; st.shared.u32 [buffer], r5; mbarrier.arrive.shared::cta.b64 state, [r1];\n"
        + WAIT.format(label=f"W{i}", parity=i & 1)
        for i in range(4)
    )
    out, result = run(
        INIT.format(count=64) + rounds + "ld.shared.u32 r4, [buffer];\n" + store("r4"), 64, shared=BUFFER, policy=policy, seed=seed
    )
    assert {found.code for found in result.diagnostics} <= {"X123"}
    assert set(out.tolist()) == {3}


def test_states_of_arrivals() -> None:
    body = (
        INIT.format(count=32)
        + """
    mbarrier.arrive.shared.b64 state, [r1];
    mbarrier.pending_count.b64 r4, state;
LOOP:
    mbarrier.test_wait.shared.b64 q, [r1], state;
    @!q bra LOOP;
    """
        + store("r4")
    )
    out, result = run(body, 32, shared=BUFFER)
    assert result.diagnostics == ()
    assert sorted(out.tolist()) == list(range(1, 33))


def test_transactions() -> None:
    body = (
        INIT.format(count=1)
        + """
    @p mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [r1], 128;
    @p mbarrier.arrive.expect_tx.shared::cta.b64 _, [r1], 256;
    mbarrier.test_wait.parity.shared::cta.b64 q, [r1], 0;
    selp.u32 r4, 1, 0, q;
    bar.sync 0;
    @p mbarrier.complete_tx.shared::cta.b64 [r1], 128;
    """
        + WAIT.format(label="W", parity=0)
        + store("r4")
    )
    out, result = run(body, 64, shared=BUFFER)
    assert result.diagnostics == ()
    assert set(out.tolist()) == {0}


def test_try_wait_may_fail_once_without_hanging() -> None:
    """One thread asks first and arrives itself afterwards: the time limit of try_wait lets it go on."""
    body = (
        INIT.format(count=1)
        + """
    @!p exit;
    mbarrier.try_wait.parity.shared::cta.b64 q, [r1], 0;
    selp.u32 r4, 1, 0, q;
    mbarrier.arrive.shared::cta.b64 _, [r1];
    """
        + WAIT.format(label="W", parity=0)
        + store("r4")
    )
    out, result = run(body, 32, shared=BUFFER)
    assert result.diagnostics == ()
    assert out[0] == 0


def test_remote_arrival_and_cluster_barrier() -> None:
    body = (
        """
    mov.u32 r1, bars;
    mov.u32 r2, %cluster_ctarank;
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared::cta.b64 [r1], 32;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    xor.b32 r3, r2, 1;
    mapa.shared::cluster.u32 r4, r1, r3;
    mov.u32 r6, buffer;
    mapa.shared::cluster.u32 r7, r6, r3;
    st.shared::cluster.u32 [r7], r2;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r4];
    """
        + WAIT.format(label="W", parity=0)
        + "ld.shared.u32 r8, [r6];\n"
        + store("r8")
        + """
    barrier.cluster.arrive.relaxed;
    barrier.cluster.wait;
    """
    )
    out, result = run(body, 32, 4, shared=BUFFER, cluster=2)
    assert result.diagnostics == ()
    assert out.reshape(4, 32)[:, 0].tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize(("policy", "seed"), POLICIES)
@pytest.mark.parametrize("wait", ["cp.async.wait_group 0;", "cp.async.wait_all;", "MBARRIER"])
def test_asynchronous_copies(policy: str, seed: int, wait: str) -> None:
    if wait == "MBARRIER":
        wait = "cp.async.mbarrier.arrive.noinc.shared.b64 [r1];" + WAIT.format(label="W", parity=0)
    else:
        wait = "cp.async.commit_group;" + wait
    body = (
        INIT.format(count=64)
        + f"""
    ld.param.u64 rd1, [source];
    mul.wide.u32 rd2, tid, 16;
    add.s64 rd1, rd1, rd2;
    mov.u32 r2, buffer;
    shl.b32 r3, tid, 4;
    add.u32 r3, r3, r2;
    cp.async.cg.shared.global [r3], [rd1], 16;
    {wait}
    bar.sync 0;
    shl.b32 r5, tid, 2;
    add.u32 r5, r5, r2;
    ld.shared.u32 r4, [r5];
    """
        + store("r4")
    )
    source = np.arange(256, dtype=np.uint32) * 3
    out, result = run(body, 64, shared=BUFFER, params=", .param .u64 source", args=(source,), policy=policy, seed=seed)
    assert result.diagnostics == ()
    assert out.tolist() == source[:64].tolist()


def test_lazy_copies_are_not_there_before_the_wait() -> None:
    body = (
        """
    ld.param.u64 rd1, [source];
    mov.u32 r2, buffer;
    st.shared.u32 [r2], 5;
    @p bra L;
L:  cp.async.ca.shared.global [r2], [rd1], 4;
    cp.async.commit_group;
    ld.shared.u32 r4, [r2];
    cp.async.wait_group 0;
    ld.shared.u32 r5, [r2];
    sub.u32 r4, r5, r4;
    """.replace("@p bra L;\nL:", "")
        + store("r4")
    )
    body = body.replace("@p bra L;", "").replace("L:  ", "")
    source = np.array([12], np.uint32)
    for policy, expected in (("eager", 0), ("lazy", 7)):
        out, result = run(body, 32, shared=BUFFER, params=", .param .u64 source", args=(source,), policy=policy)
        assert [d.code for d in result.diagnostics] == ["X111"]
        assert set(out.tolist()) == {expected}


def test_register_pool() -> None:
    """The warp that gives registers away lets the other one take them."""
    body = """
    setp.lt.u32 p, tid, 32;
    @p bra GIVE;
    setmaxnreg.inc.sync.aligned.u32 104;
    bra DONE;
GIVE:
    setmaxnreg.dec.sync.aligned.u32 24;
DONE:
    """ + store("tid")
    _, result = run(body, 64, directives=".maxnreg 64")
    assert result.diagnostics == ()
    _, result = run(body.replace("104", "112"), 64, directives=".maxnreg 64")
    assert result.diagnostics[0].code == "H601"
    assert "waits for 1536 registers" in str(result.diagnostics[0])
    _, result = run(body.replace("104", "112"), 64)
    assert [(d.code, d.severity) for d in result.diagnostics] == [("B518", "note")]
    assert result.ok


def test_aligned_instruction_under_a_mixed_predicate() -> None:
    _, result = run("setp.lt.u32 p, lane, 4; @p bar.sync 0;" + store("lane"))
    found = result.diagnostics[0]
    assert (found.code, found.message) == (
        "B517",
        "bar.sync is executed by lanes 0-3, but its predicate is false in lanes 4-31; it must be the same in the whole warp",
    )


MISUSE = [
    ("mbarrier.init.shared.b64 [bars+4], 1;", "B501", "an mbarrier object must be aligned to 8 bytes, shared offset 0x1404 is not"),
    ("mbarrier.init.shared.b64 [bars], 0;", "B504", "the expected arrival count of mbarrier.init is 0; it must be from 1 to 1048575"),
    (
        "mbarrier.arrive.shared.b64 state, [bars];",
        "B503",
        "there is no mbarrier object at shared offset 0x1400 of CTA rank 0: it was never initialised",
    ),
    (
        "mbarrier.init.shared.b64 [bars], 8; mbarrier.inval.shared.b64 [bars]; mbarrier.arrive.shared.b64 state, [bars];",
        "B514",
        "the mbarrier object at shared offset 0x1400 of CTA rank 0 was invalidated",
    ),
    (
        "mbarrier.init.shared.b64 [bars], 8; st.shared.u32 [bars], tid; mbarrier.arrive.shared.b64 state, [bars];",
        "B515",
        "the mbarrier object at shared offset 0x1400 of CTA rank 0 was overwritten by an ordinary store or a copy",
    ),
    (
        "mbarrier.init.shared.b64 [bars], 8; mbarrier.arrive.shared.b64 state, [bars], 9;",
        "B505",
        "9 arrivals on the mbarrier at shared offset 0x1400, but only 8 of 8 are pending in phase 0",
    ),
    (
        "mbarrier.init.shared.b64 [bars], 8; mbarrier.expect_tx.shared.b64 [bars], 1048575; mbarrier.expect_tx.shared.b64 [bars], 1;",
        "B506",
        "the transaction count of the mbarrier at shared offset 0x1400 becomes 1048576, outside -(2^20 - 1) to 2^20 - 1",
    ),
    ("bar.sync 16;", "B507", "barrier 16: a CTA has the barriers 0 to 15"),
    ("bar.sync 1, 48;", "B508", "barrier 1 is given a count of 48 threads; it must be a multiple of 32 from 32 to 1024"),
    ("barrier.cluster.wait;", "B512", "barrier.cluster.wait, but these threads have not arrived"),
    (
        "barrier.cluster.arrive; barrier.cluster.arrive;",
        "B511",
        "barrier.cluster.arrive, but these threads have not yet waited for their last arrival",
    ),
    ("setmaxnreg.dec.sync.aligned.u32 20;", "B513", "setmaxnreg to 20 registers; it must be a multiple of 8 from 24 to 256"),
    ("brkpt;", "H604", "the kernel executed brkpt"),
    ("trap;", "H603", "the kernel executed trap"),
    (
        "mbarrier.init.shared.b64 [bars], 8; mov.u32 r1, bars; add.u32 r1, r1, 0x1000000; mbarrier.arrive.shared.b64 state, [r1];",
        "M407",
        "the address 0x1001400 names CTA rank 1 of a cluster of 1",
    ),
]


@pytest.mark.parametrize(("body", "code", "message"), MISUSE)
def test_misuse(body: str, code: str, message: str) -> None:
    first = "setp.ne.u32 p, tid, 0; @p exit;" if "init" in body else ""
    out, result = run(f"{first}\n{body}\n" + store("tid"), 64, shared=BUFFER)
    assert not result.ok
    found = result.diagnostics[0]
    assert (found.code, found.message) == (code, message)
    assert found.place is not None
    assert found.excerpt
    assert set(out.tolist()) == {0xDEAD}


@pytest.mark.parametrize(("policy", "seed"), POLICIES)
def test_dependent_launches_on_one_device(policy: str, seed: int) -> None:
    """A launch sees everything of the one before, wherever that lets its dependents start."""
    body = """
    griddepcontrol.wait;
    ld.global.u32 r4, [at];
    griddepcontrol.launch_dependents;
    mad.lo.u32 r4, r4, 3, tid;
    """ + store("r4")
    device = ptxlab.Device("sm_100a")
    buffer = device.array(np.ones(64, np.uint32))
    for _ in range(3):
        kernel(body).launch(grid=2, block=32, args=[buffer], device=device, policy=policy, seed=seed).raise_for_errors()
    assert buffer.numpy().tolist() == [27 + 13 * (t % 32) for t in range(64)]
