"""A loop of products of operands that come to shared memory in different ways: in boxes, in bulk copies, word by word, or computed.

A has 128 rows and B 64, of which each turn takes the next 64 columns. There are two buffers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ptxlab

from .scaled_loop_kernels import REST_OF_LOOP

TURNS, LATE = 12, 8
"""The turns of a loop, and the one in which something may be different: there ``late`` holds."""
WAYS = ("box", "bulk", "words", "computed")
WRONG_WAYS = ("plain", "shifted", "rows")
"""In boxes without swizzling; word by word, swizzled as if they began in the second row, or not swizzled."""
ROWS = {"a": 128, "b": 64}
_WIDTH = 64
_PLACES = {"a": 0, "b": 16384}
_BOX = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
_BULK = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
MMA = "tcgen05.mma.cta_group::1.kind::f16 [d], ad, bd, idesc, acc;"
NEXT_STEP = "add.u64 ad, ad, 2; add.u64 bd, bd, 2;"
DESCRIPTORS = "mov.b32 idesc, 0x08100010; mov.u64 ad, desc; add.u64 bd, desc, 1024;"
WORDS_FROM = {
    name: f"ld.param.u64 from, [p_{name}]; mad.lo.u32 k, tid, pitch, at; cvt.u64.u32 w, k; add.u64 from, from, w;" for name in "ab"
}
"""Where the words of a thread's row begin."""
TEXT = f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry product(.param .align 64 .b8 m_a[128], .param .align 64 .b8 m_b[128],
                        .param .align 64 .b8 w_a[128], .param .align 64 .b8 w_b[128], .param .u64 p_a, .param .u64 p_b,
                        .param .u64 t_a, .param .u64 t_b, .param .u64 p_c, .param .u32 p_turns)
{{
.reg .pred warp0, one, q, late, mine, acc, more;
.reg .b32 tid, tile, buffer, slot, done, full, d, idesc, part, i, k, n, own, to, parity, at, pitch, cta, turns, x<4>;
.reg .b64 from, desc, ad, bd, out, w;
.reg .f32 f<64>;
.shared .align 1024 .b8 tiles[49152];
.shared .align 8 .b64 barrier;
.shared .align 8 .b64 filled;
.shared .align 4 .b32 columns;
mov.u32 tid, %tid.x; mov.u32 cta, %ctaid.x; ld.param.u32 turns, [p_turns]; shl.b32 pitch, turns, 7;
setp.lt.u32 warp0, tid, 32; setp.eq.u32 one, tid, 0;
mov.u32 tile, tiles; mov.u32 slot, columns; mov.u32 done, barrier; mov.u32 full, filled; and.b32 part, tid, 7;
@warp0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
@one mbarrier.init.shared::cta.b64 [done], 1;
@one mbarrier.init.shared::cta.b64 [full], 1;
bar.sync 0;
ld.shared.b32 d, [slot];
mov.u32 i, 0; mov.u32 n, 0;
TURN:
setp.eq.u32 late, i, {LATE};
setp.eq.u32 q, i, 0;
@q bra FIRST;
sub.u32 parity, i, 1; and.b32 parity, parity, 1;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 q, [done], parity; @!q bra WAIT;
FIRST:
and.b32 parity, i, 1; mad.lo.u32 buffer, parity, 24576, tile; shl.b32 at, i, 7;
EXPECT
COPIES
and.b32 parity, i, 1;
FULL: mbarrier.try_wait.parity.shared::cta.b64 q, [full], parity; @!q bra FULL;
fence.proxy.async.shared::cta;
bar.sync 0;
@!one bra NEXT;
shr.u32 k, buffer, 4; cvt.u64.u32 desc, k; or.b64 desc, desc, 0x4000404000010000;
{DESCRIPTORS}
mov.u32 k, 0;
STEP:
setp.ne.u32 acc, n, 0;
{MMA}
{NEXT_STEP}
{REST_OF_LOOP}
bar.sync 0;
@warp0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 d, 64;
ret;
}}
"""


_PHASES = {"shifted": "add.u32 to, part, 1; and.b32 to, to, 7;", "rows": "mov.u32 to, 0;"}
"""What the numbers of the chunks of a row are XORed with, if not with the number of the row."""


def _bytes(name: str) -> int:
    return 128 * ROWS[name]


def _copy(name: str, way: str, label: str) -> str:
    """The part of a turn that brings an operand; ``label`` makes labels its own. A computation adds the number of the CTA, 0."""
    place = f"add.u32 to, buffer, {_PLACES[name]};"
    if way in ("box", "plain"):
        tensor = f"{'m' if way == 'box' else 'w'}_{name}"
        return f"{place} shl.b32 x0, i, 6; mov.u32 x1, 0;\n@one {_BOX} [to], [{tensor}, {{x0, x1}}], [full];"
    if way == "bulk":
        bring = f"mul.wide.u32 w, i, {_bytes(name)}; ld.param.u64 from, [t_{name}]; add.u64 from, from, w;"
        return f"{place} {bring}\n@one {_BULK} [to], [from], {_bytes(name)}, [full];"
    computed = " ".join(f"add.u32 x{i}, x{i}, cta;" for i in range(4)) if way == "computed" else ""
    return f"""setp.lt.u32 mine, tid, {ROWS[name]};
@!mine bra OVER{label};
{WORDS_FROM[name]}
mov.u32 k, 0;
CHUNK{label}:
{_PHASES.get(way, "mov.u32 to, part;")} xor.b32 to, k, to;
shl.b32 to, to, 4; add.u32 to, to, buffer; mad.lo.u32 to, tid, 128, to;
ld.global.v4.b32 {{x0, x1, x2, x3}}, [from];
{computed}
st.shared.v4.b32 [to+{_PLACES[name]}], {{x0, x1, x2, x3}};
add.u64 from, from, 16; add.u32 k, k, 1;
setp.lt.u32 q, k, 8;
@q bra CHUNK{label};
OVER{label}:"""


def _expect(a: str, b: str) -> str:
    """How the first thread arrives, given how A and B come."""
    count = sum(_bytes(name) for name, way in (("a", a), ("b", b)) if way in ("box", "bulk", "plain"))
    return f"@one mbarrier.arrive.expect_tx.shared::cta.b64 w, [full], {count};"


def text_of(a: str, b: str, late_a: str = "", late_b: str = "") -> str:
    """The PTX; in the late turn A and B may come in other ways."""
    late = late_a or a, late_b or b
    text = "\n".join(_copy(name, way, name) for name, way in (("a", a), ("b", b)))
    expect = _expect(a, b)
    if late != (a, b):
        other = "\n".join(_copy(name, way, f"late{name}") for name, way in zip("ab", late, strict=True))
        text = f"@!late bra USUAL;\n{_expect(*late)}\n{other}\nbra COPIED;\nUSUAL:\n{expect}\n{text}\nCOPIED:"
        expect = ""
    return TEXT.replace("EXPECT", expect).replace("COPIES", text)


def _arranged(rows: NDArray[Any]) -> NDArray[Any]:
    """Tiles of 64 columns, as the swizzling mode 128B places them."""
    chunks = rows.reshape(len(rows), -1, 8, 8).transpose(1, 0, 2, 3)
    swizzled = np.arange(8)[None, :] ^ (np.arange(len(rows)) % 8)[:, None]
    return np.ascontiguousarray(np.take_along_axis(chunks, swizzled[None, :, :, None], axis=2))


@cache
def _kernel(text: str) -> ptxlab.Kernel:
    return ptxlab.loads(text, file="kinds.ptx").kernel()


def launch(text: str, turns: int = TURNS, **options: Any) -> tuple[ptxlab.Result, NDArray[Any], bool]:
    """The result, what the kernel has computed, and whether that is right."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, (rows, _WIDTH * turns)).astype(np.float16) for rows in ROWS.values())
    c = np.zeros((128, 64), np.float32)
    maps = [ptxlab.TensorMap(x, box=(_WIDTH, len(x)), swizzle=swizzle) for swizzle in ("128B", "none") for x in (a, b)]
    result = _kernel(text).launch(block=128, args=[*maps, a, b, _arranged(a), _arranged(b), c, turns], max_instructions=400_000, **options)
    return result, c, bool((c == a.astype(np.float64) @ b.astype(np.float64).T).all())
