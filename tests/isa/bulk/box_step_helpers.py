"""A kernel that executes lists of copies of boxes, one list for each warp, and launches of it with and without repetition."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ptxlab
from ptxlab.isa.bulk import _box_words
from tests.repetition_helpers import both_ways

Step = tuple[int, ...]
HANDLED: list[int] = []
"""The lines of the instructions whose handler was called: a test module notes them."""
SIZE, MOST = 16384, 24
"""The bytes of the buffer of a CTA, and the steps of a warp."""
LOAD = "cp.async.bulk.tensor.2d{group}.shared::{space}.global.mbarrier::complete_tx::bytes{multicast} [dst], [m, {{c0, c1}}], [bar]{mask};"
STEPS = {
    "load": LOAD.format(group="", space="cta", multicast="", mask=""),
    "load anywhere": LOAD.format(group="", space="cluster", multicast="", mask=""),
    "load of a pair": LOAD.format(group=".cta_group::2", space="cluster", multicast="", mask=""),
    "multicast": LOAD.format(group="", space="cluster", multicast=".multicast::cluster", mask=", ctas"),
    "multicast of a pair": LOAD.format(group=".cta_group::2", space="cluster", multicast=".multicast::cluster", mask=", ctas"),
    "expect": "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [bar], amount;",
    "arrive": "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [bar];",
    "wait": "and.b32 amount, amount, 1; mbarrier.try_wait.parity.shared::cta.b64 done, [bar], amount;",
    "rewrite": """
        mul.wide.u32 rd1, amount, 128; add.u64 rd1, maps, rd1; mov.u32 i, 0;
        WORD: ld.global.u64 rd2, [rd1]; st.global.u64 [m], rd2;
        add.u64 rd1, rd1, 8; add.u64 m, m, 8; add.u32 i, i, 1; setp.lt.u32 q, i, 16; @q bra WORD;
    """,
    "overwrite": "st.shared.u32 [bar], amount;",
    "invalidate": "mbarrier.inval.shared::cta.b64 [bar];",
    "exit": "exit;",
    "store": "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [m, {c0, c1}], [dst]; cp.async.bulk.commit_group;",
    "wait for stores": "cp.async.bulk.wait_group 0;",
}
KINDS = {name: number for number, name in enumerate(STEPS)}
BARRIERS = 2
GLOBAL = 8
"""The number of the first tensor map in global memory; that of the parameters are 0 and 1."""


MAPS = f"""
mov.b64 m, map0; cvta.param.u64 m, m;
mul.wide.u32 rd1, which, 128; add.u64 m, m, rd1;
setp.ge.u32 q, which, {GLOBAL}; sub.u32 r1, which, {GLOBAL}; mul.wide.u32 rd1, r1, 128; add.u64 rd1, rd1, maps; selp.u64 m, rd1, m, q;
"""


@cache
def kernel() -> ptxlab.Kernel:
    return ptxlab.loads(text_of(STEPS, MAPS)).kernel()


def text_of(steps: dict[str, str], maps: str) -> str:
    """A kernel that executes lists of these steps; ``maps`` chooses the tensor map of a step."""
    cases = "".join(f"S{number}:\n{text}\nbra NEXT;\n" for number, text in enumerate(steps.values()))
    return f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(
    .param .align 64 .b8 map0[128], .param .align 64 .b8 map1[128], .param .u64 p_maps, .param .u64 p_steps, .param .u32 p_count,
    .param .u32 p_arrivals, .param .u64 p_out)
{{
.shared .align 1024 .b8 buffer[{SIZE}];
.shared .align 8 .b64 mb[{BARRIERS + 1}];
.reg .pred p, q, done, mine, end;
.reg .b16 ctas;
.reg .b32 tid, lane, cta, warp, n, count, i, kind, dst, bar, c0, c1, amount, lanes, which, r1, r2, v;
.reg .b64 m, maps, list, out, rd1, rd2, rd3;
ld.param.u64 maps, [p_maps]; ld.param.u64 list, [p_steps]; ld.param.u32 count, [p_count]; ld.param.u64 out, [p_out];
mov.u32 tid, %tid.x; mov.u32 lane, %laneid; mov.u32 cta, %ctaid.x; shr.u32 warp, tid, 5;
mad.lo.u32 r1, cta, 2, warp; mul.wide.u32 rd1, r1, {MOST * 32}; add.u64 list, list, rd1;
mul.wide.u32 rd3, cta, {SIZE}; add.u64 out, out, rd3;
mov.u32 r2, buffer; shl.b32 i, tid, 2; mov.u32 v, 0xEEEEEEEE;
CLEAR: add.u32 r1, r2, i; st.shared.u32 [r1], v; add.u32 i, i, 256; setp.lt.u32 q, i, {SIZE}; @q bra CLEAR;
ld.param.u32 r1, [p_arrivals]; setp.eq.u32 p, tid, 0;
{"".join(f"@p mbarrier.init.shared::cta.b64 [mb+{8 * number}], r1;" for number in range(BARRIERS))}
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mov.u32 n, 0;
LOOP:
setp.ge.u32 end, n, count;
@end bra END;
ld.global.v4.u32 {{kind, dst, bar, amount}}, [list]; ld.global.v4.u32 {{c0, c1, lanes, which}}, [list+16];
mov.u32 r1, buffer; and.b32 r1, r1, 0xffffff; add.u32 dst, dst, r1;
mov.u32 r1, mb; and.b32 r1, r1, 0xffffff; add.u32 bar, bar, r1;
cvt.u16.u32 ctas, amount;
{maps}
shr.u32 r1, lanes, lane; and.b32 r1, r1, 1; setp.eq.u32 mine, r1, 1;
@!mine bra NEXT;
ways: .branchtargets {", ".join(f"S{number}" for number in range(len(steps)))};
brx.idx kind, ways;
{cases}
NEXT:
bar.warp.sync 0xffffffff;
add.u64 list, list, 32; add.u32 n, n, 1;
bra LOOP;
END:
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
shl.b32 i, tid, 2; mov.u32 r2, buffer;
DUMP: add.u32 r1, r2, i; ld.shared.u32 v, [r1]; cvt.u64.u32 rd3, i; add.u64 rd3, rd3, out; st.global.u32 [rd3], v;
add.u32 i, i, 256; setp.lt.u32 q, i, {SIZE}; @q bra DUMP;
ret;
}}
"""


def step(kind: str, dst: int = 0, bar: int = 0, amount: int = 0, at: tuple[int, int] = (0, 0), lanes: int = 1, which: int = 0) -> Step:
    return KINDS[kind], dst, bar, amount, *(c & 0xFFFFFFFF for c in at), lanes, which


TENSOR: NDArray[np.float16] = np.arange(64 * 256, dtype=np.uint16).view(np.float16).reshape(64, 256)
BYTES: NDArray[np.uint8] = np.random.default_rng(5).integers(0, 256, (64, 512), np.uint8)


def tensor_maps(tensor: Any, some_bytes: Any) -> list[ptxlab.TensorMap]:
    """Boxes of 1,024 bytes; the last ones have rounded elements, rows that end within 16 bytes, single rows, and padded elements."""
    return [
        ptxlab.TensorMap(tensor, box=(64, 8), swizzle="128B"),
        ptxlab.TensorMap(some_bytes, box=(32, 32), swizzle="32B"),
        ptxlab.TensorMap(some_bytes, box=(64, 16)),
        ptxlab.TensorMap(tensor, box=(32, 16), swizzle="64B", dims=(128, 64), strides=(512,)),
        ptxlab.TensorMap(some_bytes, box=(16, 16), swizzle="64B", dims=(128, 64), strides=(512,), dtype="tf32"),
        ptxlab.TensorMap(tensor, box=(64, 8), swizzle="128B", dims=(101, 40), strides=(512,)),
        ptxlab.TensorMap(tensor, box=(128, 1), dims=(201, 40), strides=(512,)),
        ptxlab.TensorMap(some_bytes, box=(128, 16), swizzle="128B", dims=(896, 40), strides=(512,), dtype="b4x16_p64"),
    ]


BOX = 1024


def launch(
    lists: dict[tuple[int, int], list[Step]], arrivals: int = 1, first: int = 0, **options: Any
) -> tuple[NDArray[np.uint8], ptxlab.Result]:
    """Run lists of steps by CTA and warp; the contents of shared memory and of the tensors. ``first``: the map that is the first one."""
    table = np.zeros((2, 2, MOST, 8), np.uint32)
    for (cta, warp), steps in lists.items():
        table[cta, warp, : len(steps)] = np.array(steps, np.uint32).reshape(-1, 8)
        table[cta, warp, len(steps) :, 6] = 0
    device = ptxlab.Device("sm_100a")
    tensors = [device.array(each) for each in (TENSOR, BYTES)]
    found = tensor_maps(*tensors)
    found[0] = found[first]
    in_memory = np.stack([np.frombuffer(bytes(each), np.uint8) for each in found])
    out = np.zeros((2, SIZE), np.uint8)
    count = max(map(len, lists.values()))
    args = [found[0], found[1], in_memory, table, count, arrivals, out]
    result = kernel().launch(grid=2, block=64, cluster=2, args=args, device=device, **{"check": "none", **options})
    out = np.hstack([out, *(each.numpy().view(np.uint8).reshape(2, -1) for each in tensors)])
    return out, result


def both(lists: dict[tuple[int, int], list[Step]], arrivals: int = 1, **options: Any) -> tuple[NDArray[np.uint8], ptxlab.Result, list[int]]:
    """What a launch gives, which is the same if the handler completes each copy; and the calls of the handler."""
    (out,), result, handled, _ = both_ways(lambda: launch(lists, arrivals, **options), HANDLED)
    return out, result, handled


def fresh() -> None:
    """Forget what earlier launches have told compiled code, also of other kernels with the same tensor maps."""
    kernel.cache_clear()
    _box_words._words_of.cache_clear()


def loads(count: int, kind: str = "load", **fields: Any) -> list[Step]:
    """Copies of different boxes to different places, all on one mbarrier."""
    return [step(kind, **{"dst": BOX * (number % 12), "at": (16 * (number % 5), 3 * number), **fields}) for number in range(count)]
