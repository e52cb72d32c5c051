"""A loop of block-scaled products: in each turn A, B and their scale factors are copied, by threads or by boxes of tensor maps.

A and B come from two arrays; a turn has one step of 128 bytes of k, which four instructions take, all with the same scale factors.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import ptxlab
from ptxlab.descriptors import InstructionDescriptor

TURNS, LATE = 7, 4
"""The turns of a loop, and the one in which something may be wrong: there ``late`` holds."""
MMA = "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [d], ad, bd, idesc, [fa], [fb], acc;"
TO_A = "tcgen05.cp.cta_group::1.32x128b.warpx4 [fa], sa;"
TO_B = "tcgen05.cp.cta_group::1.32x128b.warpx4 [fb], sb;"
LOAD_FACTORS = "ld.global.b32 x0, [scales]; ld.global.b32 x1, [scales+512];"
STORE_FACTORS = "st.shared.b32 [to], x0; st.shared.b32 [to+512], x1;"
COPY = "ld.global.v4.b32 {x0, x1, x2, x3}, [from]; st.shared.v4.b32 [to], {x0, x1, x2, x3};"
COPY_OF_B = "add.u64 w, from, apart; ld.global.v4.b32 {x0, x1, x2, x3}, [w]; st.shared.v4.b32 [to+16384], {x0, x1, x2, x3};"
FACTORS_OF_TURN = "mad.lo.u32 x1, cta, turns, i;"
BOX = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
BOX_OF_FACTORS = f"{BOX} [to], [p_s, {{x0, x1}}], [full];"
ANEW = "setp.ne.u32 acc, n, 0;"
_LOADED = ", ".join(f"f{i}" for i in range(64))
_STORED = "\n".join(f"st.global.f32 [out+{4 * i}], f{i};" for i in range(64))
REST_OF_LOOP = f"""add.u32 n, n, 1; add.u32 k, k, 1;
setp.lt.u32 q, k, 4;
@q bra STEP;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
NEXT:
add.u32 i, i, 1;
setp.lt.u32 more, i, turns;
@more bra TURN;
sub.u32 parity, i, 1; and.b32 parity, parity, 1;
LAST: mbarrier.try_wait.parity.shared::cta.b64 q, [done], parity; @!q bra LAST;
tcgen05.ld.sync.aligned.32x32b.x64.b32 {{{_LOADED}}}, [d];
tcgen05.wait::ld.sync.aligned;
ld.param.u64 out, [p_c];
mad.lo.u32 own, cta, 128, tid;
mul.wide.u32 w, own, 256; add.u64 out, out, w;
{_STORED}"""
"""What follows the product of a step: the next of four steps, the commit, the next turn; at the end each thread stores its row."""
_BY_THREADS = f"""
mov.u32 k, 0; mov.u64 from, row;
CHUNK:
xor.b32 to, k, part; shl.b32 to, to, 4; add.u32 to, to, own;
{COPY}
{COPY_OF_B}
add.u64 from, from, 16; add.u32 k, k, 1;
setp.lt.u32 q, k, 8;
@q bra CHUNK;
add.u64 row, row, 128;
mov.u32 to, factors; shl.b32 k, tid, 2; add.u32 to, to, k;
{LOAD_FACTORS}
{STORE_FACTORS}
add.u64 scales, scales, 1024;
mov.u32 buffer, 0;
fence.proxy.async.shared::cta;
bar.sync 0;
@!one bra NEXT;
"""
_BY_BOXES = f"""
bar.sync 0;
@!one bra NEXT;
and.b32 buffer, i, 1;
mbarrier.arrive.expect_tx.shared::cta.b64 w, [full], 33792;
shl.b32 to, buffer, 15; add.u32 to, to, tile;
shl.b32 x0, i, 7; shl.b32 x1, cta, 7;
{BOX} [to], [p_a, {{x0, x1}}], [full];
add.u32 to, to, 16384;
{BOX} [to], [p_b, {{x0, x1}}], [full];
shl.b32 to, buffer, 10; mov.u32 x0, factors; add.u32 to, to, x0;
mov.u32 x0, 0; {FACTORS_OF_TURN} shl.b32 x1, x1, 1;
{BOX_OF_FACTORS}
FULL: mbarrier.try_wait.parity.shared::cta.b64 q, [full], buffer; @!q bra FULL;
"""
_ARRAYS = """ld.param.u64 row, [p_a]; ld.param.u64 apart, [p_b]; ld.param.u64 scales, [p_s];
sub.u64 apart, apart, row;
mad.lo.u32 own, cta, 128, tid; mul.wide.u32 w, own, pitch; add.u64 row, row, w;
mul.wide.u32 w, cta, 1024; cvt.u64.u32 from, turns; mul.lo.u64 w, w, from; add.u64 scales, scales, w;
mul.wide.u32 w, tid, 4; add.u64 scales, scales, w;"""


def loop(boxes: bool, turns: int = TURNS) -> str:
    """The kernel."""
    given = ", ".join(f".param .align 64 .b8 {name}[128]" if boxes else f".param .u64 {name}" for name in ("p_a", "p_b", "p_s"))
    return f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry scaled({given}, .param .u64 p_c)
{{
.reg .pred warp0, one, q, late, acc, more;
.reg .b32 fa, fb, tid, tile, slot, done, full, d, idesc, own, part, i, k, n, to, parity, cta, turns, pitch, buffer, x<4>;
.reg .b64 sa, sb, from, row, apart, scales, desc, ad, bd, out, w;
.reg .f32 f<64>;
.shared .align 1024 .b8 tiles[65536];
.shared .align 128 .b8 factors[2048];
.shared .align 8 .b64 barrier;
.shared .align 8 .b64 filled;
.shared .align 4 .b32 columns;
mov.u32 tid, %tid.x; mov.u32 cta, %ctaid.x; mov.u32 turns, {turns}; mov.u32 pitch, {128 * turns};
setp.lt.u32 warp0, tid, 32; setp.eq.u32 one, tid, 0;
mov.u32 tile, tiles; mov.u32 slot, columns; mov.u32 done, barrier; mov.u32 full, filled;
@warp0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;
@one mbarrier.init.shared::cta.b64 [done], 1;
@one mbarrier.init.shared::cta.b64 [full], 1;
fence.mbarrier_init.release.cluster;
{"" if boxes else _ARRAYS}
shl.b32 own, tid, 7; add.u32 own, own, tile; and.b32 part, tid, 7;
mov.b32 idesc, {_instruction(128)};
bar.sync 0;
ld.shared.b32 d, [slot]; add.u32 fa, d, 64; add.u32 fb, d, 68;
shr.u32 k, tile, 4; cvt.u64.u32 desc, k; or.b64 desc, desc, 0x4000404000010000;
mov.u32 i, 0; mov.u32 n, 0;
TURN:
setp.eq.u32 late, i, {LATE};
setp.eq.u32 q, i, 0;
@q bra FIRST;
sub.u32 parity, i, 1; and.b32 parity, parity, 1;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 q, [done], parity; @!q bra WAIT;
FIRST:
{_BY_BOXES if boxes else _BY_THREADS}
shl.b32 k, buffer, 11; cvt.u64.u32 w, k; add.u64 ad, desc, w; add.u64 bd, ad, 1024;
mov.u32 to, factors; shl.b32 k, buffer, 10; add.u32 to, to, k; shr.u32 to, to, 4;
cvt.u64.u32 sa, to; or.b64 sa, sa, 0x0000400800010000; add.u64 sb, sa, 32;
{TO_A}
{TO_B}
mov.u32 k, 0;
STEP:
{ANEW}
{MMA}
add.u64 ad, ad, 2; add.u64 bd, bd, 2;
{REST_OF_LOOP}
bar.sync 0;
@warp0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 d, 128;
ret;
}}
"""


def of_pairs(boxes: bool, turns: int = TURNS) -> str:
    """The same for CTA pairs: the first thread of the pair copies to the tensor memory of both, and multiplies."""
    text = loop(boxes, turns)
    meet = "barrier.cluster.arrive; barrier.cluster.wait;"
    changes = {
        f"mov.b32 idesc, {_instruction(128)};": f"mov.b32 idesc, {_instruction(256)};",
        "p_c)\n{": "p_c)\n.reqnctapercluster 2, 1, 1\n{",
        ".reg .pred warp0,": ".reg .b16 both;\n.reg .pred leader, warp0,",
        "mov.u32 turns,": "mov.u16 both, 3; mov.u32 k, %cluster_ctarank; setp.eq.u32 leader, k, 0; mov.u32 turns,",
        "setp.eq.u32 one, tid, 0;": "setp.eq.u32 one, tid, 0; and.pred leader, leader, one;",
        "bar.sync 0;\nld.shared.b32 d,": f"{meet}\nld.shared.b32 d,",
        "arrive::one.shared::cluster.b64 [done];": "arrive::one.shared::cluster.multicast::cluster.b64 [done], both;",
        "bar.sync 0;\n@warp0 tcgen05.dealloc": f"{meet}\n@warp0 tcgen05.dealloc",
    }
    if boxes:
        changes |= {"@!one bra NEXT;": "@!one bra JOIN;", "@!q bra FULL;": f"@!q bra FULL;\nJOIN: {meet}\n@!leader bra NEXT;"}
    else:
        changes["@!one bra NEXT;"] = f"{meet}\n@!leader bra NEXT;"
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text.replace("cta_group::1", "cta_group::2")


_COMPUTED_B = {COPY_OF_B: COPY_OF_B.replace("st.shared", "add.u32 x0, x0, 0; add.u32 x1, x1, 0; st.shared")}
_LINE = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
_BULK_A = {
    "mov.u32 k, 0; mov.u64 from, row;": """@one mbarrier.arrive.expect_tx.shared::cta.b64 w, [full], BYTES;
mov.u32 k, 0; mov.u64 from, row;""",
    COPY: f"{_LINE} [to], [from], 16, [full];",
    "mov.u32 buffer, 0;": """and.b32 buffer, i, 1;
FULL: mbarrier.try_wait.parity.shared::cta.b64 q, [full], buffer; @!q bra FULL;
mov.u32 buffer, 0;""",
}
_BULK_B = {COPY_OF_B: f"add.u64 w, from, apart; add.u32 x0, to, 16384; {_LINE} [x0], [w], 16, [full];"}
MIXED = {
    "computed B": _COMPUTED_B,
    "bulk A": _BULK_A | {"BYTES": "16384"},
    "bulk A and B": _BULK_A | _BULK_B | {"BYTES": "32768"},
    "bulk A, computed B": _BULK_A | _COMPUTED_B | {"BYTES": "16384"},
}
"""How threads copy A and B otherwise: bulk copies of 16 bytes for each lane, or after a computation."""


def mixed(way: str, turns: int = TURNS, *, pairs: bool = False) -> str:
    """The kernel in which A and B come in one of these ways, or that for CTA pairs."""
    text = (of_pairs if pairs else loop)(False, turns)
    for old, new in MIXED[way].items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def _instruction(m: int) -> int:
    return int(InstructionDescriptor(kind="mxf8f6f4", m=m, n=64, a="e4m3", b="e4m3", scale="ue8m0"))


def launch(text: str, boxes: bool, turns: int = TURNS, ctas: int = 1, **options: Any) -> tuple[Any, bytes]:
    """The result, and what has been computed."""
    random = np.random.default_rng(9)
    a, b = (random.integers(-3, 4, (128 * ctas, 128 * turns)).astype(ml_dtypes.float8_e4m3fn) for _ in range(2))
    scales = random.integers(125, 130, (2 * ctas * turns, 512), dtype=np.uint8).view(np.uint32)
    c = np.zeros((128 * ctas, 64), np.float32)
    given: list[Any] = [a, b, scales]
    if boxes:
        given = [ptxlab.TensorMap(each, box=(128, 128), swizzle="128B") for each in (a, b)] + [ptxlab.TensorMap(scales, box=(128, 2))]
    result = ptxlab.loads(text, file="scaled.ptx").kernel().launch(grid=ctas, block=128, args=[*given, c], **options)
    return result, c.tobytes()
