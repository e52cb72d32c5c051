"""Kernels whose products are known element by element: mma.sync after generic stores, wgmma after bulk copies."""

from __future__ import annotations

import numpy as np

import ptxlab

STEPS = 2
"""Products of the mma.sync kernel: K = 16 for each."""

WARP = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry warp_mma(.param .u64 a, .param .u64 b, .param .u64 c) {
  .reg .pred %p; .reg .b32 %r<60>; .reg .b64 %rd<20>; .reg .f32 %f<8>;
  .shared .align 128 .b8 tile[1536];          // A [16, 32] and B [8, 32] of f16
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  mul.lo.u32 %r3, %r1, 32;                    // thread t copies bytes 32t to 32t + 31 of A, and 16t to 16t + 15 of B
  cvt.u64.u32 %rd4, %r3;
  add.u64 %rd5, %rd1, %rd4;
  add.u32 %r4, %r2, %r3;
  ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd5];
  st.shared.v4.b32 [%r4], {%r10, %r11, %r12, %r13};
  ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd5+16];
  st.shared.v4.b32 [%r4+16], {%r10, %r11, %r12, %r13};
  shr.u32 %r5, %r3, 1;
  cvt.u64.u32 %rd6, %r5;
  add.u64 %rd7, %rd2, %rd6;
  add.u32 %r6, %r2, %r5;
  ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd7];
  st.shared.v4.b32 [%r6+1024], {%r10, %r11, %r12, %r13};
  bar.sync 0;
  and.b32 %r20, %r1, 15;                      // ldmatrix: rows 0 to 15, then the same rows 8 elements further
  mul.lo.u32 %r21, %r20, 64;
  and.b32 %r22, %r1, 16;
  add.u32 %r23, %r21, %r22;
  add.u32 %r24, %r2, %r23;
  and.b32 %r25, %r1, 7;
  mul.lo.u32 %r26, %r25, 64;
  and.b32 %r27, %r1, 8;
  add.u32 %r28, %r27, %r27;
  add.u32 %r29, %r26, %r28;
  add.u32 %r30, %r2, %r29;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000; mov.f32 %f4, 0f00000000;
  mov.u32 %r31, 0;
NEXT:
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r40, %r41, %r42, %r43}, [%r24];
  ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r44, %r45}, [%r30+1024];
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f5, %f6, %f7, %f4}, {%r40, %r41, %r42, %r43}, {%r44, %r45}, {%f1, %f2, %f3, %f4};
  mov.f32 %f1, %f5; mov.f32 %f2, %f6; mov.f32 %f3, %f7;
  add.u32 %r24, %r24, 32;
  add.u32 %r30, %r30, 32;
  add.u32 %r31, %r31, 1;
  setp.lt.u32 %p, %r31, 2;
  @%p bra NEXT;
  shr.u32 %r50, %r1, 2;                       // D[t / 4, 2 (t % 4)], and 8 rows below
  and.b32 %r51, %r1, 3;
  mul.lo.u32 %r52, %r50, 32;
  mad.lo.u32 %r53, %r51, 8, %r52;
  cvt.u64.u32 %rd8, %r53;
  add.u64 %rd9, %rd3, %rd8;
  st.global.f32 [%rd9], %f1;
  st.global.f32 [%rd9+4], %f2;
  st.global.f32 [%rd9+256], %f3;
  st.global.f32 [%rd9+260], %f4;
  ret;
}
"""

WARPGROUP = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry group_mma(.param .u64 a, .param .u64 b, .param .u64 c) {
  .reg .pred %p<3>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<8>;
  .shared .align 1024 .b8 tile[2304];         // core matrices of A [64, 16], then those of B [8, 16]
  .shared .align 8 .b64 full;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  add.u32 %r3, %r2, 2048;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared::cta.b64 [full], 1;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 2304;
  @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 2048, [full];
  @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd2], 256, [full];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
  @!%p2 bra WAIT;
  shr.u32 %r4, %r2, 4;                        // descriptors: LBO between the halves of k, SBO between groups of 8 rows, no swizzling
  cvt.u64.u32 %rd4, %r4;
  or.b64 %rd5, %rd4, 0x0000000800400000;      // LBO 1024, SBO 128
  shr.u32 %r5, %r3, 4;
  cvt.u64.u32 %rd6, %r5;
  or.b64 %rd7, %rd6, 0x0000000800080000;      // LBO 128, SBO 128
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd5, %rd7, 0, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  mul.lo.u32 %r6, %r1, 16;                    // thread t stores its four registers one after the other
  cvt.u64.u32 %rd8, %r6;
  add.u64 %rd9, %rd3, %rd8;
  st.global.v4.f32 [%rd9], {%f1, %f2, %f3, %f4};
  ret;
}
"""


def warp_case() -> tuple[ptxlab.Result, np.ndarray, np.ndarray, np.ndarray]:
    """The launch of the mma.sync kernel, with A, B [n, k] and the result."""
    rng = np.random.default_rng(1)
    a, b, c = rng.normal(size=(16, 32)).astype(np.float16), rng.normal(size=(8, 32)).astype(np.float16), np.zeros((16, 8), np.float32)
    kernel = ptxlab.loads(WARP, file="warp.ptx").kernel()
    return kernel.launch(block=32, args=[a, b, c], keep_inputs=True), a, b, c


def warpgroup_case() -> tuple[ptxlab.Result, np.ndarray, np.ndarray, np.ndarray]:
    """The launch of the wgmma kernel: A as [half of k, rows / 8, 8, 8], B likewise, and the result as [thread, register]."""
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 8, 8, 8)).astype(np.float16), rng.normal(size=(2, 1, 8, 8)).astype(np.float16)
    c = np.zeros((128, 4), np.float32)
    kernel = ptxlab.loads(WARPGROUP, file="group.ptx").kernel()
    return kernel.launch(block=128, args=[a, b, c], keep_inputs=True), a, b, c
