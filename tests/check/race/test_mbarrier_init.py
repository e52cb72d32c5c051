"""An mbarrier object is used by whom something orders with its initialisation."""

from __future__ import annotations

from typing import Any

import pytest

from .small_kernels import SCHEDULES, found, launch

OWN = """
setp.eq.u32 %p3, %r1, {user};
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
{order}
@%p3 {use};
"""
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%r7]"
WAIT = "mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r7], 1"
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 0"


@pytest.mark.parametrize("use", [ARRIVE, WAIT, EXPECT])
def test_within_a_cta(use: str) -> None:
    result = launch(OWN.format(user=32, order="", use=use))
    assert found(result) == [("X120", f"@%p3 {use};")]
    assert found(launch(OWN.format(user=32, order="bar.sync 0;", use=use))) == []
    assert found(launch(OWN.format(user=0, order="", use=use))) == [], "one warp needs no barrier"


def test_the_report() -> None:
    (finding,) = launch(OWN.format(user=32, order="", use=ARRIVE)).diagnostics
    assert finding.message == (
        "mbarrier.arrive uses the mbarrier at shared offset 0x400 of CTA (0, 0, 0), which mbarrier.init at line 18 initialises, "
        "and nothing orders the two"
    )
    assert finding.fix == "insert bar.sync 0 after line 18, which all threads pass before line 20"
    assert dict(finding.details)["earlier"] == "warp 0 of CTA (0, 0, 0): line 18: @%p1 mbarrier.init.shared::cta.b64 [%r7], 1;"


WORD_BEFORE = """
st.shared.b32 [%r7], 0;
bar.sync 0;
ld.shared.b32 %r5, [%r7];
mad.wide.u32 %rd2, %r1, 4, %rd1;
st.global.u32 [%rd2], %r5;
{order}
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
"""


@pytest.mark.parametrize("schedule", SCHEDULES[:2])
def test_it_overwrites_what_was_there(schedule: dict[str, Any]) -> None:
    (finding,) = (d for d in launch(WORD_BEFORE.format(order=""), **schedule).diagnostics if d.severity != "note")
    assert finding.code == "X101"
    assert finding.message == (
        "mbarrier.init writes shared memory bytes 0x400-0x403 of CTA (0, 0, 0), which ld.shared at line 19 reads, "
        "and nothing orders the two threads"
    )
    assert found(launch(WORD_BEFORE.format(order="bar.sync 0;"), **schedule)) == []


COPY = """
setp.eq.u32 %p3, %r1, 32;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 128;
{order}
@%p3 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 128, [%r7];
bar.sync 0;
AWAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
@!%p2 bra AWAIT;
"""


@pytest.mark.parametrize("schedule", SCHEDULES[:2])
def test_a_copy_that_completes_on_it(schedule: dict[str, Any]) -> None:
    line = "@%p3 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 128, [%r7];"
    assert found(launch(COPY.format(order=""), **schedule)) == [("X120", line)]
    assert found(launch(COPY.format(order="bar.sync 0;"), **schedule)) == []


REMOTE = """
mapa.shared::cluster.u32 %r3, %r7, 1;
mov.u32 %r4, %cluster_ctarank;
setp.eq.u32 %p2, %r4, 0;
and.pred %p2, %p2, %p1;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
{order}
@%p2 mbarrier.arrive.shared::cluster.b64 _, [%r3];
setp.eq.u32 %p3, %r4, 1;
@!%p3 bra DONE;
bar.sync 0;
AWAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
@!%p2 bra AWAIT;
DONE:
barrier.cluster.arrive.relaxed;
barrier.cluster.wait;
"""
FENCE = "fence.mbarrier_init.release.cluster;"
MEET, RELAXED = ("barrier.cluster.arrive;\nbarrier.cluster.wait;", "barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("order", "clean"),
    [
        (f"{FENCE}\n{RELAXED}", True),
        (f"{FENCE}\n{MEET}", True),
        (f"fence.acq_rel.cluster;\n{RELAXED}", True),
        (RELAXED, False),
        (MEET, True),
        (f"fence.acq_rel.cta;\n{RELAXED}", False),
    ],
)
def test_across_ctas(order: str, clean: bool, schedule: dict[str, Any]) -> None:
    result = launch(REMOTE.format(order=order), grid=2, cluster=2, **schedule)
    assert found(result) == ([] if clean else [("X120", "@%p2 mbarrier.arrive.shared::cluster.b64 _, [%r3];")])
    if not clean:
        assert result.diagnostics[0].fix.startswith("insert fence.mbarrier_init.release.cluster after line 21")
