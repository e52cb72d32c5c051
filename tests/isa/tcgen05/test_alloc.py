"""Allocation of tensor memory in kernels: addresses, waiting, and what is wrong with wrong programs."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from ptxlab.diagnostics import Diagnostic
from ptxlab.machine import KernelError


def kernel(body: str, params: str = "") -> ptxlab.Kernel:
    return ptxlab.loads(f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 result{params})
{{
.shared .align 16 .b32 slot[8];
.reg .pred p;
.reg .b32 r<20>, tid, cta, taddr, rank;
.reg .b64 out, at;
ld.param.u64 out, [result];
mov.u32 tid, %tid.x;
mov.u32 cta, %ctaid.x;
mov.u32 rank, %cluster_ctarank;
mul.wide.u32 at, cta, 4;
add.u64 at, at, out;
{body}
ret;
}}
""").kernel()


def run(body: str, ctas: int = 1, **options):
    out = np.full(ctas, 0xDEAD, np.uint32)
    result = kernel(body).launch(grid=ctas, block=options.pop("block", 32), args=[out], **options)
    return out, result


def alloc(columns: int | str, at: int = 0, group: int = 1) -> str:
    return f"tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot+{at}], {columns};\nld.shared.u32 taddr, [slot+{at}];\n"


def dealloc(columns: int, group: int = 1) -> str:
    return f"tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 taddr, {columns};\n"


STORE = "st.global.u32 [at], taddr;\n"


def test_first_allocation_is_column_0_and_the_option_moves_it():
    body = alloc(128) + STORE + dealloc(128)
    out, result = run(body)
    assert result.ok
    assert out[0] == 0
    out, result = run(body, tmem_offset=96)
    assert result.ok
    assert out[0] == 96


def test_modifiers_in_any_order_and_a_generic_address():
    out, result = run(
        "cvta.shared.u64 out, slot;\ntcgen05.alloc.b32.aligned.cta_group::1.sync [out], 64;\nld.shared.u32 taddr, [slot];\n"
        + STORE
        + "tcgen05.relinquish_alloc_permit.aligned.cta_group::1.sync;\n"
        + dealloc(64)
    )
    assert result.ok
    assert out[0] == 0


def test_ctas_on_one_sm_share_the_columns_and_wait_for_them():
    # Nobody releases before two CTAs hold columns; the others can only start with what is released.
    meet = """setp.eq.u32 p, tid, 0;
@p atom.global.add.u32 r1, [out+32], 1;
L: ld.acquire.gpu.global.u32 r1, [out+32];
setp.lt.u32 p, r1, 2;
@p bra L;
"""
    body = alloc(256) + STORE + meet + dealloc(256)
    out = np.zeros(9, np.uint32)
    result = kernel(body).launch(grid=6, block=32, args=[out], device=ptxlab.Device("sm_100a", sms=1))
    assert result.ok
    assert sorted(out[:2].tolist()) == [0, 256]
    assert set(out[:6].tolist()) == {0, 256}
    assert out[8] == 6


def test_a_pair_gets_the_same_columns():
    body = alloc(64, group=2) + STORE + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n" + dealloc(64, group=2)
    out, result = run(body, ctas=4, cluster=2)
    assert result.ok
    assert out.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_pairs_on_the_same_sms_wait_for_each_other(policy):
    body = alloc(512, group=2) + STORE + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n" + dealloc(512, group=2)
    out, result = run(body, ctas=8, cluster=2, device=ptxlab.Device("sm_100a", sms=2), policy=policy)
    assert result.ok
    assert out.tolist() == [0] * 8


def test_fresh_columns_hold_no_numbers():
    """Neither zeros nor what the CTA before has left: a NaN, as one f32 and as two f16."""
    write = "mov.u32 r1, 7;\ntcgen05.st.sync.aligned.32x32b.x1.b32 [taddr], {r1};\ntcgen05.wait::st.sync.aligned;\n"
    read = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r1}, [taddr];\ntcgen05.wait::ld.sync.aligned;\nst.global.u32 [at], r1;\n"
    out, result = run(alloc(64) + read + write + dealloc(64), ctas=3, device=ptxlab.Device("sm_100a", sms=1), check="none")
    assert result.ok
    assert out.tolist() == [0x7FFF7FFF] * 3


def test_two_allocations_of_a_pair_in_flight():
    body = (
        alloc(128, group=2)
        + "mov.u32 r5, taddr;\n"
        + alloc(64, at=4, group=2)
        + "st.global.u32 [at], taddr;\n"
        + dealloc(64, group=2)
        + "mov.u32 taddr, r5;\n"
        + dealloc(128, group=2)
    )
    out, result = run(body, ctas=2, cluster=2)
    assert result.ok
    assert out.tolist() == [128, 128]


WRONG = {
    "size": (alloc(32).replace("32;", "48;"), "T601", "nCols is 48; it must be a power of two from 32 to 512"),
    "size in a register": ("mov.u32 r1, 1024;\n" + alloc("r1"), "T601", "nCols is 1024; it must be a power of two from 32 to 512"),
    "after relinquish": (
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" + alloc(32),
        "T602",
        "tcgen05.alloc in CTA (0, 0, 0) after one of its threads executed tcgen05.relinquish_alloc_permit",
    ),
    "destination": (
        alloc(32, at=2),
        "T603",
        "the destination 0x402 is not an aligned 4-byte word in the shared memory of the executing CTA",
    ),
    "wrong size": (
        alloc(64) + dealloc(32),
        "T604",
        "tcgen05.dealloc of 32 columns at 0x0: the allocation at column 0 has 64 columns, not 32",
    ),
    "twice": (alloc(64) + dealloc(64) + dealloc(64), "T604", "tcgen05.dealloc of 64 columns at 0x0: no allocation starts at column 0"),
    "wrong column": (
        alloc(64) + "add.u32 taddr, taddr, 32;\n" + dealloc(64),
        "T604",
        "tcgen05.dealloc of 64 columns at 0x20: column 32 lies inside the allocation that starts at column 0",
    ),
    "lane": (
        alloc(64) + "add.u32 taddr, taddr, 0x10000;\n" + dealloc(64),
        "T604",
        "tcgen05.dealloc of 64 columns at 0x10000: lane 1 is not 0",
    ),
    "leak": (alloc(64), "T605", "CTA (0, 0, 0) exits with 64 columns of tensor memory allocated at column 0"),
    "groups": (
        alloc(64) + dealloc(64, group=2),
        "T606",
        "tcgen05.dealloc.cta_group::2.sync.aligned.b32 follows tcgen05 instructions with .cta_group::1 in the same kernel",
    ),
    "no peer": (
        alloc(64, group=2),
        "T609",
        "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 needs the peer CTA of CTA (0, 0, 0), "
        "which is not in the cluster or has exited",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_programs_are_told(case):
    body, code, message = WRONG[case]
    _, result = run(body)
    errors = [d for d in result.diagnostics if d.severity == "error"]
    assert [(d.code, d.message) for d in errors] == [(code, message)]
    assert errors[0].place is not None or case == "leak"
    assert errors[0].reason
    assert errors[0].fix


def test_a_peer_that_has_exited():
    """A pair's instruction needs both CTAs: section "CTA Pair"."""
    body = alloc(32, group=2) + dealloc(32, group=2) + "setp.eq.u32 p, rank, 1;\n@p bra END;\n"
    wait = "mov.u32 r1, 0;\nL: add.u32 r1, r1, 1;\nsetp.lt.u32 p, r1, 300000;\n@p bra L;\n"
    _, result = run(body + wait + "setp.eq.u32 p, tid, 0;\n@p tcgen05.shift.cta_group::2.down [taddr];\nEND:\n", ctas=2, cluster=2)
    assert [(d.code, d.message) for d in result.diagnostics] == [
        (
            "T609",
            "tcgen05.shift.cta_group::2.down needs the peer CTA of CTA (0, 0, 0), which is not in the cluster or has exited",
        )
    ]


def test_growing_allocations_are_a_warning():
    _, result = run(alloc(32) + "mov.u32 r5, taddr;\n" + alloc(64) + dealloc(64) + "mov.u32 taddr, r5;\n" + dealloc(32))
    assert [(d.code, d.severity, d.message) for d in result.diagnostics] == [
        ("T608", "warning", "64 columns are allocated after an allocation of 32: the sizes must not grow")
    ]


def test_a_pair_that_asks_for_different_sizes():
    body = "shl.b32 r1, 32, rank;\n" + alloc("r1", group=2)
    _, result = run(body, ctas=2, cluster=2)
    with pytest.raises(KernelError) as error:
        result.raise_for_errors()
    assert error.value.diagnostic.code == "T610"
    assert error.value.diagnostic.message in (
        "CTA rank 1 allocates 64 columns and its peer, rank 0, 32",
        "CTA rank 0 allocates 32 columns and its peer, rank 1, 64",
    )


def hang(body: str, **options) -> Diagnostic:
    _, result = run(body, **options)
    (found,) = (d for d in result.diagnostics if d.severity == "error")
    assert found.code == "H601"
    return found


def test_waiting_for_ever_is_reported_with_what_is_held():
    found = hang(alloc(512) + alloc(512))
    (text,) = (value for name, value in found.details if name.startswith("CTA (0"))
    assert text.endswith(
        "tcgen05.alloc of 512 columns waits until that many columns are free on the SM [held by CTA (0, 0, 0): columns 0-511]"
    )
    assert found.fix == "execute tcgen05.dealloc before this allocation, or allocate at most 512 columns in total"


def test_waiting_for_another_cta_of_the_sm_names_it():
    """CTA 0 holds half of the SM and waits at a barrier; CTA 1 wants more than the rest."""
    body = "setp.eq.u32 p, cta, 0;\n@!p bra OTHER;\n" + alloc(256) + "bar.sync 1, 64;\nOTHER:\n" + alloc(512)
    found = hang(body, ctas=2, device=ptxlab.Device(sms=1, ctas_per_sm=2))
    (text,) = (value for name, value in found.details if name == "CTA (1, 0, 0) warp 0 lanes 0-31")
    assert text.endswith("[held by CTA (0, 0, 0): columns 0-255]")


MEET = """
xor.b32 r1, cta, 1;
mul.wide.u32 at, r1, 4;
add.u64 at, at, out;
SPIN:
ld.volatile.global.u32 r2, [at];
setp.eq.u32 p, r2, 57005;
@p bra SPIN;
"""


def test_two_ctas_that_wait_for_each_others_columns():
    found = hang(alloc(256) + STORE + MEET + alloc(32), ctas=2, device=ptxlab.Device(sms=1, ctas_per_sm=2), check="none")
    (text,) = (value for name, value in found.details if name == "CTAs (0-1, 0, 0) warp 0 lanes 0-31")
    assert text.endswith("[held by CTA (0, 0, 0): columns 0-255; held by CTA (1, 0, 0): columns 256-511]")
    assert found.fix == (
        "let CTA (1, 0, 0) execute tcgen05.dealloc without waiting for this one; or keep the CTAs on different SMs: "
        "request more shared memory, or launch with ptxlab.Device(ctas_per_sm=1)"
    )


def test_a_pair_of_which_one_cta_does_not_allocate():
    body = "setp.eq.u32 p, rank, 0;\n@!p bra.uni OTHER;\n" + alloc(64, group=2) + "OTHER:\nbar.sync 1, 64;\n"
    found = hang(body, ctas=2, cluster=2)
    text = next(value for name, value in found.details if name.startswith("CTA (0"))
    assert "of 64 columns waits for the same instruction in the peer CTA [CTA ranks of the pair: 0, 1]" in text
    assert found.fix in (
        "let both CTAs of the pair execute tcgen05.alloc.cta_group::2 with the same number of columns",
        "more threads are expected at barrier 1 than there are: correct the thread count at line 29",
    )
