"""Copies and reductions of boxes by compiled code in worker processes."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab

CTAS = 16
CONFLICT = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(
    .param .align 64 .b8 map[128], .param .align 64 .b8 reduced[128], .param .u64 p_in, .param .u64 p_out, .param .u32 p_distance)
{
.shared .align 1024 .b8 buffer[1024];
.shared .align 8 .b64 mb;
.reg .pred p, q;
.reg .b32 i, x, y, row, cta, v, phase;
.reg .b64 in, out, at;
mov.u32 i, %tid.x; setp.ne.u32 p, i, 0;
@p exit;
ld.param.u64 in, [p_in]; ld.param.u64 out, [p_out]; ld.param.u32 row, [p_distance];
mov.u32 cta, %ctaid.x; shl.b32 y, cta, 3;
mbarrier.init.shared::cta.b64 [mb], 1;
LOOP:
mbarrier.arrive.expect_tx.shared::cta.b64 _, [mb], 1024;
shl.b32 x, i, 6;
cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [buffer], [map, {x, y}], [mb];
and.b32 phase, i, 1;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 q, [mb], phase; @!q bra WAIT;
ld.shared.u32 v, [buffer+384];
mad.lo.u32 x, cta, 4, i; mul.wide.u32 at, x, 4; add.u64 at, at, out; st.global.u32 [at], v;
add.u32 i, i, 1; setp.lt.u32 q, i, 4; @q bra LOOP;
add.u32 row, row, cta; and.b32 row, row, 15; shl.b32 row, row, 3;
mov.u32 i, 0;
SPIN: add.u32 i, i, 1; setp.lt.u32 q, i, 30000; @q bra SPIN;
WRITE
ret;
}
"""
WRITES = {
    "st": "mul.wide.u32 at, row, 512; add.u64 at, at, in; st.global.u32 [at+384], row;",
    "box": """
        mov.u32 i, 0;
        STORE: shl.b32 x, i, 6; cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {x, row}], [buffer];
        add.u32 i, i, 1; setp.lt.u32 q, i, 4; @q bra STORE;
    """,
    "reduction": """
        mov.u32 i, 0;
        REDUCE: shl.b32 x, i, 5; cp.reduce.async.bulk.tensor.2d.global.shared::cta.xor.bulk_group [reduced, {x, row}], [buffer];
        add.u32 i, i, 1; setp.lt.u32 q, i, 4; @q bra REDUCE;
    """,
    "reduction of contiguous bytes": """
        mul.wide.u32 at, row, 512; add.u64 in, in, at; mov.u32 i, 0;
        REDUCE: cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.b32 [in], [buffer], 1024;
        add.u64 in, in, 1024; add.u32 i, i, 1; setp.lt.u32 q, i, 4; @q bra REDUCE;
    """,
}


BOX = """shl.b32 x, i, 6;
cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [buffer], [map, {x, y}], [mb];"""
LINE = """shl.b32 x, i, 10; mad.lo.u32 x, y, 512, x; cvt.u64.u32 at, x; add.u64 at, at, in;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [buffer], [at], 1024, [mb];"""
"""The rows of a CTA as contiguous bytes."""


@pytest.mark.parametrize("distance", [0, 1])
@pytest.mark.parametrize("read", [BOX, LINE])
@pytest.mark.parametrize("way", WRITES)
def test_workers(distance: int, read: str, way: str) -> None:
    """What compiled code copies is marked: each CTA writes to a row that it has read itself, or that the next CTA reads.

    The next one: however the CTAs are divided among the workers, one of them writes to a row that a CTA of the other worker reads.
    """
    assert BOX in CONFLICT
    loaded, found = ptxlab.loads(CONFLICT.replace(BOX, read).replace("WRITE", WRITES[way])).kernel(), []
    for workers in (1, 2, 2):
        tensor = np.arange(8 * CTAS * 256, dtype=np.uint16).reshape(-1, 256)
        out = np.zeros(4 * CTAS, np.uint32)
        args = [ptxlab.TensorMap(tensor, box=(64, 8)), ptxlab.TensorMap(tensor.view(np.uint32), box=(32, 8)), tensor, out, distance]
        result = loaded.launch(grid=CTAS, block=32, args=args, check="none", workers=workers)
        found.append((out.tolist(), tensor.tobytes(), result.stats.services, result.stats.instructions, result.diagnostics))
        if workers == 2:
            assert result.stats.workers == (1 if distance else 2), result.stats.why_alone
    assert found[0] == found[1] == found[2]
