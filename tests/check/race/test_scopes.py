"""Release and acquire: who learns of what, by scope, fence and relaxed order."""

from __future__ import annotations

from typing import Any

import pytest

from .small_kernels import SCHEDULES, found, launch

PASSED = """
mov.u32 %r3, %ctaid.x;
mov.u32 %r4, %warpid;
setp.eq.u32 %p3, %r3, {reader};
setp.eq.u32 %p4, %r4, {warp};
setp.eq.u32 %p5, %r1, 0;
setp.eq.u32 %p6, %r3, 0;
and.pred %p5, %p5, %p6;
@!%p5 bra READ;
st.global.u32 [%rd1], 7;
{release}
READ:
and.pred %p3, %p3, %p4;
@!%p3 bra DONE;
WAIT:
{acquire}
setp.ne.u32 %p2, %r5, 1;
@%p2 bra WAIT;
{behind}
ld.global.u32 %r6, [%rd1];
st.global.u32 [%rd1+8], %r6;
DONE:
"""
FLAG = "[%rd1+4]"


def passing(release: str, acquire: str, reader: int = 1, warp: int = 0, behind: str = "", cluster: int = 1) -> list[tuple[str, str]]:
    body = PASSED.format(reader=reader, warp=warp, release=release, acquire=acquire, behind=behind)
    return found(launch(body, grid=2, cluster=cluster))


@pytest.mark.parametrize(
    ("release", "acquire", "cluster", "clean"),
    [
        ("gpu", "gpu", 1, True),
        ("sys", "gpu", 1, True),
        ("cta", "cta", 1, False),
        ("gpu", "cta", 1, False),
        ("cta", "gpu", 1, False),
        ("cluster", "gpu", 1, False),
        ("gpu", "cluster", 1, False),
        ("cluster", "cluster", 2, True),
        ("cluster", "gpu", 2, True),
        ("gpu", "cluster", 2, True),
        ("cta", "cluster", 2, False),
        ("cluster", "cta", 2, False),
    ],
)
def test_a_flag_between_ctas(release: str, acquire: str, cluster: int, clean: bool) -> None:
    load = f"ld.acquire.{acquire}.global.u32 %r5, {FLAG};"
    findings = passing(f"st.release.{release}.global.u32 {FLAG}, 1;", load, cluster=cluster)
    assert findings == ([] if clean else [("X122", load), ("X114", "ld.global.u32 %r6, [%rd1];")])


@pytest.mark.parametrize("release", ["cta", "cluster", "gpu", "sys"])
@pytest.mark.parametrize("acquire", ["cta", "cluster", "gpu", "sys"])
def test_within_a_cta_every_scope_is_wide_enough(release: str, acquire: str) -> None:
    write, read = f"st.release.{release}.global.u32 {FLAG}, 1;", f"ld.acquire.{acquire}.global.u32 %r5, {FLAG};"
    assert passing(write, read, reader=0, warp=1) == []


@pytest.mark.parametrize(
    ("fence", "store", "load", "behind", "clean"),
    [
        ("fence.acq_rel.gpu", "relaxed.gpu", "relaxed.gpu", "fence.acq_rel.gpu", True),
        ("membar.gl", "volatile", "volatile", "membar.gl", True),
        ("fence.release.sync_restrict::shared::cta.cluster", "relaxed.gpu", "relaxed.gpu", "fence.acq_rel.gpu", False),
        ("fence.acq_rel.cta", "relaxed.gpu", "relaxed.gpu", "fence.acq_rel.gpu", False),
        ("fence.acq_rel.gpu", "relaxed.gpu", "relaxed.gpu", "fence.acq_rel.cta", False),
        ("fence.acq_rel.gpu", "relaxed.cta", "relaxed.gpu", "fence.acq_rel.gpu", False),
        ("fence.acq_rel.gpu", "relaxed.gpu", "relaxed.gpu", "", False),
        ("", "relaxed.gpu", "relaxed.gpu", "fence.acq_rel.gpu", False),
        ("fence.mbarrier_init.release.cluster", "relaxed.gpu", "relaxed.gpu", "fence.acq_rel.gpu", False),
        ("fence.proxy.async", "relaxed.gpu", "relaxed.gpu", "fence.acq_rel.gpu", False),
        ("membar.cta", "volatile", "volatile", "membar.gl", False),
    ],
)
def test_fences_between_ctas(fence: str, store: str, load: str, behind: str, clean: bool) -> None:
    release = f"{fence};\nst.{store}.global.u32 {FLAG}, 1;" if fence else f"st.{store}.global.u32 {FLAG}, 1;"
    read = f"ld.{load}.global.u32 %r5, {FLAG};"
    findings = passing(release, read, behind=f"{behind};" if behind else "")
    flag = [("X122", read)] if ".cta" in store else []
    assert findings == ([] if clean else [*flag, ("X114", "ld.global.u32 %r6, [%rd1];")])


MEET = """
mapa.shared::cluster.u32 %r3, %r2, 1;
mov.u32 %r4, %cluster_ctarank;
setp.eq.u32 %p2, %r4, 0;
and.pred %p2, %p2, %p1;
setp.eq.u32 %p3, %r4, 1;
and.pred %p3, %p3, %p1;
@%p2 st.shared::cluster.u32 [%r3], 7;
{fence}
barrier.cluster.arrive.{order};
barrier.cluster.wait;
@%p3 ld.shared.u32 %r5, [%r2];
barrier.cluster.arrive.relaxed;
barrier.cluster.wait;
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("order", "fence", "clean"),
    [
        ("release", "", True),
        ("relaxed", "", False),
        ("relaxed", "fence.acq_rel.cluster;", True),
        ("relaxed", "fence.acq_rel.cta;", False),
        ("relaxed", "fence.mbarrier_init.release.cluster;", False),
    ],
)
def test_the_cluster_barrier(order: str, fence: str, clean: bool, schedule: dict[str, Any]) -> None:
    result = launch(MEET.format(order=order, fence=fence), grid=2, cluster=2, **schedule)
    assert found(result) == ([] if clean else [("X101", "@%p3 ld.shared.u32 %r5, [%r2];")])


ARRIVED = """
setp.eq.u32 %p3, %r1, 32;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
bar.sync 0;
@!%p1 bra READ;
st.shared.u32 [%r2], 7;
{arrive} _, [%r7];
READ:
@!%p3 bra DONE;
WAIT:
{wait} %p2, [%r7], 0;
@!%p2 bra WAIT;
{behind}
ld.shared.u32 %r5, [%r2];
st.global.u32 [%rd1], %r5;
DONE:
"""


@pytest.mark.parametrize(
    ("arrive", "wait", "behind", "clean"),
    [
        ("", "", "", True),
        (".release.cta", ".acquire.cta", "", True),
        (".relaxed.cta", "", "", False),
        ("", ".relaxed.cta", "", False),
        ("", ".relaxed.cta", "fence.acq_rel.cta;", True),
    ],
)
def test_an_mbarrier_carries_what_its_order_says(arrive: str, wait: str, behind: str, clean: bool) -> None:
    body = ARRIVED.format(
        arrive=f"mbarrier.arrive{arrive}.shared::cta.b64", wait=f"mbarrier.try_wait.parity{wait}.shared::cta.b64", behind=behind
    )
    assert found(launch(body)) == ([] if clean else [("X101", "ld.shared.u32 %r5, [%r2];")])
