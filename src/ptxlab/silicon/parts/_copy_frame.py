"""Kernels with one tensor copy: shared memory and tensors are images of words, coordinates are inputs."""

from __future__ import annotations

__all__ = ["IMAGE", "WORDS", "load_kernel", "store_kernel"]

IMAGE = 8192
"""Bytes of shared memory that a CTA has."""
WORDS = ("c0", "c1", "c2", "c3", "c4", "o0", "o1", "o2", "expect", "offset")
"""What a kernel reads for each CTA: coordinates, im2col offsets, bytes that complete the copy, where it begins in shared memory."""
_TRIES = 2000


def _begin(first: str, parameters: str, directives: str) -> str:
    loads = "".join(f"ld.global.u32 {name}, [wo+{4 * i}];" for i, name in enumerate(WORDS))
    return f"""{first}.visible .entry k({parameters}, .param .align 64 .b8 p_map[128])
{directives}
{{
.shared .align 1024 .b8 data[{IMAGE}];
.shared .align 8 .b64 barrier;
.reg .pred p, q, r;
.reg .b16 h<3>;
.reg .b32 tid, cta, i, w, s, v, at, bar, {", ".join(WORDS)};
.reg .b64 wo, im, out, map, g;
mov.u32 tid, %tid.x;
mov.u32 cta, %ctaid.x;
mov.u32 s, data;
mov.u32 bar, barrier;
mov.b64 map, p_map;
cvta.param.u64 map, map;
ld.param.u64 wo, [p_words];
mad.wide.u32 wo, cta, {4 * len(WORDS)}, wo;
{loads}
cvt.u16.u32 h0, o0; cvt.u16.u32 h1, o1; cvt.u16.u32 h2, o2;
add.u32 at, s, offset;
setp.eq.u32 p, tid, 0;"""


def _all_words(label: str, size: str, body: str) -> str:
    """For each 32-bit word of so many bytes, its byte offset in w; the threads share them."""
    return f"""mov.u32 i, tid;
{label}:
shl.b32 w, i, 2;
{body}
add.u32 i, i, 128;
shl.b32 w, i, 2;
setp.lt.u32 r, w, {size};
@r bra {label};"""


def load_kernel(first: str, opcode: str, coordinates: int, offsets: int = 0, multicast: bool = False) -> str:
    """A kernel that loads, and writes shared memory and whether the expected bytes came.

    With ``multicast`` the first of two CTAs loads into both.
    """
    vector = ", ".join(f"c{i}" for i in range(coordinates))
    more = f", {{{', '.join(f'h{i}' for i in range(offsets))}}}" if offsets else ", h0" if multicast else ""
    synchronise = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" if multicast else "bar.sync 0;"
    leader = "setp.eq.and.u32 q, cta, 0, p;" if multicast else "and.pred q, p, p;"
    return f"""{
        _begin(
            first,
            ".param .u64 p_tensor, .param .u64 p_words, .param .u64 p_image, .param .u64 p_done",
            ".explicitcluster .reqnctapercluster 2, 1, 1" if multicast else "",
        )
    }
ld.param.u64 im, [p_image];
ld.param.u64 out, [p_done];
mad.wide.u32 im, cta, {IMAGE}, im;
mad.wide.u32 out, cta, 4, out;
{_all_words("FILL", str(IMAGE), "add.u32 v, s, w; st.shared.u32 [v], 0xEEEEEEEE;")}
@p mbarrier.init.shared::cta.b64 [bar], 1;
@p fence.mbarrier_init.release.cluster;
fence.proxy.async;
bar.sync 0;
@p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], expect;
{synchronise}
{leader}
@q {opcode} [at], [map, {{{vector}}}], [bar]{more};
mov.u32 i, 0;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0;
@q bra DONE;
add.u32 i, i, 1;
setp.lt.u32 r, i, {_TRIES};
@r bra WAIT;
bra LEAVE;
DONE:
@p st.global.u32 [out], 1;
{_all_words("OUT", str(IMAGE), "add.u32 v, s, w; cvt.u64.u32 g, w; add.u64 g, g, im; ld.shared.u32 v, [v]; st.global.u32 [g], v;")}
LEAVE:
{synchronise}
ret;
}}
"""


def store_kernel(first: str, opcode: str, coordinates: int, size: int) -> str:
    """A kernel that stores shared memory into a tensor of ``size`` bytes, or adds to it, after it has written the tensor."""
    vector = ", ".join(f"c{i}" for i in range(coordinates))
    parameters = ".param .u64 p_before, .param .u64 p_words, .param .u64 p_image, .param .u64 p_after"
    return f"""{_begin(first, parameters, "")}
ld.param.u64 im, [p_before];
ld.param.u64 out, [p_after];
{
        _all_words(
            "BEFORE",
            str(size),
            "cvt.u64.u32 g, w; add.u64 g, g, im; ld.global.u32 v, [g]; cvt.u64.u32 g, w; add.u64 g, g, out; st.global.u32 [g], v;",
        )
    }
ld.param.u64 im, [p_image];
{_all_words("FILL", str(IMAGE), "cvt.u64.u32 g, w; add.u64 g, g, im; ld.global.u32 v, [g]; add.u32 w, s, w; st.shared.u32 [w], v;")}
fence.proxy.async;
bar.sync 0;
@p {opcode} [map, {{{vector}}}], [at];
@p cp.async.bulk.commit_group;
@p cp.async.bulk.wait_group 0;
bar.sync 0;
ret;
}}
"""
