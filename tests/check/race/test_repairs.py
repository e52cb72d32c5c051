"""Repairs that name what helps: the barrier that is missing where its absence shows as something else."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest

from .small_kernels import FILL, launch, text

ALLOCATE = """
mov.u32 %r8, %warpid;
setp.eq.u32 %p3, %r8, 0;
setp.eq.u32 %p4, %r8, 1;
@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
"""
MEET = "bar.sync 0;\n"
LOAD_ADDRESS = "ld.shared.b32 %r9, [slot];\n"
STORE = """
shl.b32 %r10, %r8, 21;
add.u32 %r10, %r10, %r9;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r10], {%r1};
tcgen05.wait::st.sync.aligned;
"""
FREE = "@%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;\n"
FREE_FIRST = "bra DONE;\nFREE:\n" + FREE + "bar.sync 1, 64;\nDONE:"
COPY = """
shr.u32 %r5, %r2, 4;
cvt.u64.u32 %rd5, %r5;
or.b64 %rd5, %rd5, 0x0000400800080000;
elect.sync _|%p5, -1;
@%p5 tcgen05.cp.cta_group::1.128x128b [%r9], %rd5;
"""
THREE = "setp.eq.u32 %p4, %r8, 3;\n@%p4 bra COPY;\n"


class Case(NamedTuple):
    """A body, and what is found first: code, and the repair, ``{text}`` being the line of that text."""

    name: str
    body: str
    code: str
    fix: str
    message: str = ""
    options: dict[str, Any] = {}  # noqa: RUF012


CASES = [
    Case(
        "no barrier behind tcgen05.alloc",
        # The other warp is the first to go on.
        ALLOCATE.replace("@%p3 tcgen05.alloc", "@%p3 bar.sync 1, 64;\n@%p3 tcgen05.alloc")
        + LOAD_ADDRESS
        + "@%p4 bar.sync 1, 64;\n"
        + MEET
        + STORE
        + MEET
        + FREE,
        "M411",
        "synchronise the warps with a barrier (bar.sync) between tcgen05.alloc at line {tcgen05.alloc} and this read of its address",
    ),
    Case(
        "no barrier before tcgen05.dealloc",
        ALLOCATE + MEET + LOAD_ADDRESS + "@%p3 bra FREE;\nbar.sync 1, 64;\n" + STORE + FREE_FIRST,
        "T621",
        "synchronise the warps that use the columns (bar.sync) before tcgen05.dealloc at line {tcgen05.dealloc}",
        "column 0 of tensor memory is not allocated by this CTA any more: tcgen05.dealloc at line {tcgen05.dealloc} has freed it",
    ),
    Case(
        "tcgen05.dealloc before the last use",
        ALLOCATE + MEET + LOAD_ADDRESS + FREE + "@%p4 bra DONE;\n" + STORE + "DONE:",
        "T621",
        "execute tcgen05.dealloc, line {tcgen05.dealloc}, after the last use of the columns",
    ),
    Case(
        "tcgen05.dealloc before a tcgen05.cp",
        ALLOCATE
        + MEET
        + LOAD_ADDRESS
        + "@%p3 bra FREE;\nbar.sync 1, 64;\nmov.b64 %rd5, 0x0000400800080040;\n"
        + "elect.sync _|%p5, -1;\n@%p5 tcgen05.cp.cta_group::1.128x128b [%r9], %rd5;\n"
        + FREE_FIRST,
        "T607",
        "synchronise the warps that use the columns (bar.sync) before tcgen05.dealloc at line {tcgen05.dealloc}",
        "the destination occupies columns 0 to 3 of tensor memory, but CTA (0, 0, 0) has allocated nothing: tcgen05.dealloc at line "
        "{tcgen05.dealloc} has freed column 0",
    ),
    Case(
        "one cta_group::1 among others",
        (ALLOCATE + MEET + LOAD_ADDRESS + MEET + FREE).replace("dealloc.cta_group::1", "dealloc.cta_group::2")
        + "@%p3 tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;",
        "T606",
        "use .cta_group::2 in all tcgen05 instructions of the kernel",
        options={"grid": 2, "cluster": 2},
    ),
    Case(
        "bytes that another warp writes",
        "setp.lt.u32 %p3, %r1, 32;\n@%p3 bra WRITE;\nld.shared.b32 %r9, [%r2];\nst.global.b32 [%rd1], %r9;\nbar.sync 1, 64;\nbra DONE;\n"
        "WRITE: bar.sync 1, 64;\nst.shared.b32 [%r2], 7;\nDONE:",
        "M411",
        "write the bytes before they are read, with a barrier between if others write them; "
        "a fresh CTA's shared memory holds what the last one left there",
    ),
    Case(
        "an asynchronous operation, perhaps before what it should follow",
        FILL + ALLOCATE + MEET + LOAD_ADDRESS + THREE + STORE + "bra DONE;\nCOPY:\n" + COPY + "DONE:",
        "X105",
        "insert tcgen05.commit after line {tcgen05.cp}, and wait on its mbarrier before line {tcgen05.st}; "
        "or, if line {tcgen05.st} is to execute first, synchronise the warps with a barrier (bar.sync) between the two",
        options={"block": 128, "policy": "random", "seed": 0},
    ),
    Case(
        "arrivals for the next phase",
        "@%p1 mbarrier.init.shared::cta.b64 [%r7], 2;\n@%p1 mbarrier.arrive.shared::cta.b64 _, [%r7], 3;",
        "B505",
        "initialise the mbarrier with the number of arrivals that one phase gets, or let those who arrive for the next one wait with "
        "mbarrier.try_wait until it is complete",
    ),
    Case(
        "mbarrier.inval without a barrier",
        "@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;\n"
        + MEET
        + "setp.eq.u32 %p4, %r1, 32;\n@%p1 mbarrier.inval.shared::cta.b64 [%r7];\nbar.sync 1, 64;\n"
        + "@%p4 mbarrier.arrive.shared::cta.b64 _, [%r7];",
        "B514",
        "synchronise the threads that use it with a barrier before mbarrier.inval at line {mbarrier.inval}, or initialise it again",
    ),
    Case(
        "an arrival behind a barrier that the waiting warp does not come to",
        "@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;\n"
        + MEET
        + "setp.lt.u32 %p4, %r1, 32;\nsetp.eq.u32 %p5, %r1, 32;\n@%p4 bra WAIT;\n"
        + "bar.sync 1, 64;\n@%p5 mbarrier.arrive.shared::cta.b64 _, [%r7];\nbra DONE;\n"
        + "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;\n@!%p2 bra WAIT;\nbar.sync 1, 64;\nDONE:",
        "H601",
        "insert the missing arrival on the mbarrier that line {try_wait} waits on: tcgen05.commit after tcgen05 operations, "
        "mbarrier.arrive.expect_tx before copies, else mbarrier.arrive; or wait with parity 1, which a fresh mbarrier passes; "
        "or let warp 0 of CTA (0, 0, 0) arrive at barrier 1 before line {try_wait}: warp 1 of CTA (0, 0, 0), which could end the wait, "
        "waits there for it at line {bar.sync 1}",
    ),
]


def filled(template: str, lines: list[str]) -> str:
    """With the numbers of the first lines that contain what stands in braces."""
    return re.sub(r"\{(.*?)\}", lambda part: str(next(n for n, line in enumerate(lines, 1) if part[1] in line)), template)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_repair(case: Case) -> None:
    result = launch(case.body, check="all", **case.options)
    lines = text(case.body).splitlines()
    first = result.diagnostics[0]
    assert (first.code, first.fix) == (case.code, filled(case.fix, lines))
    if case.message:
        assert first.message == filled(case.message, lines)


def test_copies_in_no_group() -> None:
    body = "cp.async.ca.shared.global [%r2], [%rd1], 16;\ncp.async.wait_group 0;"
    assert [d.fix for d in launch(body, block=1).diagnostics] == [
        "insert cp.async.commit_group and cp.async.wait_group 0, or cp.async.wait_all, before the threads exit"
    ]
