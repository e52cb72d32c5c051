"""Strong accesses of two CTAs: no race only if the scope of each includes the other's thread."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from .small_kernels import SCHEDULES, found, launch

BOTH = "@%p1 {access}"
ATOM, RED = "atom.{scope}.global.add.u32 %r5, [%rd1], 1;", "red.relaxed.{scope}.global.add.u32 [%rd1], 1;"
STORE, LOAD = "st.relaxed.{scope}.global.u32 [%rd1], 1;", "ld.relaxed.{scope}.global.u32 %r5, [%rd1];"
APART = """
mov.u32 %r3, %ctaid.x;
setp.eq.u32 %p2, %r3, 0;
and.pred %p2, %p2, %p1;
setp.eq.u32 %p3, %r3, 1;
and.pred %p3, %p3, %p1;
@%p2 {first}
{between}
@%p3 {second}
@%p3 st.global.u32 [%rd1+8], %r5;
"""
MEET = "barrier.cluster.arrive;\nbarrier.cluster.wait;"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("access", [ATOM, RED, STORE])
@pytest.mark.parametrize(
    ("scope", "cluster", "wide"),
    [("cta", 1, False), ("cluster", 1, False), ("gpu", 1, True), ("sys", 1, True), ("cta", 2, False), ("cluster", 2, True)],
)
def test_two_ctas_do_the_same(access: str, scope: str, cluster: int, wide: bool, schedule: dict[str, Any]) -> None:
    text = BOTH.format(access=access.format(scope=scope))
    result = launch(text, block=32, grid=2, cluster=cluster, **schedule)
    assert found(result) == ([] if wide else [("X122", text)])
    if not wide:
        needed = ".gpu, or .sys" if cluster == 1 else ".cluster"
        assert result.diagnostics[0].fix == f"widen the scope of line 16 to {needed}"


def test_the_report() -> None:
    first, second = STORE.format(scope="cta"), LOAD.format(scope="cluster")
    (finding,) = launch(APART.format(first=first, second=second, between=""), block=32, grid=2).diagnostics
    assert finding.message == (
        "ld.relaxed reads bytes 0x0-0x3 of argument 0 (a), which st.relaxed at line 22 writes, "
        "and the scope of lines 22 and 24 does not include the other's thread"
    )
    assert finding.fix == "widen the scope of lines 22 and 24 to .gpu, or .sys"
    assert dict(finding.details)["later"] == "lanes 0 of warp 0 of CTA (1, 0, 0)"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("one", "other"), list(itertools.product(["cta", "cluster", "gpu"], repeat=2)))
def test_both_scopes_count(one: str, other: str, schedule: dict[str, Any]) -> None:
    body = APART.format(first=ATOM.format(scope=one), second=ATOM.format(scope=other), between="")
    options = {"block": 32, "grid": 2, "cluster": 2, **schedule}
    assert [code for code, _ in found(launch(body, **options))] == (["X122"] if "cta" in (one, other) else [])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_order_makes_any_scope_good(schedule: dict[str, Any]) -> None:
    body = APART.format(first=ATOM.format(scope="cta"), second=ATOM.format(scope="cta"), between="{}")
    assert found(launch(body.format(MEET), block=32, grid=2, cluster=2, **schedule)) == []
    assert [code for code, _ in found(launch(body.format(""), block=32, grid=2, cluster=2, **schedule))] == ["X122"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_threads_of_one_cta(schedule: dict[str, Any]) -> None:
    """Four warps of each CTA add to an element of their CTA's own, in global and in shared memory."""
    body = """
    mov.u32 %r3, %ctaid.x;
    mad.wide.u32 %rd2, %r3, 4, %rd1;
    @%p1 st.shared.u32 [%r2], 0;
    bar.sync 0;
    atom.relaxed.cta.global.add.u32 %r5, [%rd2], 1;
    atom.acq_rel.cta.shared.add.u32 %r5, [%r2], 1;
    """
    for cluster in (1, 2):
        assert found(launch(body, block=128, grid=2, cluster=cluster, **schedule)) == []


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_shared_memory_of_a_cluster(schedule: dict[str, Any]) -> None:
    body = f"""
    @%p1 st.shared.u32 [%r2], 0;
    mapa.shared::cluster.u32 %r3, %r2, 0;
    {MEET}
    @%p1 atom.SCOPE.shared::cluster.add.u32 %r5, [%r3], 1;
    {MEET}
    """
    options = {"block": 32, "grid": 2, "cluster": 2, **schedule}
    assert [code for code, _ in found(launch(body.replace("SCOPE", "cta"), **options))] == ["X122"]
    assert found(launch(body.replace("SCOPE", "cluster"), **options)) == []


CHAIN = """
mov.u32 %r3, %ctaid.x;
mov.u32 %r4, %warpid;
setp.eq.u32 %p2, %r3, 0;
setp.eq.u32 %p3, %r4, 1;
@!%p2 bra READ;
@%p3 bra SECOND;
{first}
bra MEET;
SECOND: nanosleep.u32 100000;
{first}
MEET: {between}
@!%p3 bra DONE;
st.release.gpu.global.u32 [%rd1+4], 1;
bra DONE;
READ: ld.acquire.gpu.global.u32 %r5, [%rd1+4];
setp.eq.u32 %p4, %r5, 0;
@%p4 bra READ;
ld.global.u32 %r6, [%rd1];
st.global.u32 [%rd1+8], %r6;
DONE:
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_another_warp_of_the_cta_has_done_is_not_forgotten(schedule: dict[str, Any]) -> None:
    """Two warps add; the second tells another CTA of it, with and without a barrier that it has passed with the first one."""
    first = "atom.relaxed.cta.global.add.u32 %r5, [%rd1], 1;"
    options = {"block": 64, "grid": 2, "words": 64, **schedule}
    assert found(launch(CHAIN.format(first=first, between="bar.sync 0;"), **options)) == []
    assert ("X114", "ld.global.u32 %r6, [%rd1];") in found(launch(CHAIN.format(first=first, between=""), **options))
