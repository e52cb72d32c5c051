"""A kernel around one tcgen05 instruction: shared memory and tensor memory are given, tensor memory comes back."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ptxlab

IMAGE = 1 << 17
"""Bytes of shared memory that a CTA is given, from offset 0x400 on."""
BASE = 0x400
VALUES = ("memory", "barrier", "tmem", "descriptor", "register")
"""All checks but that of the order of events, which sweeps over values leave out."""
WORDS = (*(f"m{i}" for i in range(8)), "sa", "sb", "sp")
"""32-bit registers of the kernel that the caller sets."""

Cells = NDArray[np.uint32]


@cache
def _kernel(instruction: str, group: int, target: str, issuer: int, columns: int) -> ptxlab.Kernel:
    first = "setp.eq.and.u32 p, tid, 0, lead;" if group == 2 else "setp.eq.u32 p, tid, 0;"
    # In a pair one CTA issues, and the commit signals both.
    commit = (
        "mov.b16 h, 3;\n@p tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar], h;"
        if group == 2
        else "@p tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [bar];"
    )
    meet = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" if group == 2 else "bar.sync 0;"
    text = f"""
.version 9.0
.target {target}
.address_size 64
.visible .entry k(
 .param .u64 p_image, .param .u64 p_before, .param .u64 p_after, .param .u64 p_a, .param .u64 p_b, .param .u32 p_idesc, .param .u32 p_d,
 .param .u32 p_enable, {", ".join(f".param .u32 p_{name}" for name in WORDS)}, .param .u64 p_zd)
{{
.shared .align 1024 .b8 data[{IMAGE}];
.shared .align 8 .b64 barrier;
.shared .align 4 .b32 slot;
.reg .pred p, q, e, lead;
.reg .b16 h;
.reg .b32 tid, warp, lane, cta, i, n, w, bar, taddr, at, v, id, da, ta, m<8>, sa, sb, sp, en, w0;
.reg .b64 im, be, af, g, ad, bd, zd, c;
.reg .b32 x<4>;
ld.param.u64 im, [p_image];
ld.param.u64 be, [p_before];
ld.param.u64 af, [p_after];
ld.param.u64 ad, [p_a];
ld.param.u64 bd, [p_b];
ld.param.u32 id, [p_idesc];
ld.param.u32 da, [p_d];
ld.param.u32 en, [p_enable];
{"".join(f"ld.param.u32 {name}, [p_{name}];" for name in WORDS)}
ld.param.u64 zd, [p_zd];
mov.u32 tid, %tid.x;
shr.u32 warp, tid, 5;
mov.u32 lane, %laneid;
mov.u32 cta, %ctaid.x;
and.b32 v, cta, 1;
setp.eq.u32 lead, v, {issuer};
setp.ne.u32 e, en, 0;
mov.u32 bar, barrier;
mov.u32 w0, data;
mul.wide.u32 c, cta, {IMAGE};
add.u64 im, im, c;
mul.wide.u32 c, cta, {512 * 128 * 4};
add.u64 be, be, c;
add.u64 af, af, c;
{first}
setp.eq.u32 q, warp, 0;
@q tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], 512;
mov.u32 i, tid;
IN:
shl.b32 w, i, 4;
cvt.u64.u32 g, w;
add.u64 g, g, im;
add.u32 w, w, w0;
ld.global.v4.u32 {{x0, x1, x2, x3}}, [g];
st.shared.v4.u32 [w], {{x0, x1, x2, x3}};
add.u32 i, i, 128;
setp.lt.u32 q, i, {IMAGE // 16};
@q bra IN;
setp.eq.u32 q, tid, 0;
@q mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
fence.proxy.async.shared::cta;
{meet}
ld.shared.u32 taddr, [slot];
shl.b32 n, warp, 21;
add.u32 taddr, taddr, n;
mov.u32 i, 0;
ST:
mad.lo.u32 w, i, 128, tid;
mul.wide.u32 g, w, 4;
add.u64 g, g, be;
ld.global.u32 v, [g];
add.u32 at, taddr, i;
tcgen05.st.sync.aligned.32x32b.x1.b32 [at], {{v}};
add.u32 i, i, 1;
setp.lt.u32 q, i, {columns};
@q bra ST;
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
{meet}
tcgen05.fence::after_thread_sync;
ld.shared.u32 ta, [slot];
add.u32 da, da, ta;
cvt.u32.u64 at, ad;
@p {instruction};
{commit}
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0;
@!q bra WAIT;
tcgen05.fence::after_thread_sync;
mov.u32 i, 0;
LD:
add.u32 at, taddr, i;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{v}}, [at];
tcgen05.wait::ld.sync.aligned;
mad.lo.u32 w, i, 128, tid;
mul.wide.u32 g, w, 4;
add.u64 g, g, af;
st.global.u32 [g], v;
add.u32 i, i, 1;
setp.lt.u32 q, i, 512;
@q bra LD;
{meet}
ld.shared.u32 taddr, [slot];
setp.eq.u32 q, warp, 0;
@q tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
@q tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 taddr, 512;
ret;
}}
"""
    return ptxlab.loads(text).kernel()


def launch(
    instruction: str,
    image: NDArray[np.uint8],
    before: Cells,
    *,
    a: int = 0,
    b: int = 0,
    idesc: int = 0,
    d: int = 0,
    enable: bool = True,
    mask: tuple[int, ...] = (0,) * 8,
    factors: tuple[int, int] = (0, 0),
    metadata: int = 0,
    zero_columns: int = 0,
    group: int = 1,
    target: str = "sm_100a",
    issuer: int = 0,
    columns: int = 512,
    **options: Any,
) -> tuple[Cells, ptxlab.Result]:
    """Tensor memory [CTA, column, lane] after one instruction, and what the launch found.

    The instruction may name the registers da (a tensor memory address), ad and bd (b64), at (the low half of ad), id, e (predicate), m0-m7,
    sa and sb (``factors``), sp (``metadata``), zd (``zero_columns``, b64). ``issuer`` is the CTA of a pair that issues it.
    So many ``columns`` of tensor memory are written before.
    """
    after = np.zeros_like(before)
    result = _kernel(instruction, group, target, issuer, columns).launch(
        grid=group,
        block=128,
        cluster=group,
        args=[image, before, after, a, b, idesc, d, int(enable), *mask, *factors, metadata, zero_columns],
        **{"check": VALUES, **options},
    )
    return after, result


def execute(instruction: str, image: NDArray[np.uint8], before: Cells, **given: Any) -> Cells:
    """Tensor memory after one instruction that nothing is said against; arguments as of `launch`."""
    after, result = launch(instruction, image, before, **given)
    result.raise_for_errors()
    assert result.diagnostics == ()
    return after


def random_state(rng: np.random.Generator, group: int) -> tuple[NDArray[np.uint8], Cells]:
    """Bytes and cells that an instruction must leave alone."""
    return (
        rng.integers(0, 256, (group, IMAGE), np.uint8),
        rng.integers(0, 1 << 32, (group, 512, 128), np.uint32),
    )
