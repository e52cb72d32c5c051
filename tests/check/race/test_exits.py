"""What is under way when a CTA exits is found whenever it happens to be complete."""

from __future__ import annotations

from typing import Any

import pytest

from .small_kernels import FILL, SCHEDULES, WGMMA, found, launch

JOIN = "barrier.cluster.arrive{0};\nbarrier.cluster.wait;"
CLUSTER = """
mapa.shared::cluster.u32 %r3, %r2, 1;
mapa.shared::cluster.u32 %r5, %r7, 1;
mov.u32 %r4, %cluster_ctarank;
setp.eq.u32 %p2, %r4, 0;
and.pred %p2, %p2, %p1;
setp.eq.u32 %p3, %r4, 1;
and.pred %p3, %p3, %p1;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.relaxed;
barrier.cluster.wait;
@!%p2 bra DONE;
{use}
DONE:
{end}
"""
STORE, ARRIVE = "st.shared::cluster.u32 [%r3], 7;", "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];"
AWAITED = "@!%p3 bra EXIT;\nAWAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [%r7], 0;\n@!%p4 bra AWAIT;\nEXIT:"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("use", [STORE, ARRIVE])
def test_another_cta_uses_shared_memory(use: str, schedule: dict[str, Any]) -> None:
    """sglang#32907, triton#10656: the last barrier of the cluster is missing."""
    options = {"grid": 2, "cluster": 2, **schedule}
    assert found(launch(CLUSTER.format(use=use, end=""), **options)) == [("M407", use)]
    for order in ("", ".relaxed"):
        assert found(launch(CLUSTER.format(use=use, end=JOIN.format(order)), **options)) == []
    assert found(launch(CLUSTER.format(use=f"{STORE}\n{ARRIVE}", end=AWAITED), **options)) == []
    relaxed = ARRIVE.replace("release", "relaxed")
    assert found(launch(CLUSTER.format(use=relaxed, end=AWAITED.replace("acquire", "relaxed")), **options)) == []
    assert found(launch(CLUSTER.format(use=relaxed, end=""), **options)) == [("M407", relaxed)]


def test_the_report() -> None:
    (finding,) = launch(CLUSTER.format(use=STORE, end=""), grid=2, cluster=2).diagnostics
    assert finding.message == (
        "st.shared::cluster of CTA (0, 0, 0) uses the shared memory of CTA (1, 0, 0), which may have exited by then: nothing orders the two"
    )
    assert finding.fix == "insert barrier.cluster.arrive and barrier.cluster.wait after line 29, before the CTAs of the cluster exit"


COPY = "cp.async.ca.shared.global [%r2], [%rd1], 16;"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("end", "clean"),
    [
        ("", False),
        ("cp.async.commit_group;", False),
        ("cp.async.commit_group;\ncp.async.wait_group 1;", False),
        ("cp.async.commit_group;\ncp.async.commit_group;\ncp.async.wait_group 1;", True),
        ("cp.async.commit_group;\ncp.async.wait_group 0;", True),
        ("cp.async.wait_all;", True),
    ],
)
def test_cp_async(end: str, clean: bool, schedule: dict[str, Any]) -> None:
    result = launch(f"@%p1 {COPY}\n{end}", block=32, **schedule)
    assert found(result) == ([] if clean else [("X116", f"@%p1 {COPY}")])
    if not clean:
        wait = "cp.async.wait_all" if end else "cp.async.commit_group and cp.async.wait_group 0, or cp.async.wait_all,"
        assert result.diagnostics[0].fix == f"insert {wait} before the threads exit"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("pending", "read", "clean"), [(0, 256, True), (1, 0, True), (1, 256, False), (2, 0, False)])
def test_groups_are_numbered_between_copies(pending: int, read: int, clean: bool, schedule: dict[str, Any]) -> None:
    """Rows of copies before and after commit_group may be drained together: those of the group that is not awaited are in flight."""
    copies = "cp.async.ca.shared.global [%r2], [%rd1], 16;\ncp.async.commit_group;\n"
    later = "cp.async.ca.shared.global [%r2+256], [%rd1], 16;\ncp.async.commit_group;\n"
    use = f"cp.async.wait_group {pending};\nld.shared.u32 %r3, [%r2+{read}];\ncp.async.wait_all;"
    result = launch(f"@!%p1 bra DONE;\n{copies}{later}{use}\nst.global.u32 [%rd1], %r3;\nDONE:", block=32, **schedule)
    assert (found(result) == []) is clean, result.diagnostics


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "end", ["", "wgmma.commit_group.sync.aligned;", "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"]
)
def test_wgmma(end: str, schedule: dict[str, Any]) -> None:
    result = launch(FILL + WGMMA + end, target="sm_90a", block=128, **schedule)
    assert [code for code, _ in found(result)] == ([] if "wait" in end else ["X116"])
    if "wait" not in end:
        assert result.diagnostics[0].fix == "insert wgmma.commit_group and wgmma.wait_group 0 before the threads exit"


REMOTE_STORE = """
mov.u32 %r4, %cluster_ctarank;
setp.eq.u32 %p2, %r4, 0;
and.pred %p2, %p2, %p1;
mapa.shared::cluster.u32 %r3, %r2, 1;
mapa.shared::cluster.u32 %r5, %r7, 1;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 4;
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.relaxed;
barrier.cluster.wait;
@%p2 st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r3], 7, [%r5];
setp.eq.u32 %p3, %r4, 1;
{end}
barrier.cluster.arrive.relaxed;
barrier.cluster.wait;
"""
AWAIT = "@!%p3 bra EXIT;\nAWAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [%r7], 0;\n@!%p4 bra AWAIT;\nEXIT:"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_st_async(schedule: dict[str, Any]) -> None:
    line = "@%p2 st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r3], 7, [%r5];"
    codes = found(launch(REMOTE_STORE.format(end=""), grid=2, cluster=2, **schedule))
    assert ("X116", line) in codes
    assert {found_line for _, found_line in codes} == {line}
    assert found(launch(REMOTE_STORE.format(end=AWAIT), grid=2, cluster=2, **schedule)) == []
