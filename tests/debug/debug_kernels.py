"""Kernels for tests of the debugger, small enough to be computed by hand. Line numbers count from the line after the quotes."""

from __future__ import annotations

from typing import Any

import numpy as np

import ptxlab
from ptxlab.machine import Replay

HEAD = """.version 9.0
.target sm_100a
.address_size 64
"""

LOOP = (
    HEAD
    + """.visible .entry k(.param .u64 out) {
  .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .pred %p<3>;
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [out];
  mov.u32 %r2, 0;
  mov.u32 %r3, 0;
LOOP:
  add.s32 %r3, %r3, %r2;
  add.s32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 5;
  @%p1 bra LOOP;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  add.s32 %r4, %r3, %r1;
  st.global.b32 [%rd3], %r4;
  ret;
}
"""
)
"""Thread t stores 0 + 1 + 2 + 3 + 4 + t. The loop is on lines 11 to 14, the store on line 18."""

CALL = (
    HEAD
    + """.func (.reg .b32 %y) double(.reg .b32 %x) {
  .loc 1 3 1
  add.s32 %y, %x, %x;
  .loc 1 4 1
  ret;
}
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<6>; .reg .b64 %rd<4>;
  .loc 1 10 1
  mov.u32 %r1, 7;
  .loc 1 11 1
  call (%r2), double, (%r1);
  .loc 1 12 1
  ld.param.u64 %rd1, [out];
  st.global.b32 [%rd1], %r2;
  .loc 1 13 1
  ret;
}
.file 1 "kernel.cu"
"""
)
"""Stores 14. Line 3 of kernel.cu is in the function, lines 10 to 13 in the kernel."""

COPIES = (
    HEAD
    + """.visible .entry k(.param .u64 out, .param .u64 first, .param .u64 second) {
  .reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .pred %p<3>;
  .shared .align 16 .b8 tile[128];
  .shared .align 8 .b64 full;
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [first];
  ld.param.u64 %rd3, [second];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared::cta.b64 [full], 1;
  bar.sync 0;
  @!%p1 bra WAIT;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;
  cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd2], 128, [full];
  cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd3], 128, [full];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
  @!%p2 bra WAIT;
  mov.u32 %r2, tile;
  mad.lo.u32 %r3, %r1, 4, %r2;
  ld.shared.b32 %r4, [%r3];
  mad.wide.u32 %rd4, %r1, 4, %rd1;
  st.global.b32 [%rd4], %r4;
  ret;
}
"""
)
"""Two copies write the same 128 bytes (lines 17 and 18), and nothing orders them: a race. The result is that of the last one."""

EXCHANGE = (
    HEAD
    + """.visible .entry k(.param .u64 out) {
  .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .pred %p<3>;
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [out];
  shr.u32 %r2, %r1, 5;
  st.global.b32 [%rd1], %r2;
  bar.sync 0;
  ld.global.b32 %r3, [%rd1];
  and.b32 %r4, %r1, 1;
  setp.eq.u32 %p1, %r4, 0;
  @%p1 bra EVEN;
  add.s32 %r3, %r3, 100;
  bra JOIN;
EVEN:
  add.s32 %r3, %r3, 200;
JOIN:
  shfl.sync.bfly.b32 %r5, %r3, 1, 31, 0xffffffff;
  mad.wide.u32 %rd2, %r1, 4, %rd1;
  st.global.b32 [%rd2+4], %r5;
  ret;
}
"""
)
"""The warps store their numbers at one address (line 9): the last one stays. Then lanes diverge, and neighbours exchange values."""


MEETING = (
    HEAD
    + """.visible .entry k(.param .u64 out) {
  .shared .align 4 .b32 data[64];
  .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p<3>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %cluster_ctarank;
  ld.param.u64 %rd1, [out];
  mov.u32 %r3, data;
  mad.lo.u32 %r3, %r1, 4, %r3;
  xor.b32 %r4, %r2, 1;
  mapa.shared::cluster.u32 %r4, %r3, %r4;
  mov.u32 %r5, 0;
  mov.u32 %r7, 0;
ROUND:
  add.u32 %r6, %r1, %r5;
  st.shared.b32 [%r3], %r6;
  barrier.cluster.arrive.aligned;
  add.u32 %r7, %r7, %r6;
  barrier.cluster.wait.aligned;
  ld.shared::cluster.b32 %r8, [%r4];
  add.u32 %r7, %r7, %r8;
  barrier.cluster.arrive.relaxed;
  barrier.cluster.wait;
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p1, %r5, 6;
  @%p1 bra ROUND;
  mad.lo.u32 %r2, %r2, 64, %r1;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd2, %rd1, %rd2;
  st.global.b32 [%rd2], %r7;
  ret;
}
"""
)
"""The CTAs of a cluster read each other's shared memory between barriers of the cluster."""


def prepared(text: str, block: int = 32, *more: Any, out: int = 65, **options: Any) -> Replay:
    """A launch of a kernel with an output of 32-bit words."""
    return ptxlab.loads(text, file="k.ptx").kernel().prepare(block=block, args=[np.zeros(out, np.uint32), *more], **options)


def copies(**options: Any) -> Replay:
    """The kernel with two copies: the first one brings ones, the second one twos."""
    return prepared(COPIES, 32, np.full(32, 1, np.uint32), np.full(32, 2, np.uint32), out=32, **options)


def output(session: Any, count: int) -> list[int]:
    """The first words of the output."""
    address = int(session.memory("param", 0, 1, "u64")[0])
    return [int(v) for v in session.memory("global", address, count, "u32")]
