"""Waits on mbarriers that no order of the threads lets pass: what lint finds in one execution, and what a run reports."""

from __future__ import annotations

import pytest

import ptxlab
from ptxlab.check import lint_module
from tests.check.static.dataflow_kernels.launches import base_text, launch

ARRIVE = "    mbarrier.arrive.shared::cta.b64 _, [%r13];\n"
EXPECT = "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r12], 2048;\n"
FIRST_PARITY = "    xor.b32 %r16, %r10, 1;\n"


def found(text: str) -> list[tuple[str, str, int]]:
    """Codes, severities and lines."""
    listed = lint_module(text, "kernel.ptx", None, None)
    return [(d.code, d.severity, d.place.line) for d in listed if d.place is not None and d.severity != "note"]


def line_of(text: str, piece: str) -> int:
    (line,) = (number for number, line in enumerate(text.splitlines(), 1) if piece in line)
    return line


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [(ARRIVE, "", "%p2, [%r13]"), (EXPECT, "", "%p3, [%r12]"), (FIRST_PARITY, "    mov.u32 %r16, %r10;\n", "%p2, [%r13]")],
    ids=["stages that nobody releases", "copies without an arrival", "a producer that waits for the first phase"],
)
def test_a_ring_of_stages(old: str, new: str, where: str) -> None:
    text = base_text("pipeline")
    assert text.count(old) == 1
    text = text.replace(old, new)
    assert found(text) == [("H601", "warning", line_of(text, where))]
    assert "H601" in {d.code for d in launch("pipeline", text)[0].diagnostics}


RING = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 64, 1, 1
{
  .reg .pred %p<8>;
  .reg .b32 %r<16>;
  .shared .align 8 .b64 bars[8];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, bars;
  shl.b32 %r2, %r0, 3;
  add.u32 %r2, %r2, %r1;
  setp.lt.u32 %p0, %r0, 8;
  @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
  bar.sync 0;
  setp.ge.u32 %p1, %r0, 32;
  @%p1 bra OTHERS;
  COUNT
  mov.u32 %r4, 0;
  setp.eq.u32 %p2, %r0, 0;
NEXT:
  ADDRESS
  @%p2 mbarrier.arrive.shared::cta.b64 _, [%r5];
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p3, %r4, %r3;
  @%p3 bra NEXT;
  ret;
OTHERS:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [bars+56], 0;
  @!%p4 bra OTHERS;
  ret;
}
"""
EACH = "shl.b32 %r5, %r4, 3; add.u32 %r5, %r5, %r1;"
OF_TWO = "and.b32 %r5, %r4, 1; shl.b32 %r5, %r5, 3; add.u32 %r5, %r5, %r1;"
PARAMETER = "ld.param.u32 %r3, [n];"


@pytest.mark.parametrize(
    ("count", "address", "wrong"),
    [(PARAMETER, EACH, False), ("mov.u32 %r3, 8;", EACH, False), ("mov.u32 %r3, 7;", EACH, True), (PARAMETER, OF_TWO, True)],
    ids=["as many as the launch says", "all", "not the last", "only two in turn"],
)
def test_arrivals_along_an_array(count: str, address: str, wrong: bool) -> None:
    """Where a loop of unknown length arrives on one mbarrier after the other, it may come to the last one, too."""
    text = RING.replace("COUNT", count).replace("ADDRESS", address)
    assert found(text) == ([("H601", "warning", line_of(text, "[bars+56], 0"))] if wrong else [])
    result = ptxlab.loads(text).kernel().launch(args=[8], max_instructions=10_000)
    assert [d.code for d in result.diagnostics if d.severity == "error"] == (["H601"] if wrong else [])


CLUSTER = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k()
.reqntid 32, 1, 1
.reqnctapercluster 2, 1, 1
{
  .reg .pred %p<8>;
  .reg .b32 %r<16>;
  .shared .align 8 .b64 bar;
  .shared .align 8 .b64 other;
  mov.u32 %r0, %tid.x;
  setp.eq.u32 %p0, %r0, 0;
  @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
  @%p0 mbarrier.init.shared::cta.b64 [other], 1;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mov.u32 %r1, %cluster_ctarank;
  xor.b32 %r2, %r1, 1;
  mov.u32 %r3, WHERE;
  mapa.shared::cluster.u32 %r4, %r3, %r2;
  @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
WAIT:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [bar], 0;
  @!%p4 bra WAIT;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ret;
}
"""


@pytest.mark.parametrize(("where", "wrong"), [("bar", False), ("other", True)])
def test_arrivals_in_another_cta(where: str, wrong: bool) -> None:
    """The rank of the address is not known, its offset is."""
    text = CLUSTER.replace("WHERE", where)
    assert [code for code, _, _ in found(text)] == (["H601"] if wrong else [])
    result = ptxlab.loads(text).kernel().launch(grid=2, max_instructions=10_000)
    assert [d.code for d in result.diagnostics if d.severity == "error"] == (["H601"] if wrong else [])


WORKERS = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 128, 1, 1
{
  .reg .pred %p<8>;
  .reg .b16 %h<2>;
  .reg .b32 %r<16>;
  .shared .align 8 .b64 full;
  .shared .align 8 .b64 empty;
  .shared .align 4 .b8 work[4];
  mov.u32 %r0, %tid.x;
  ld.param.u32 %r9, [n];
  mov.u32 %r8, 0;
  and.b32 %r7, %r0, 31;
  setp.eq.u32 %p7, %r7, 0;
  shr.u32 %r1, %r0, 5;
  setp.lt.u32 %p0, %r1, 2;
  @%p0 bra LEADERS;
WORKER:
  barrier.sync 1;
  mov.u32 %r2, work;
  add.u32 %r2, %r2, %r1;
  ld.shared.b8 %h0, [%r2];
  SELECT
PRODUCER:
  barrier.sync 1;
PRODUCE:
  xor.b32 %r6, %r8, 1;
AWAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [empty], %r6;
  @!%p4 bra AWAIT;
  @%p7 mbarrier.arrive.shared::cta.b64 _, [full];
  xor.b32 %r8, %r8, 1;
  add.u32 %r9, %r9, -1;
  setp.ne.u32 %p3, %r9, 0;
  @%p3 bra PRODUCE;
  barrier.sync 1;
  bra WORKER;
CONSUMER:
  barrier.sync 1;
CONSUME:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], %r8;
  @!%p4 bra CONSUME;
  @%p7 mbarrier.arrive.shared::cta.b64 _, [empty];
  xor.b32 %r8, %r8, 1;
  add.u32 %r9, %r9, -1;
  setp.ne.u32 %p3, %r9, 0;
  @%p3 bra CONSUME;
  barrier.sync 1;
  bra WORKER;
LEADERS:
  setp.eq.u32 %p1, %r0, 0;
  @%p1 mbarrier.init.shared::cta.b64 [full], 1;
  @%p1 mbarrier.init.shared::cta.b64 [empty], 1;
  bar.sync 0, 64;
  @%p1 st.shared.b32 [work], 0x01000000;
  barrier.sync 1;
  barrier.sync 1;
  barrier.sync 1;
  @%p1 st.shared.b32 [work], 0x02020202;
  barrier.sync 1;
DONE:
  ret;
}
"""
COMPARED = """setp.eq.b16 %p5, %h0, 0; @%p5 bra PRODUCER;
  setp.eq.b16 %p5, %h0, 1; @%p5 bra CONSUMER;
  bra DONE;"""
INDEXED = """cvt.u32.u16 %r5, %h0; brx.idx %r5, PLACES;
PLACES: .branchtargets PRODUCER, CONSUMER, DONE;"""


@pytest.mark.parametrize("select", [COMPARED, INDEXED], ids=["compared", "indexed"])
@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("", "", ""),
        ("@%p7 mbarrier.arrive.shared::cta.b64 _, [full];", "", "%p4, [full]"),
        ("@%p7 mbarrier.arrive.shared::cta.b64 _, [empty];", "", "%p4, [empty]"),
        ("xor.b32 %r6, %r8, 1;", "mov.u32 %r6, %r8;", "%p4, [full]"),
    ],
    ids=["right", "nothing is filled", "nothing is released", "a producer that waits for the first phase"],
)
def test_warps_that_others_tell_what_to_do(select: str, old: str, new: str, where: str) -> None:
    """The leading warps write the number of a task for each other warp, which branches on it behind a barrier."""
    text = WORKERS.replace("SELECT", select)
    assert old in text
    text = text.replace(old, new) if old else text
    assert found(text) == ([("H601", "warning", line_of(text, where))] if where else [])
    result = ptxlab.loads(text).kernel().launch(args=[3], max_instructions=100_000)
    assert {d.code for d in result.diagnostics if d.severity == "error"} == ({"H601"} if where else set())
