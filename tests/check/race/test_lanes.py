"""The letter judges the threads of a warp against each other: program order is that of one thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab

from .small_kernels import SCHEDULES, found, launch, text

BODY = """
and.b32 %r8, %r1, 31;
mad.lo.u32 %r3, %r8, 4, %r2;
xor.b32 %r4, %r8, 1;
mad.lo.u32 %r5, %r4, 4, %r2;
st.shared.u32 [%r3], %r1;
{between}
ld.shared.u32 %r6, [%r5];
mad.wide.u32 %rd2, %r1, 4, %rd1;
st.global.u32 [%rd2], %r6;
"""
LOAD = "ld.shared.u32 %r6, [%r5];"
SYNC = "bar.warp.sync -1;"


def judged(body: str, **options: Any) -> list[tuple[str, str]]:
    return found(launch(body, **{"block": 32, "model": "spec", **options}))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("between", "clean"),
    [
        ("", False),
        ("add.u32 %r9, %r1, 1;", False),
        ("cp.async.ca.shared.global [%r2+1024], [%rd1+2048], 16;", False),
        (SYNC, True),
        ("bar.sync 0;", True),
        ("fence.acq_rel.cta;", True),
    ],
)
def test_neighbours(between: str, clean: bool, schedule: dict[str, Any]) -> None:
    body = BODY.format(between=between) + "cp.async.wait_all;"
    assert judged(body, **schedule) == ([] if clean else [("X101", LOAD)])
    assert judged(body, model="practice", **schedule) == []


def test_the_report() -> None:
    (finding,) = launch(BODY.format(between=""), block=32, model="spec").diagnostics
    assert finding.message == (
        "ld.shared reads shared memory bytes 0x800-0x87f of CTA (0, 0, 0), which st.shared at line 21 writes in another thread of the "
        "warp, and nothing orders the two threads"
    )
    assert finding.fix == "insert bar.warp.sync between line 21 and line 23, for all threads of the two"
    assert dict(finding.details)["later"] == "lanes 0-31 of warp 0 of CTA (0, 0, 0)"


ONE = "@%p1 st.shared.u32 [%r2], 7;"
FOR_ALL = """
{store}
{between}
ld.shared.u32 %r6, [%r2];
mad.wide.u32 %rd2, %r1, 4, %rd1;
{use}
"""
USE = "st.global.u32 [%rd2], %r6;"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("store", [ONE, "@!%p1 bra BEHIND;\nst.shared.u32 [%r2], 7;\nBEHIND:"])
def test_one_thread_writes_for_all(store: str, schedule: dict[str, Any]) -> None:
    assert judged(FOR_ALL.format(store=store, between="", use=USE), **schedule) == [("X101", "ld.shared.u32 %r6, [%r2];")]
    assert judged(FOR_ALL.format(store=store, between=SYNC, use=USE), **schedule) == []


LOOP = """
mov.u32 %r9, 0;
@%p1 st.shared.u32 [%r2], 7;
bar.warp.sync -1;
LOOP:
ld.shared.u32 %r6, [%r2];
{behind}
@%p1 st.shared.u32 [%r2], %r9;
{ahead}
add.u32 %r9, %r9, 1;
setp.lt.u32 %p2, %r9, 3;
@%p2 bra LOOP;
mad.wide.u32 %rd2, %r1, 4, %rd1;
st.global.u32 [%rd2], %r6;
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("behind", "ahead", "line"),
    [
        (SYNC, SYNC, ""),
        ("", SYNC, "@%p1 st.shared.u32 [%r2], %r9;"),
        (SYNC, "", "ld.shared.u32 %r6, [%r2];"),
    ],
)
def test_a_loop(behind: str, ahead: str, line: str, schedule: dict[str, Any]) -> None:
    assert judged(LOOP.format(behind=behind, ahead=ahead), **schedule) == ([("X101", line)] if line else [])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "access",
    [
        "atom.shared.add.u32 %r5, [%r2], 1;",
        "st.relaxed.cta.shared.u32 [%r2], %r1;",
        "st.shared.u32 [%r2], 5;",
        "st.shared.u32 [%r2], %r1;",
    ],
)
def test_what_is_no_race(access: str, schedule: dict[str, Any]) -> None:
    """Atomics, one value from all threads twice, and one instruction that all execute together."""
    body = f"@%p1 st.shared.u32 [%r2], 5;\n{SYNC}\n{access}\n" + (access if "%r1;" not in access or "relaxed" in access else "")
    assert judged(body, **schedule) == []


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("offset", "clean"), [("0", False), ("2", False), ("4", True)])
def test_parts_of_a_word(offset: str, clean: bool, schedule: dict[str, Any]) -> None:
    body = f"""
    @%p1 st.shared.u32 [%r2], 5;
    @%p1 st.shared.u32 [%r2+4], 5;
    setp.eq.u32 %p2, %r1, 9;
    @%p2 st.shared.u16 [%r2+{offset}], %h1;
    """.replace("[%r2+4], 5;", "[%r2+4], 5;\nbar.warp.sync -1;\n@%p1 st.shared.u32 [%r2], 6;")
    assert judged("mov.u16 %h1, 3;" + body, **schedule) == ([] if clean else [("X101", f"@%p2 st.shared.u16 [%r2+{offset}], %h1;")])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_global_memory(schedule: dict[str, Any]) -> None:
    body = "@%p1 st.global.u32 [%rd1], 7;\n{0}\nld.global.u32 %r6, [%rd1];\nmad.wide.u32 %rd2, %r1, 4, %rd1;\nst.global.u32 [%rd2+64], %r6;"
    assert judged(body.format(""), **schedule) == [("X114", "ld.global.u32 %r6, [%rd1];")]
    assert judged(body.format(SYNC), **schedule) == []


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_two_sides_of_a_branch(schedule: dict[str, Any]) -> None:
    body = """
    setp.lt.u32 %p2, %r1, 16;
    @%p2 bra LOW;
    st.shared.u32 [%r2], 7;
    bra DONE;
    LOW: st.shared.u32 [%r2{0}], 8;
    DONE:
    """
    codes = judged(body.format("+4"), **schedule), judged(body.format(""), **schedule)
    assert codes[0] == []
    assert [code for code, _ in codes[1]] == ["X101"]


OF_TWO_ARRAYS = """
st.global.u32 [%rd1], %r1;
st.global.u32 [%rd2], %r1;
add.u32 %r1, %r1, 1;
st.global.u32 [%rd1], %r1;
st.global.u32 [%rd2], %r1;
"""


def test_the_order_of_findings_is_that_of_the_arguments() -> None:
    """Wherever their memory lies in the host."""
    memory = np.zeros(4096, np.uint32)
    arrays = [memory[:1024], memory[2048:3072]]
    for args in (arrays, arrays[::-1]):
        made = ptxlab.loads(text("ld.param.u64 %rd2, [b];" + OF_TWO_ARRAYS, more=", .param .u64 b")).kernel()
        result = made.launch(block=32, args=args, check="race", model="spec", shared_bytes=1024)
        assert [dict(each.details)["elements"].partition(";")[0] for each in result.diagnostics] == ["a[0]", "b[0]"]
