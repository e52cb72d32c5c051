"""Every form of tcgen05.alloc, dealloc, relinquish_alloc_permit, commit, fence and wait in whole kernels."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from tests.isa.tcgen05.mma_form_cases import Form, forms, operations, rows

SHOWS = {
    "test_forms": (
        "tcgen05.alloc.*",
        "tcgen05.dealloc.*",
        "tcgen05.relinquish_alloc_permit.*",
        "tcgen05.commit.*",
        "tcgen05.fence::*",
        "tcgen05.wait::*",
    ),
}

MANAGED = ("alloc", "dealloc", "relinquish_alloc_permit", "commit", "fence", "wait")
FORMS = [form for operation in MANAGED for row in rows(operation) for form in forms(row)]

KERNEL = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 result)
{{
.shared .align 8 .b64 barrier;
.shared .align 8 .b32 slot;
.reg .pred p, q;
.reg .b16 h;
.reg .b32 r<8>, tid, warp, taddr;
.reg .b64 out, at, gslot, gbarrier;
ld.param.u64 out, [result];
mov.u32 tid, %tid.x;
shr.u32 warp, tid, 5;
setp.eq.u32 p, warp, 0;
setp.eq.u32 q, tid, 0;
@q mbarrier.init.shared::cta.b64 [barrier], {arrivals};
cvta.shared.u64 gslot, slot;
cvta.shared.u64 gbarrier, barrier;
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
@p {alloc};
{relinquish}
bar.sync 0;
ld.shared.u32 taddr, [slot];
mov.u32 r1, %cluster_ctarank;
mad.lo.u32 r1, r1, 32, taddr;
{body}
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
@p {dealloc};
mov.u32 r2, %ctaid.x;
mul.wide.u32 at, r2, 4;
add.u64 at, at, out;
@q st.global.u32 [at], 1;
ret;
}}
"""


def name(form: Form) -> str:
    return form.opcode.split(".", 1)[1]


def texts_of(form: Form, group: int) -> dict[str, str]:
    """The parts of the kernel, with the form in its place; an address is generic where no state space is named."""
    texts = {
        "alloc": f"tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], 64",
        "dealloc": f"tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 taddr, 64",
        "relinquish": f"@p tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;",
        "body": "",
    }
    generic = "" if form.choice("space") else "g"
    match form.opcode.split(".")[1]:
        case "alloc":
            texts["alloc"] = f"{form.opcode} [{generic}slot], 64"
        case "dealloc":
            texts["dealloc"] = f"{form.opcode} taddr, 64"
        case "relinquish_alloc_permit":
            texts["relinquish"] = f"@p {form.opcode};"
        case "commit":
            mask = f", {(1 << group) - 1}" if form.has("multicast::cluster") else ""
            texts["body"] = f"""
@q tcgen05.shift.cta_group::{group}.down [r1];
@q {form.opcode} [{generic}barrier]{mask};
W: mbarrier.try_wait.parity.shared::cta.b64 q, [barrier], 0;
@!q bra W;
setp.eq.u32 q, tid, 0;"""
        case _:
            texts["body"] = f"{form.opcode};"
    return texts


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
@pytest.mark.parametrize("form", FORMS, ids=name)
def test_forms(form: Form, policy: str) -> None:
    """The kernel comes to its end without a finding, with each form in its place."""
    group = int((form.choice("cta_group") or "cta_group::1")[-1])
    # In a pair both CTAs commit; a multicast signals both.
    arrivals = group if form.has("multicast::cluster") else 1
    kernel = ptxlab.loads(KERNEL.format(arrivals=arrivals, **texts_of(form, group))).kernel()
    out = np.zeros(group, np.uint32)
    result = kernel.launch(grid=group, cluster=group, block=64, args=[out], policy=policy)
    assert result.diagnostics == ()
    assert out.tolist() == [1] * group


def test_every_operation_has_its_sweep() -> None:
    assert operations() == {*MANAGED, "mma", "ld", "st", "cp", "shift"}
