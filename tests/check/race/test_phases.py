"""A phase must not be over before all that wait for the one before have seen it."""

from __future__ import annotations

from typing import Any

import pytest

from .small_kernels import FILL, SCHEDULES, WGMMA, found, launch

LOOP = """
mov.b32 %r8, free;
setp.eq.u32 %p3, %r1, 32;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
@%p1 mbarrier.init.shared::cta.b64 [%r8], 1;
bar.sync 0;
mov.u32 %r3, 0;
@%p1 bra PRODUCE;
@%p3 bra CONSUME;
bra DONE;
PRODUCE:
{early}
mbarrier.arrive.shared::cta.b64 _, [%r7];
{late}
add.u32 %r3, %r3, 1;
setp.lt.u32 %p4, %r3, 4;
@%p4 bra PRODUCE;
bra DONE;
CONSUME:
and.b32 %r4, %r3, 1;
FULL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r4;
@!%p2 bra FULL;
mbarrier.arrive.shared::cta.b64 _, [%r8];
add.u32 %r3, %r3, 1;
setp.lt.u32 %p4, %r3, 4;
@%p4 bra CONSUME;
DONE:
"""
FREE = "and.b32 %r4, %r3, 1;\nxor.b32 %r4, %r4, {first};\nFREE: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], %r4;\n@!%p2 bra FREE;"
THREE = """
mov.u32 %r8, %warpid;
setp.eq.u32 %p3, %r8, 0;
setp.eq.u32 %p4, %r8, 1;
setp.eq.u32 %p5, %r1, 64;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
bar.sync 0;
@%p4 bra LOOK;
@%p1 mbarrier.arrive.shared::cta.b64 _, [%r7];
bar.sync 1, {threads};
@%p5 mbarrier.arrive.shared::cta.b64 _, [%r7];
bra DONE;
LOOK:
FULL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
@!%p2 bra FULL;
{meet}
DONE:
"""
WAIT = "FULL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_producer_that_waits_for_the_consumer(schedule: dict[str, Any]) -> None:
    assert found(launch(LOOP.format(early=FREE.format(first=1), late=""), **schedule)) == []
    assert found(launch(LOOP.format(early="", late=FREE.format(first=0)), **schedule)) == []


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_second_phase_that_nobody_keeps_back(schedule: dict[str, Any]) -> None:
    """Where the second arrival happens to be late the kernel ends, and is wrong nevertheless; else the wait goes on for ever."""
    findings = found(launch(THREE.format(threads=64, meet=""), block=96, **schedule))
    assert findings in ([("B519", WAIT)], [("H601", WAIT)])
    assert findings[0][0] == "B519" or schedule["policy"] == "random"
    assert found(launch(THREE.format(threads=96, meet="bar.sync 1, 96;"), block=96, **schedule)) == []


RELAXED = {"try_wait.parity.": "try_wait.parity.relaxed.cta.", "mbarrier.arrive.": "mbarrier.arrive.relaxed.cta."}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_relaxed_arrivals_and_waits(schedule: dict[str, Any]) -> None:
    """CuTe DSL's experimental pipelines: that a wait has seen an arrival is order enough for the phases."""

    def relaxed(text: str) -> str:
        for old, new in RELAXED.items():
            text = text.replace(old, new)
        return text

    assert found(launch(relaxed(LOOP.format(early=FREE.format(first=1), late="")), **schedule)) == []
    wait = relaxed(WAIT)
    findings = found(launch(relaxed(THREE.format(threads=64, meet="")), block=96, **schedule))
    assert findings in ([("B519", wait)], [("H601", wait)])


RING = """
add.u32 %r8, %r2, 64;
add.u32 %r7, %r2, 128;
mov.u32 %r9, %warpid;
setp.eq.u32 %p3, %r9, 1;
and.b32 %r10, %r1, 31;
setp.ne.u32 %p5, %r10, 0;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
@%p1 mbarrier.init.shared::cta.b64 [%r7+8], 1;
@%p1 mbarrier.init.shared::cta.b64 [%r8], 1;
@%p1 mbarrier.init.shared::cta.b64 [%r8+8], 1;
bar.sync 0;
mov.u32 %r3, 0;
@%p3 bra CONSUME;
PRODUCE:
and.b32 %r11, %r3, 1;
shl.b32 %r11, %r11, 3;
shr.u32 %r4, %r3, 1;
and.b32 %r4, %r4, 1;
xor.b32 %r5, %r4, 1;
add.u32 %r12, %r8, %r11;
FREE: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r12], %r5;
@!%p2 bra FREE;
@%p5 bra FILLED;
add.u32 %r12, %r7, %r11;
mbarrier.arrive.shared::cta.b64 _, [%r12];
FILLED:
add.u32 %r3, %r3, 1;
setp.lt.u32 %p4, %r3, 8;
@%p4 bra PRODUCE;
bra DONE;
CONSUME:
and.b32 %r11, %r3, 1;
shl.b32 %r11, %r11, 3;
shr.u32 %r4, %r3, 1;
and.b32 %r4, %r4, 1;
add.u32 %r12, %r7, %r11;
FULL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r12], %r4;
@!%p2 bra FULL;
@%p5 bra TAKEN;
add.u32 %r12, %r8, %r11;
mbarrier.arrive.shared::cta.b64 _, [%r12];
TAKEN:
add.u32 %r3, %r3, 1;
setp.lt.u32 %p4, %r3, 8;
@%p4 bra CONSUME;
DONE:
"""
"""All lanes of two warps wait, and lane 0 of each arrives, in a pipeline of two stages."""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_one_lane_arrives_for_its_warp(schedule: dict[str, Any]) -> None:
    """The machine may execute lane 0 before the other lanes. In practice a warp waits once; by the letter nothing joins its lanes."""
    assert found(launch(RING, block=64, **schedule)) == []
    letter = found(launch(RING, block=64, model="spec", **schedule))
    assert [code for code, _ in letter] == ["B519", "B519"]


WARPGROUP = f"""
mov.b32 %r8, free;
setp.eq.u32 %p3, %r1, 128;
setp.gt.u32 %p5, %r1, 127;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
@%p1 mbarrier.init.shared::cta.b64 [%r8], 1;
{FILL}
mov.u32 %r3, 0;
@%p3 bra PRODUCE;
@%p5 bra DONE;
CONSUME:
and.b32 %r4, %r3, 1;
FULL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r4;
@!%p2 bra FULL;
{WGMMA}
wgmma.commit_group.sync.aligned;
RELEASE
add.u32 %r3, %r3, 1;
setp.lt.u32 %p4, %r3, 4;
@%p4 bra CONSUME;
bra DONE;
PRODUCE:
and.b32 %r4, %r3, 1;
xor.b32 %r4, %r4, 1;
FREE: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], %r4;
@!%p2 bra FREE;
mbarrier.arrive.shared::cta.b64 _, [%r7];
add.u32 %r3, %r3, 1;
setp.lt.u32 %p4, %r3, 4;
@%p4 bra PRODUCE;
DONE:
"""
GIVE_BACK = "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r8];"


def with_release(code: str) -> str:
    return WARPGROUP.replace("RELEASE", code)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_complete_product_tells_of_all_warps_of_its_warpgroup(schedule: dict[str, Any]) -> None:
    """One thread gives the stage back for four warps: behind a product of theirs each has looked."""
    options = {"target": "sm_90a", "block": 160, **schedule}
    after = f"wgmma.wait_group.sync.aligned 0;\n{GIVE_BACK}"
    assert found(launch(with_release(after), **options)) == []
    before = f"{GIVE_BACK}\nwgmma.wait_group.sync.aligned 0;"
    assert {code for code, _ in found(launch(with_release(before), **options))} <= {"B519", "H601"}


def test_a_product_under_way_tells_nothing() -> None:
    before = f"{GIVE_BACK}\nwgmma.wait_group.sync.aligned 0;"
    assert ("B519", WAIT.replace("0;", "%r4;")) in found(launch(with_release(before), target="sm_90a", block=160))


COMMITTED = """
mov.b32 %r8, free;
setp.eq.u32 %p3, %r1, 32;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
@%p1 mbarrier.init.shared::cta.b64 [%r8], 1;
bar.sync 0;
@%p1 bra FIRST;
@%p3 bra OTHER;
bra DONE;
FIRST: {early}
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];
{late}
bra DONE;
OTHER: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0;
@!%p2 bra OTHER;
mbarrier.arrive.shared::cta.b64 _, [%r7];
DONE:
"""
LOOK = "LOOK: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r7], 1;\n@!%p4 bra LOOK;"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_is_issued_before_the_look_does_not_follow_it(schedule: dict[str, Any]) -> None:
    """Whoever the commit lets go may complete the phase before the look."""
    more = {"T633"}  # nothing but the commit is of interest
    behind = found(launch(COMMITTED.format(early="", late=LOOK), **schedule))
    assert {code for code, _ in behind} - more in ({"B519"}, {"H601"})
    if schedule["policy"] != "random":
        assert ("B519", LOOK.partition("\n")[0]) in behind
    assert {code for code, _ in found(launch(COMMITTED.format(early=LOOK, late=""), **schedule))} == more


def test_the_report() -> None:
    (finding,) = launch(THREE.format(threads=64, meet=""), block=96).diagnostics
    assert finding.message == (
        "mbarrier.try_wait waits for a phase of the mbarrier at shared offset 0x400, and nothing keeps the next phase, "
        "which mbarrier.arrive at line 26 completes, from being complete before the wait"
    )
    assert finding.fix == (
        "after line 29 arrive on an mbarrier, and wait on that mbarrier before line 26; or synchronise the threads with a barrier between "
        "the two; or wait with the other parity, if the phase that line 26 completes is meant"
    )
