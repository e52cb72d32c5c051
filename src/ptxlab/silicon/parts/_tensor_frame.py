"""The frame of kernels with tensor memory: allocate, fill shared and tensor memory, run instructions, read tensor memory."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["FRAME", "WORDS", "frame"]

WORDS = ("ad", "bd", "id", "da", "ta", "sa", "sb", "sp", "en", "zd", "m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7")
"""What the kernel reads for each CTA: descriptors relative to shared memory, tensor memory addresses relative to the allocation, ..."""
FRAME = (
    "tcgen05.alloc.cta_group::{}.sync.aligned.shared::cta.b32",
    "tcgen05.relinquish_alloc_permit.cta_group::{}.sync.aligned",
    "tcgen05.dealloc.cta_group::{}.sync.aligned.b32",
    "tcgen05.wait::st.sync.aligned",
    "tcgen05.wait::ld.sync.aligned",
    "tcgen05.fence::before_thread_sync",
    "tcgen05.fence::after_thread_sync",
)
"""Opcodes of every kernel; the CTA group is filled in."""


def frame(
    first: str,
    instructions: Sequence[str],
    *,
    group: int,
    image: int,
    stored: int,
    read: int,
    first_read: int = 0,
    allocated: int = 64,
    every_thread: bool = False,
) -> str:
    """A kernel of 128 threads for each CTA.

    Parameters
    ----------
    first : the first lines of the module
    instructions : executed by one thread of a CTA group and completed by a commit, or by ``every_thread`` in order
    group : CTAs of a group
    image : bytes of shared memory that a CTA is given
    stored, read : columns of tensor memory that are written before, and read after from ``first_read`` on
    """
    meet = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" if group == 2 else "bar.sync 0;"
    commit = (
        "mov.b16 h, 3;\n@p tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar], h;"
        if group == 2
        else "@p tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];"
    )
    lead = "and.b32 v, cta, 1;\nsetp.eq.u32 q, v, 0;\nsetp.eq.and.u32 p, tid, 0, q;" if group == 2 else "setp.eq.u32 p, tid, 0;"
    narrow = [name for name in WORDS if name not in ("ad", "bd", "zd")]
    if every_thread:
        middle = "\n".join(instructions)
    else:
        issued = "\n".join(f"@p {line}" for line in instructions)
        middle = f"""{issued}
{commit}
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0;
@!q bra WAIT;"""
    fill = f"""mov.u32 i, tid;
IN:
shl.b32 w, i, 4;
cvt.u64.u32 g, w;
add.u64 g, g, im;
add.u32 w, w, w0;
ld.global.v4.u32 {{x0, x1, x2, x3}}, [g];
st.shared.v4.u32 [w], {{x0, x1, x2, x3}};
add.u32 i, i, 128;
setp.lt.u32 q, i, {image // 16};
@q bra IN;"""
    return f"""{first}.visible .entry k(.param .u64 p_image, .param .u64 p_words, .param .u64 p_before, .param .u64 p_after)
{".explicitcluster .reqnctapercluster 2, 1, 1" if group == 2 else ""}
{{
.shared .align 1024 .b8 data[{max(image, 16)}];
.shared .align 8 .b64 barrier;
.shared .align 4 .b32 slot;
.reg .pred p, q, e;
.reg .b16 h;
.reg .b32 tid, warp, cta, i, n, w, bar, taddr, base, at, v, w0, {", ".join(narrow)}, x<4>;
.reg .b64 im, be, af, wo, g, c, s, ad, bd, zd;
ld.param.u64 im, [p_image];
ld.param.u64 wo, [p_words];
ld.param.u64 be, [p_before];
ld.param.u64 af, [p_after];
mov.u32 tid, %tid.x;
shr.u32 warp, tid, 5;
mov.u32 cta, %ctaid.x;
mov.u32 bar, barrier;
mov.u32 w0, data;
mad.wide.u32 im, cta, {image}, im;
mad.wide.u32 wo, cta, {8 * len(WORDS)}, wo;
mad.wide.u32 be, cta, {stored * 512}, be;
mad.wide.u32 af, cta, {read * 512}, af;
{"".join(f"ld.global.{'u64' if name not in narrow else 'u32'} {name}, [wo+{8 * i}];" for i, name in enumerate(WORDS))}
setp.ne.u32 e, en, 0;
setp.eq.u32 q, warp, 0;
@q tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], {allocated};
@q tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
{fill if image else ""}
setp.eq.u32 q, tid, 0;
@q mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
fence.proxy.async.shared::cta;
{meet}
ld.shared.u32 base, [slot];
shl.b32 n, warp, 21;
add.u32 taddr, base, n;
mov.u32 i, 0;
ST:
mad.lo.u32 w, i, 128, tid;
mad.wide.u32 g, w, 4, be;
ld.global.u32 v, [g];
add.u32 at, taddr, i;
tcgen05.st.sync.aligned.32x32b.x1.b32 [at], {{v}};
add.u32 i, i, 1;
setp.lt.u32 q, i, {stored};
@q bra ST;
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
{meet}
tcgen05.fence::after_thread_sync;
shr.u32 v, w0, 4;
cvt.u64.u32 s, v;
add.u64 ad, ad, s;
add.u64 bd, bd, s;
add.u32 da, da, base;
add.u32 ta, ta, base;
add.u32 sa, sa, base;
add.u32 sb, sb, base;
add.u32 sp, sp, base;
{lead}
{middle}
tcgen05.fence::after_thread_sync;
mov.u32 i, 0;
LD:
add.u32 at, taddr, i;
add.u32 at, at, {first_read};
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{v}}, [at];
tcgen05.wait::ld.sync.aligned;
mad.lo.u32 w, i, 128, tid;
mad.wide.u32 g, w, 4, af;
st.global.u32 [g], v;
add.u32 i, i, 1;
setp.lt.u32 q, i, {read};
@q bra LD;
tcgen05.fence::before_thread_sync;
{meet}
setp.eq.u32 q, warp, 0;
@q tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 base, {allocated};
ret;
}}
"""
