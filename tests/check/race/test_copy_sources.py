"""What cp.async reads, until it is complete: section "Asynchronous copy", "Completion Mechanisms for Asynchronous Copy Operations"."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab

from .small_kernels import SCHEDULES, found, launch, text

COPY = "cp.async.ca.shared.global [%r3], [%rd2], 16;"
OWN = f"""
mad.lo.u32 %r3, %r1, 16, %r2;
mad.wide.u32 %rd2, %r1, 16, %rd1;
{COPY}
{{before}}
{{write}}
{{behind}}
"""
STORE = "st.global.u32 [%rd2+12], 7;"
WAITS = [
    ("cp.async.commit_group;\ncp.async.wait_group 0;", True),
    ("cp.async.wait_all;", True),
    ("cp.async.commit_group;", False),
    ("cp.async.commit_group;\ncp.async.wait_group 1;", False),
    # A number of groups has no sign.
    ("cp.async.commit_group;\ncp.async.wait_group -1;", False),
    ("bar.sync 0;", False),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("write", [STORE, "red.global.add.u32 [%rd2], 1;", "atom.global.add.u32 %r5, [%rd2+8], 1;"])
@pytest.mark.parametrize(("wait", "clean"), WAITS)
def test_the_thread_itself_overwrites_it(wait: str, clean: bool, write: str, schedule: dict[str, Any]) -> None:
    body = OWN.format(before=wait, write=write, behind="" if clean else "cp.async.wait_all;")
    assert found(launch(body, block=32, **schedule)) == ([] if clean else [("X104", write)])


def test_the_report() -> None:
    (finding,) = launch(OWN.format(before="", write=STORE, behind="cp.async.wait_all;"), block=32).diagnostics
    assert finding.message == (
        "st.global writes bytes 0xc-0xf, 0x1c-0x1f, 0x2c-0x2f and 29 more of argument 0 (a), which cp.async at line 19 reads, "
        "and nothing has waited until the copy has read it"
    )
    assert finding.fix == (
        "insert cp.async.commit_group and cp.async.wait_group 0 (or cp.async.wait_all) and a barrier between line 19 and line 21"
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("count", "clean"), [("0", True), ("1", False), ("-1", False)])
def test_bulk_groups_that_a_wait_leaves_pending(count: str, clean: bool, schedule: dict[str, Any]) -> None:
    """The thread overwrites what a bulk copy reads."""
    body = f"""
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 64;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read {count};
    @%p1 st.shared.u32 [%r2], 7;
    cp.async.bulk.wait_group 0;
    """
    fill = "mad.lo.u32 %r3, %r1, 4, %r2;\nst.shared.u32 [%r3], 1;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n"
    assert found(launch(fill + body, block=32, **schedule)) == ([] if clean else [("X104", "@%p1 st.shared.u32 [%r2], 7;")])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_through_an_mbarrier(schedule: dict[str, Any]) -> None:
    body = f"""
    @%p1 mbarrier.init.shared::cta.b64 [%r7], 32;
    bar.sync 0;
    mad.lo.u32 %r3, %r1, 16, %r2;
    mad.wide.u32 %rd2, %r1, 16, %rd1;
    {COPY}
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r7];
    {{early}}
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
    @!%p2 bra WAIT;
    {{late}}
    """
    assert found(launch(body.format(early="", late=STORE), block=32, **schedule)) == []
    assert found(launch(body.format(early=STORE, late=""), block=32, **schedule)) == [("X104", STORE)]


OTHER = f"""
setp.lt.u32 %p2, %r1, 32;
and.b32 %r4, %r1, 31;
mad.lo.u32 %r3, %r4, 16, %r2;
mad.wide.u32 %rd2, %r4, 16, %rd1;
@%p2 {COPY}
{{wait}}
{{meet}}
@!%p2 {STORE}
@%p2 cp.async.wait_all;
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("wait", "meet", "clean"),
    [("cp.async.wait_all;", "bar.sync 0;", True), ("", "bar.sync 0;", False), ("cp.async.wait_all;", "", False), ("", "", False)],
)
def test_another_warp_overwrites_it(wait: str, meet: str, clean: bool, schedule: dict[str, Any]) -> None:
    """Reported at whichever comes later."""
    findings = found(launch(OTHER.format(wait=wait, meet=meet), **schedule))
    wanted = [("X104", f"@!%p2 {STORE}")], [("X114", f"@%p2 {COPY}")]
    assert findings == [] if clean else findings in wanted


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_bulk_reduction_of_another_cta(schedule: dict[str, Any]) -> None:
    reduce = "@%p3 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r2], 64;"
    body = f"""
    mov.u32 %r8, %ctaid.x;
    setp.eq.u32 %p2, %r8, 1;
    and.pred %p3, %p2, %p1;
    mad.lo.u32 %r3, %r1, 16, %r2;
    mad.wide.u32 %rd2, %r1, 16, %rd1;
    @%p2 st.shared.v4.u32 [%r3], {{%r1, %r1, %r1, %r1}};
    fence.proxy.async;
    bar.sync 0;
    {reduce}
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    @!%p2 cp.async.ca.shared.global [%r3], [%rd2+OFFSET], 16;
    cp.async.wait_all;
    """
    options = {"block": 32, "grid": 2, **schedule}
    findings = found(launch(body.replace("OFFSET", "0"), **options))
    assert [code for code, _ in findings] in (["X104"], ["X103"])
    assert found(launch(body.replace("OFFSET", "1024"), **options)) == []


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("copy", "reads"),
    [
        ("cp.async.ca.shared.global [%r3], [%rd2], 16, %r6;", True),
        ("cp.async.ca.shared.global [%r3], [%rd2], 16, 0;", False),
        ("cp.async.ca.shared.global [%r3], [%rd2], 16, %p1;", True),
        ("cp.async.ca.shared.global [%r3], [%rd2], 16, %p3;", False),
    ],
)
def test_lanes_that_read_nothing(copy: str, reads: bool, schedule: dict[str, Any]) -> None:
    body = f"""
    mov.u32 %r6, 16;
    setp.lt.u32 %p3, %r1, 32;
    {OWN.replace(COPY, copy).format(before="", write=STORE, behind="cp.async.wait_all;")}
    """
    assert found(launch(body, block=32, **schedule)) == ([("X104", STORE)] if reads else [])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("size", "reads"), [("12", False), ("13", True), ("%r6", True)])
def test_lanes_that_read_some_bytes(size: str, reads: bool, schedule: dict[str, Any]) -> None:
    """Lane n reads 12 bytes, 13 bytes, or n modulo 16 bytes; the store writes bytes 12 to 15."""
    copy = COPY.replace("16;", f"16, {size};")
    body = f"and.b32 %r6, %r1, 15;\n{OWN.replace(COPY, copy).format(before='', write=STORE, behind='cp.async.wait_all;')}"
    result = launch(body, block=32, **schedule)
    assert found(result) == ([("X104", STORE)] if reads else [])
    if size == "%r6":
        assert "bytes 0xdc-0xdc, 0xec-0xed, 0xfc-0xfe and 3 more of argument 0" in result.diagnostics[0].message


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_was_written_before(schedule: dict[str, Any]) -> None:
    """By the thread itself, and by another warp with and without a barrier."""
    own = OWN.replace(COPY, f"{STORE}\n{COPY}").format(before="cp.async.wait_all;", write="", behind="")
    assert found(launch(own, block=32, **schedule)) == []
    body = f"""
    setp.lt.u32 %p2, %r1, 32;
    and.b32 %r4, %r1, 31;
    mad.lo.u32 %r3, %r4, 16, %r2;
    mad.wide.u32 %rd2, %r4, 16, %rd1;
    @!%p2 {STORE}
    {{0}}
    @%p2 {COPY}
    @%p2 cp.async.wait_all;
    """
    assert found(launch(body.format("bar.sync 0;"), **schedule)) == []
    findings = found(launch(body.format(""), **schedule))
    assert findings in ([("X114", f"@%p2 {COPY}")], [("X104", f"@!%p2 {STORE}")])


THROUGH = """
ld.param.u64 %rd5, [b];
{find}
mad.lo.u32 %r3, %r1, 16, %r2;
mad.wide.u32 %rd2, %r1, 16, %rd1;
cp.async.ca.shared.global [%r3], [%rd2], 16;
{write}
cp.async.wait_all;
"""
ADDED = "mul.wide.u32 %rd7, %r1, 16;\nadd.u64 %rd6, %rd5, %rd7;\nselp.b64 %rd6, %rd6, %rd5, %p1;"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("find", "write"),
    [
        (ADDED, "st.global.u32 [%rd6], 7;"),
        (ADDED, "st.u32 [%rd6], 7;"),
        (ADDED, "red.global.add.u32 [%rd6], 1;"),
        ("shfl.sync.idx.b32 %r6, %r1, 0, 31, -1;\nmad.wide.u32 %rd6, %r6, 4, %rd5;", "@%p1 st.global.u32 [%rd6], 7;"),
    ],
)
def test_through_another_argument(find: str, write: str, schedule: dict[str, Any]) -> None:
    """A write of another array is no race, through whatever pointer; one to a view of the same memory is."""
    memory, other = np.zeros(2048, np.uint32), np.zeros(1024, np.uint32)
    kernel = ptxlab.loads(text(THROUGH.format(find=find, write=write), more=", .param .u64 b"), file="small.ptx").kernel()
    for args, codes in (((memory, other), []), ((memory, memory[:1024]), ["X104"]), ((other, memory[1024:]), [])):
        result = kernel.launch(args=list(args), block=32, shared_bytes=4096, **schedule)
        assert [code for code, _ in found(result)] == codes


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_through_a_pointer_in_memory(schedule: dict[str, Any]) -> None:
    body = THROUGH.format(find="ld.global.u64 %rd6, [%rd5];", write="@%p1 st.global.u32 [%rd6], 7;")
    kernel = ptxlab.loads(text(body, more=", .param .u64 b"), file="small.ptx").kernel()
    device = ptxlab.Device("sm_100a")
    one, other = (device.array(np.zeros(1024, np.uint32)) for _ in range(2))
    for target, codes in ((one, ["X104"]), (other, [])):
        pointer = device.array(np.array([target.address], np.uint64))
        result = kernel.launch(args=[one, pointer], block=32, shared_bytes=4096, device=device, **schedule)
        assert [code for code, _ in found(result)] == codes
