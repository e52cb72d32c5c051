"""Small kernels after real complaints about compiled code: what is wrong is found at its line under every schedule; its twin is clean."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import ptxlab

from .small_kernels import FILL, SCHEDULES, WGMMA, found, launch


class Complaint(NamedTuple):
    """An issue or pull request, a body with ``HERE`` where the two differ, what is wrong there and what is right, and the finding.

    ``line`` is a part of the line that is named; ``also``: the codes of what goes wrong after it.
    """

    name: str
    body: str
    wrong: str
    right: str
    code: str
    line: str
    options: dict[str, Any] = {}  # noqa: RUF012
    also: str = ""
    instead: str = ""
    """What is found where the accesses happen in the other order, or what ends the launch first."""


HOPPER = {"target": "sm_90a", "block": 128}
WAIT = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
ALLOCATE = """
mov.u32 %r8, %warpid;
setp.eq.u32 %p3, %r8, 0;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
bar.sync 0;
ld.shared.b32 %r9, [slot];
"""
RELEASE = "bar.sync 0;\n@%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;"
COMPLETE = """
@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%r7];
AWAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
@!%p2 bra AWAIT;
"""
STORES = "mad.lo.u32 %r3, %r1, 16, %r2;\nmov.u32 %r4, 0;\nst.shared.v4.u32 [%r3], {%r4, %r4, %r4, %r4};\nfence.proxy.async.shared::cta;\n"
COPIES = """
shr.u32 %r5, %r2, 4;
cvt.u64.u32 %rd5, %r5;
or.b64 %rd5, %rd5, 0x0000400800080000;
@%p1 tcgen05.cp.cta_group::1.128x128b [%r9], %rd5;
"""
LOAD = """
shl.b32 %r10, %r8, 21;
add.u32 %r10, %r10, %r9;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r11}, [%r10];
"""
PAIR = {"grid": 2, "cluster": 2, "block": 32}
IN_PAIR = """
mov.u32 %r3, %cluster_ctarank;
setp.eq.u32 %p4, %r3, 0;
and.pred %p4, %p4, %p1;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32;
ld.shared.b32 %r9, [slot];
shl.b32 %r4, %r1, 6;
add.u32 %r4, %r4, %r2;
mov.u32 %r5, 0;
st.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5};
st.shared.v4.u32 [%r4+16], {%r5, %r5, %r5, %r5};
st.shared.v4.u32 [%r4+32], {%r5, %r5, %r5, %r5};
st.shared.v4.u32 [%r4+48], {%r5, %r5, %r5, %r5};
fence.proxy.async.shared::cta;
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive;
barrier.cluster.wait;
shr.u32 %r5, %r2, 4;
cvt.u64.u32 %rd5, %r5;
or.b64 %rd5, %rd5, 0x0000400800080000;
@%p4 tcgen05.cp.cta_group::2.128x128b [%r9], %rd5;
HERE
AWAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
@!%p2 bra AWAIT;
barrier.cluster.arrive;
barrier.cluster.wait;
tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r9, 32;
"""
MULTICAST = "mov.u16 %h1, 3;\n@%p4 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r7], %h1;"
MAP = """
mov.b64 %rd2, map;
cvta.param.u64 %rd2, %rd2;
mul.wide.u32 %rd3, %r1, 4;
add.u64 %rd2, %rd2, %rd3;
ld.b32 %r3, [%rd2];
mad.lo.u32 %r4, %r1, 4, %r2;
st.shared.b32 [%r4+2048], %r3;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
bar.sync 0;
add.u32 %r6, %r2, 2048;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r6], 0x80;
fence.proxy.tensormap::generic.acquire.gpu [%rd1], 0x80;
mov.u32 %r5, 0;
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 1024;
@%p1 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd1, {%r5, %r5}], [%r7];
HERE
@%p1 tensormap.replace.tile.global_dim.global.b1024.b32 [%rd1], 1, 4;
AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
@!%p2 bra AGAIN;
"""
PIPELINE = """
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
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 128;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 128, [%r7];
FREE: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0;
@!%p2 bra FREE;
bra DONE;
CONSUME:
FULL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r3;
@!%p2 bra FULL;
mbarrier.arrive.shared::cta.b64 _, [%r8];
HERE
DONE:
"""
SECOND = "mov.u32 %r3, 1;\nNEXT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r3;\n@!%p2 bra NEXT;"
POOL = """
mov.u32 %r8, %warpid;
shr.u32 %r8, %r8, 2;
setp.eq.u32 %p3, %r8, 0;
@%p3 bra MORE;
HERE
bra DONE;
MORE:
setmaxnreg.inc.sync.aligned.u32 208;
DONE:
"""
ALIASED = """
mov.u32 %r8, %warpid;
setp.eq.u32 %p3, %r8, 0;
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;
fence.proxy.async.shared::cta;
bar.sync 0;
HERE
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 128;
@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 128, [%r7];
AWAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
@!%p2 bra AWAIT;
bar.sync 0;
@%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;
"""
STAGE = """
setp.eq.u32 %p4, %r1, 32;
@%p1 mbarrier.init.shared::cta.b64 [free], 32;
mov.b32 %r12, free;
bar.sync 0;
@%p3 bra READ;
setp.eq.u32 %p5, %r8, 4;
@!%p5 bra DONE;
EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r12], 0;
@!%p2 bra EMPTY;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {%r1};
tcgen05.wait::st.sync.aligned;
bra DONE;
READ:
"""

CONSUMER = """
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
bar.sync 0;
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 128;
@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 128, [%r7];
bar.sync 0;
HERE
ld.shared.u32 %r3, [%r2];
@%p1 st.global.u32 [%rd1+256], %r3;
LAST: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
@!%p2 bra LAST;
"""
OWN_COPY = """
cp.async.ca.shared.global [%r2], [%rd1], 16;
cp.async.commit_group;
HERE
ld.shared.u32 %r3, [%r2];
st.global.u32 [%rd1+256], %r3;
cp.async.wait_all;
"""
SHARED_COPY = """
mad.lo.u32 %r3, %r1, 16, %r2;
xor.b32 %r4, %r3, 512;
mad.wide.u32 %rd2, %r1, 16, %rd1;
cp.async.ca.shared.global [%r3], [%rd2], 16;
cp.async.commit_group;
cp.async.wait_group 0;
HERE
ld.shared.u32 %r5, [%r4];
mad.wide.u32 %rd3, %r1, 4, %rd1;
st.global.u32 [%rd3+2048], %r5;
"""
ARRIVALS = """
mov.u32 %r3, %warpid;
setp.eq.u32 %p2, %r3, 0;
@%p2 bar.arrive 1, 64;
HERE
@!%p2 bar.sync 1, 64;
"""
READER = """
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {%r1};
tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r11}, [%r9];
HERE
DONE:
"""

FENCE = "fence.proxy.async.shared::cta;"
ON_MAP = {"block": 32, "more": ", .param .align 128 .b8 map[128]", "words": 64}
ONE_SIDED = "@%p4 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%r7];"
EARLIER = "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r9, 32;\n"

COMPLAINTS = [
    Complaint("tilelang#2644, #2634: no fence.proxy.async before wgmma", FILL.replace(FENCE, "HERE") + WGMMA + WAIT, "", FENCE, "X102",
              "wgmma.mma_async", HOPPER),
    Complaint("Fuser#3561: the operand is overwritten, wgmma not awaited", FILL + WGMMA + "HERE\nbar.sync 0;\nst.shared.u32 [%r3], %r1;\n"
              + WAIT, "", WAIT, "X110", "st.shared.u32 [%r3], %r1", HOPPER),
    Complaint("Fuser#3561: the result is used, wgmma not awaited", FILL + WGMMA + "HERE\nst.global.f32 [%rd1], %f0;\n" + WAIT, "", WAIT,
              "R805", "st.global.f32", HOPPER),
    Complaint("triton#6061: no barrier before tcgen05.cp", ALLOCATE + STORES + "HERE" + COPIES + COMPLETE + RELEASE, "", "bar.sync 0;",
              "X112", "tcgen05.cp", {"block": 128}, "M411", "X106"),
    Complaint("sglang#39124: no fence.proxy.async before tcgen05.cp", STORES.replace(FENCE, "HERE") + ALLOCATE + COPIES + COMPLETE
              + RELEASE, "", FENCE, "X102", "tcgen05.cp", {"block": 128}),
    Complaint("TIRx-kernels#19: columns are released, tcgen05.cp not awaited", STORES + ALLOCATE + COPIES + "HERE\n" + RELEASE, "",
              COMPLETE, "T612", "tcgen05.dealloc", {"block": 128}),
    Complaint("flashinfer#4533: setmaxnreg.inc, and nobody gives registers back", POOL, "", "setmaxnreg.dec.sync.aligned.u32 40;", "H601",
              "setmaxnreg.inc", {"block": 256, "registers": 128}),
    Complaint("flashinfer#4732: two bar.arrive where one is meant", ARRIVALS, "@%p2 bar.arrive 1, 64;", "", "B520", "bar.arrive 1, 64",
              {}, "H601"),
    Complaint("DeepGEMM#343: the tensor map is changed under a copy", MAP, "",
              "FIRST: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;\n@!%p2 bra FIRST;", "X118", "tensormap.replace", ON_MAP),
    Complaint("Fuser#4142: a copy over the address of tensor memory", ALIASED, "bar.sync 0;\nld.shared.b32 %r9, [%r2];",
              "ld.shared.b32 %r9, [%r2];\nbar.sync 0;", "X103", "ld.shared.b32 %r9", {}, "", "X112"),
    Complaint("tilelang#2566: a pipeline of one iteration waits for a second", PIPELINE, SECOND, "", "H601", "NEXT:"),
    Complaint("tilelang#2613: the consumer reads before the copy has come", CONSUMER, "", "FULL: mbarrier.try_wait.parity.shared::cta.b64 "
              "%p2, [%r7], 0;\n@!%p2 bra FULL;", "X103", "ld.shared.u32 %r3, [%r2]"),
    Complaint("cp.async: the newest group is not awaited", OWN_COPY, "cp.async.wait_group 1;", "cp.async.wait_group 0;", "X111",
              "ld.shared.u32", {"block": 32}),
    Complaint("cp.async: each warp waits for its own copies only", SHARED_COPY, "", "bar.sync 0;", "X111", "ld.shared.u32", {},
              "M411", "X101"),
    Complaint("flashinfer#5334: a stage of tensor memory is released while it is read", ALLOCATE + STAGE + READER + RELEASE,
              "mbarrier.arrive.shared::cta.b64 _, [%r12];", "tcgen05.wait::ld.sync.aligned;\nmbarrier.arrive.shared::cta.b64 _, [%r12];",
              "X108", "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {%r1};", {"block": 160}),
    Complaint("cta_group::2: the commit tells one CTA of the pair only", IN_PAIR, ONE_SIDED, MULTICAST, "H601", "AWAIT:", PAIR),
    Complaint("cta_group::2: columns are released before the pair's operations are complete", IN_PAIR.replace("HERE", MULTICAST).replace(
              "AWAIT: ", "HEREAWAIT: "), EARLIER, "", "T612", "tcgen05.dealloc", PAIR, "T604"),
]  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("complaint", COMPLAINTS, ids=lambda c: c.name)
def test_complaint(complaint: Complaint, schedule: dict[str, Any]) -> None:
    args = (ptxlab.TensorMap(np.zeros((8, 64), np.float16), box=(64, 8)),) if "map" in complaint.options.get("more", "") else ()
    options = {**complaint.options, **schedule, "args": args}
    right, findings = (
        [(code, line) for code, line in found(launch(complaint.body.replace("HERE", text), **options)) if code != "X123"]
        for text in (complaint.right, complaint.wrong)
    )
    assert right == []
    instead = complaint.instead.split()
    assert any(code in instead or (code == complaint.code and complaint.line in line) for code, line in findings), findings
    assert {code for code, _ in findings} <= {complaint.code, *complaint.also.split(), *instead}, findings
