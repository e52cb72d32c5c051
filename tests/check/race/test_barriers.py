"""A warp that comes to a barrier of its CTA twice in one phase counts as two."""

from __future__ import annotations

from typing import Any

import pytest

from .small_kernels import SCHEDULES, found, launch

BODY = """
mov.u32 %r3, %warpid;
setp.eq.u32 %p2, %r3, 0;
@!%p2 bra OTHER;
bar.arrive 1, 96;
{again}
bra DONE;
OTHER: {other}
DONE:
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("again", ["bar.arrive 1, 96;", "bar.sync 1, 96;", "barrier.cta.sync 1, 96;", "barrier.arrive.aligned 1, 96;"])
def test_again(again: str, schedule: dict[str, Any]) -> None:
    result = launch(BODY.format(again=again, other="bar.sync 1, 96;"), block=96, **schedule)
    assert found(result)[0] == ("B520", again)
    assert {code for code, _ in found(result)} <= {"B520", "H601"}
    right = BODY.format(again=again.replace(" 1,", " 2,"), other="bar.sync 1, 96;\nbar.sync 2, 96;")
    assert found(launch(right, block=96, **schedule)) == []


def test_the_report() -> None:
    finding = launch(BODY.format(again="bar.arrive 1, 96;", other="bar.sync 1, 96;"), block=96).diagnostics[0]
    assert finding.message == (
        "warp 0 arrives at barrier 1 again, as it did at line 20, and the barrier is not yet complete: it counts as two warps"
    )
    assert finding.fix == (
        "arrive once in a phase: drop line 21, give it another barrier, or let the warp wait between line 20 and line 21 "
        "for a barrier after barrier 1"
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_next_phase(schedule: dict[str, Any]) -> None:
    """Producers and consumers in turn: each barrier is complete when the producer comes back to it."""
    loop = """
    mov.u32 %r3, %warpid;
    setp.eq.u32 %p2, %r3, 0;
    mov.u32 %r4, 0;
    LOOP:
    @%p2 bar.arrive 1, 64;
    @!%p2 bar.sync 1, 64;
    @!%p2 bar.arrive 2, 64;
    @%p2 bar.sync 2, 64;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p3, %r4, 4;
    @%p3 bra LOOP;
    """
    assert found(launch(loop, **schedule)) == []


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_parts_of_a_warp_arrive_one_after_the_other(schedule: dict[str, Any]) -> None:
    body = """
    setp.lt.u32 %p2, %r1, 40;
    @%p2 bra SOME;
    barrier.arrive 1, 64;
    bra DONE;
    SOME: barrier.arrive 1, 64;
    DONE: barrier.sync 0;
    """
    assert found(launch(body, **schedule)) == []


LOCKED = """
mov.u32 %r3, %warpid;
setp.eq.u32 %p2, %r1, 0;
@!%p2 bra MEET;
TAKE:
atom.acquire.gpu.global.cas.b32 %r4, [%rd1], 0, 1;
setp.ne.u32 %p3, %r4, 0;
@!%p3 bra MEET;
nanosleep.u32 20;
bra TAKE;
MEET:
{before}
ld.global.u32 %r5, [%rd1+8];
add.u32 %r5, %r5, 1;
bar.sync 0;
setp.eq.u32 %p4, %r1, 33;
@%p4 st.global.u32 [%rd1+8], %r5;
{behind}
@%p2 st.release.gpu.global.u32 [%rd1], 0;
"""
"""A counter behind a lock: one thread takes it for its CTA, a thread of another warp writes."""
MEET = "bar.sync 0;"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_a_warp_has_heard_of_other_ctas_its_barrier_tells(schedule: dict[str, Any]) -> None:
    assert found(launch(LOCKED.format(before=MEET, behind=MEET), grid=3, max_instructions=2_000_000, **schedule)) == []
    for before, behind in (("", MEET), (MEET, "")):
        codes = {
            code for code, _ in found(launch(LOCKED.format(before=before, behind=behind), grid=3, max_instructions=2_000_000, **schedule))
        }
        assert codes == {"X114"}
