"""st.async, red.async and st.bulk between the CTAs of a cluster."""

from __future__ import annotations

import numpy as np
import pytest

from tests.machine.launch_helpers import run, store

SHOWS = {
    "test_global_memory": ("st.async{.mmio}.release.*", "red.async{.mmio}.release.*"),
    "test_zeros": ("st.bulk*",),
}

SHARED = ".shared .align 16 .b32 buffer[256]; .shared .align 8 .b64 bar;"
POLICIES = [("eager", 0), ("lazy", 0), ("random", 3)]
EXCHANGE = """
    mov.u32 r1, buffer;
    mov.u32 r2, bar;
    mov.u32 r3, %cluster_ctarank;
    shl.b32 r4, tid, 4;
    add.u32 r5, r1, r4;
    {prepare}
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared::cta.b64 [r2], 1;
    @p mbarrier.arrive.expect_tx.shared::cta.b64 _, [r2], {bytes};
    @p fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    xor.b32 r3, r3, 1;
    mapa.shared::cluster.u32 r6, r5, r3;
    mapa.shared::cluster.u32 r7, r2, r3;
    mov.u32 r3, %cluster_ctarank;
    mad.lo.u32 r8, r3, 1000, tid;
    {instruction}
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 q, [r2], 0;
    @!q bra WAIT;
    ld.shared.u32 r9, [r5{offset}];
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""
VECTOR = "add.u32 r10, r8, 1; add.u32 r11, r8, 2; add.u32 r12, r8, 3;"
COMPLETE = "shared::cluster.mbarrier::complete_tx::bytes"
STORES = [
    (f"st.async.weak.{COMPLETE}.u32 [r6], r8, [r7];", 4, 0, 0),
    (f"cvt.u64.u32 rd1, r8; st.async.{COMPLETE}.b64 [r6], rd1, [r7];", 8, 0, 0),
    (f"{VECTOR} st.async.{COMPLETE}.v2.b32 [r6], {{r8, r10}}, [r7];", 8, 4, 1),
    (f"{VECTOR} st.async.{COMPLETE}.v4.s32 [r6], {{r8, r10, r11, r12}}, [r7];", 16, 12, 3),
]


@pytest.mark.parametrize(("policy", "seed"), POLICIES)
@pytest.mark.parametrize(("instruction", "size", "offset", "more"), STORES)
def test_stores(instruction: str, size: int, offset: int, more: int, policy: str, seed: int) -> None:
    body = EXCHANGE.format(prepare="", bytes=16 * size, instruction=instruction, offset=f"+{offset}") + store("r9")
    out, result = run(body, 16, 2, shared=SHARED, cluster=2, policy=policy, seed=seed)
    assert result.diagnostics == ()
    assert out.reshape(2, 16).tolist() == [[1000 * (1 - rank) + t + more for t in range(16)] for rank in range(2)]


REDUCTIONS = {
    "inc.u32": lambda old, new: 0 if old >= new else old + 1,
    "dec.u32": lambda old, new: new if old == 0 or old > new else old - 1,
    "min.u32": min,
    "max.s32": max,
    "add.s32": lambda old, new: old + new,
    "and.b32": lambda old, new: old & new,
    "or.b32": lambda old, new: old | new,
    "xor.b32": lambda old, new: old ^ new,
}


@pytest.mark.parametrize(("policy", "seed"), POLICIES)
@pytest.mark.parametrize("operation", REDUCTIONS)
def test_reductions(operation: str, policy: str, seed: int) -> None:
    body = EXCHANGE.format(
        prepare="add.u32 r10, tid, 500; st.shared.u32 [r5], r10;",
        bytes=64,
        instruction=f"red.async.relaxed.cluster.{COMPLETE}.{operation} [r6], r8, [r7];",
        offset="",
    ) + store("r9")
    out, result = run(body, 16, 2, shared=SHARED, cluster=2, policy=policy, seed=seed)
    assert result.diagnostics == ()
    combine = REDUCTIONS[operation]
    assert out.reshape(2, 16).tolist() == [[combine(500 + t, 1000 * (1 - rank) + t) for t in range(16)] for rank in range(2)]


def test_global_memory() -> None:
    body = "st.async.release.gpu.global.u32 [at], tid; red.async.release.sys.global.add.u32 [at], 7;"
    out, result = run(body, 32)
    assert result.diagnostics == ()
    assert out.tolist() == [t + 7 for t in range(32)]


def test_zeros() -> None:
    body = """
    mov.u32 r1, buffer;
    shl.b32 r4, tid, 2;
    add.u32 r5, r1, r4;
    st.shared.u32 [r5], 9;
    bar.sync 0;
    setp.eq.u32 p, tid, 5;
    @p st.bulk.weak.shared::cta [buffer+8], 32, 0;
    bar.sync 0;
    ld.shared.u32 r9, [r5];
    """ + store("r9")
    out, result = run(body, 64, shared=SHARED)
    assert result.diagnostics == ()
    assert out.tolist() == [0 if 2 <= t < 10 else 9 for t in range(64)]


REFUSED = [
    ("st.bulk [buffer], 12, 0;", "C902", "the size is 12 bytes, not a multiple of 8"),
    ("st.bulk [buffer], 16, 1;", "C902", "the initial value of st.bulk must be 0"),
    ("st.async.release.gpu.global.b64 [at+4], rd1;", "C901", None),
]


@pytest.mark.parametrize(("body", "code", "message"), REFUSED)
def test_refusals(body: str, code: str, message: str | None) -> None:
    _, result = run("mov.b64 rd1, 0; setp.ne.u32 p, tid, 0; @p exit; " + body, 32, shared=SHARED)
    found = result.diagnostics[0]
    assert found.code == code
    assert message is None or found.message == message


def test_cache_control_changes_nothing() -> None:
    body = """
    discard.global.L2 [at], 128;
    prefetch.global.L2::evict_last [at];
    createpolicy.fractional.L2::evict_last.L2::evict_first.b64 rd1, 0.5;
    applypriority.global.L2::evict_normal [at], 128;
    """ + store("tid")
    out, result = run(body, 32)
    assert result.diagnostics == ()
    assert np.array_equal(out, np.arange(32))
