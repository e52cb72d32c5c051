"""Kernels around bulk copies."""

from __future__ import annotations

from functools import cache

import ptxlab

SIZE = 32768
"""Bytes of the shared buffer."""

PARAMS = """.param .align 64 .b8 map[128], .param .u64 p_in, .param .u64 p_out,
 .param .s32 p_c0, .param .s32 p_c1, .param .s32 p_c2, .param .s32 p_c3, .param .s32 p_c4, .param .u32 p_bytes"""

START = f"""
.shared .align 1024 .b8 buffer[{SIZE}];
.shared .align 8 .b64 bars[4];
.reg .pred p, q, t;
.reg .b16 h;
.reg .b32 tid, cta, rank, dst, bar, i, v, w, bytes, r<20>;
.reg .s32 c<5>;
.reg .b64 m, in, out, g, rd<10>;
mov.b64 m, map;
cvta.param.u64 m, m;
ld.param.u64 in, [p_in];
ld.param.u64 out, [p_out];
{"".join(f"ld.param.s32 c{i}, [p_c{i}];" for i in range(5))}
ld.param.u32 bytes, [p_bytes];
mov.u32 tid, %tid.x;
mov.u32 cta, %ctaid.x;
mov.u32 rank, %cluster_ctarank;
mov.u32 dst, buffer;
mov.u32 bar, bars;
setp.eq.u32 p, tid, 0;
mov.u64 rd9, {SIZE};
mul.wide.u32 rd8, cta, {SIZE};
add.u64 out, out, rd8;
"""


def move(body: str) -> str:
    """Run body for each word of the buffer: w its shared address, g its place in the CTA's part of the output."""
    return f"""
{{
.reg .b32 n;
mov.u32 i, tid;
L_LOOP:
shl.b32 n, i, 2;
cvt.u64.u32 g, n;
add.u32 w, dst, n;
{body}
add.u32 i, i, 128;
setp.lt.u32 t, i, {SIZE // 4};
@t bra L_LOOP;
}}
"""


FILL = move("add.u64 g, g, in;\nld.global.u32 v, [g];\nst.shared.u32 [w], v;")
DUMP = move("add.u64 g, g, out;\nld.shared.u32 v, [w];\nst.global.u32 [g], v;")
ZERO = move("mov.u32 v, 0xEEEEEEEE;\nst.shared.u32 [w], v;")
INIT = "@p mbarrier.init.shared::cta.b64 [bar], 1;\nfence.mbarrier_init.release.cluster;\nfence.proxy.async;\nbar.sync 0;\n"
EXPECT = "@p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], bytes;\n"
WAIT = "W_LOOP: mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0;\n@!q bra W_LOOP;\n"
CLUSTER = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"


@cache
def kernel(body: str) -> ptxlab.Kernel:
    text = f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k({PARAMS})
{{
{START}
{body}
ret;
}}
"""
    return ptxlab.loads(text).kernel()
