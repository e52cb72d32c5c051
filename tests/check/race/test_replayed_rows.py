"""Compiled code processes the rows of a warp when it stops: the findings are those of Python, which handles the rows that are left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ptxlab.check.race._barriers import Barriers
from ptxlab.check.race._sanitizer import Sanitizer
from ptxlab.check.race.shadow.shadow import Shadow
from ptxlab.engine.context import Word
from ptxlab.machine.observe.event_buffer import CAPACITY

from .small_kernels import SCHEDULES, found, launch
from .test_compiled_waits import KERNELS

BETWEEN = """
mul.wide.u32 %rd2, %r1, 4;
add.u64 %rd2, %rd2, %rd1;
mov.u32 %r5, 0;
@%p1 st.shared.u32 [%r2], %r5;
@%p1 st.shared.u32 [%r2+64], %r5;
mov.u32 %r3, %warpid;
shl.b32 %r4, %r3, 2;
setp.eq.u32 %p3, %r3, {late};
mov.u32 %r5, 0;
AGAIN:
bar.sync 0;
@%p3 bar.sync 1, 32;
@%p3 st.shared.u32 [%r2+{first}], %r5;
@!%p3 ld.shared.u32 %r6, [%r2+{second}];
@!%p3 st.global.u32 [%rd2], %r6;
add.u32 %r5, %r5, 1;
setp.lt.u32 %p2, %r5, 5;
@%p2 bra AGAIN;
bar.sync 0;
"""
"""Between the same barriers one warp writes and the others read; the one stops once more before its access."""
WAITED = """
mul.wide.u32 %rd2, %r1, 4;
add.u64 %rd2, %rd2, %rd1;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 32;
bar.sync 0;
mov.u32 %r3, %warpid;
setp.eq.u32 %p3, %r3, 0;
mov.u32 %r5, 0;
AGAIN:
and.b32 %r4, %r5, 1;
@%p3 st.shared.u32 [%r2], %r5;
@%p3 mbarrier.arrive.shared::cta.b64 _, [%r7];
@!%p3 bra WAIT;
bar.sync 1, 32;
WAIT:
{wait}
@!%p3 ld.shared.u32 %r6, [%r2];
@!%p3 st.global.u32 [%rd2], %r6;
bar.sync 0;
add.u32 %r5, %r5, 1;
setp.lt.u32 %p2, %r5, 6;
@%p2 bra AGAIN;
"""
WAIT = "TRY: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r7], %r4;\n@!%p4 bra TRY;"
FULL = """
mad.lo.u32 %r3, %r1, 4, %r2;
mov.u32 %r4, 0;
AGAIN:
st.shared.u32 [%r3], %r1;
{fence}
ld.shared.u32 %r5, [%r3+{distance}];
add.u32 %r4, %r4, 1;
setp.lt.u32 %p2, %r4, 2000;
@%p2 bra AGAIN;
"""
"""More rows than the buffer holds."""
FENCE = "fence.acq_rel.cta;"
ARRIVALS = """
mov.u32 %r3, %warpid;
setp.eq.u32 %p2, %r3, 0;
setp.lt.u32 %p3, %r1, {parted};
mov.u32 %r4, 0;
AGAIN:
st.shared.u32 [%r2], %r4;
@!%p2 bra OTHER;
{one} 1, 96;
bra DONE;
OTHER:
@%p3 bra SOME;
barrier.sync 1, 96;
bra DONE;
SOME: barrier.sync 1, 96;
DONE:
{meet}
add.u32 %r4, %r4, 1;
setp.lt.u32 %p2, %r4, 4;
setp.eq.u32 %p4, %r3, 0;
and.pred %p5, %p2, %p4;
@%p2 bra NEXT;
bra END;
NEXT:
setp.eq.u32 %p2, %r3, 0;
bra AGAIN;
END:
"""


def calls_of(monkeypatch: pytest.MonkeyPatch, owner: Any, function: str) -> list[None]:
    calls: list[None] = []
    original = getattr(owner, function)

    def counted(*arguments: Any) -> Any:
        calls.append(None)
        return original(*arguments)

    monkeypatch.setattr(owner, function, counted)
    return calls


def with_python(monkeypatch: pytest.MonkeyPatch, run: Callable[[], Any]) -> Any:
    """The result of a launch in which Python drains all rows, and the observer is called at each arrival."""
    with monkeypatch.context() as patch:
        patch.setattr(Shadow, "replay", property(lambda shadow: 0))
        patch.setattr(Sanitizer, "takes_arrivals_together", lambda sanitizer: False)
        return run()


@pytest.mark.parametrize("name", KERNELS)
def test_findings_are_those_of_python(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body, options = KERNELS[name]

    def findings() -> list[str]:
        return [repr(each) for each in launch(body, **options).diagnostics]

    assert findings() == with_python(monkeypatch, findings)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("late", range(3))
def test_a_race_between_two_barriers_whichever_warp_comes_first(late: int, schedule: dict[str, Any]) -> None:
    result = launch(BETWEEN.format(late=late, first=0, second=0), block=96, **schedule)
    assert {code for code, _ in found(result)} in ({"X101"}, {"X114"}, {"X101", "X114"})
    assert found(launch(BETWEEN.format(late=late, first=0, second=64), block=96, **schedule)) == []


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_an_access_follows_a_wait_that_compiled_code_completes(schedule: dict[str, Any]) -> None:
    assert found(launch(WAITED.format(wait=WAIT), **schedule)) == []
    assert found(launch(WAITED.format(wait=""), **schedule)) != []


@pytest.mark.parametrize("fence", ["", FENCE])
@pytest.mark.parametrize("distance", [0, 64])
def test_more_rows_than_the_buffer_holds(fence: str, distance: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fence, Python handles a row in each round."""

    def findings() -> list[str]:
        return [str(each) for each in launch(FULL.format(fence=fence, distance=distance)).diagnostics]

    compiled = findings()
    assert compiled == with_python(monkeypatch, findings)
    assert bool(compiled) == bool(distance)


def test_python_drains_no_rows_that_compiled_code_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(monkeypatch, Sanitizer, "drain")
    assert found(launch(FULL.format(fence="", distance=0))) == []
    assert len(calls) == 1, "the first one, before which the table of objects is not complete"


def test_what_is_raised_while_a_full_buffer_is_drained_ends_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code could process the rows that follow, but not the fence, which is one of the first rows."""
    original = Sanitizer.drain

    def drain(sanitizer: Sanitizer, warp: Any) -> None:
        if warp.words[Word.EVENT_COUNT] == CAPACITY:
            raise ArithmeticError("raised in a drain")
        original(sanitizer, warp)

    monkeypatch.setattr(Sanitizer, "drain", drain)
    stores = f"st.shared.u32 [%r2+256], %r1;\nbar.sync 0;\nst.shared.u32 [%r2+256], %r1;\n{FENCE}"
    with pytest.raises(ArithmeticError, match="raised in a drain"):
        launch(stores + FULL.format(fence="", distance=0), block=32)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("one", ["barrier.sync", "bar.sync", "bar.arrive"])
@pytest.mark.parametrize("parted", [0, 40])
@pytest.mark.parametrize("meet", ["bar.sync 0;", ""])
def test_arrivals_of_all_kinds(one: str, parted: int, meet: str, schedule: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocked warps, warps that only arrive, and parts of warps, at one barrier."""

    def findings() -> list[str]:
        return [str(each) for each in launch(ARRIVALS.format(one=one, parted=parted, meet=meet), block=96, **schedule).diagnostics]

    together = findings()
    assert together == with_python(monkeypatch, findings)
    assert together


def test_the_sanitizer_hears_of_blocked_warps_when_the_barrier_completes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(monkeypatch, Barriers, "arrived")
    assert found(launch("bar.sync 0;\n" * 4, block=96)) == []
    assert not calls
    assert found(launch("bar.arrive 1, 96;\nbar.sync 0;\n", block=64)) == []
    assert len(calls) == 2, "those that do not wait"
