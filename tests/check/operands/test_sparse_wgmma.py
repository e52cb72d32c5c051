"""A sparse wgmma whose operands tensor copies have placed: the stored elements of A stand for twice as many elements of k of B."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab

FIRST_TWO = 0x44444444
"""Of each four elements of k the first two are stored."""
NEXT_OF_B = "add.u64 %rd5, %rd5, 4;"
TEXT = f"""
.version 9.0
.target sm_90a
.address_size 64
.visible .entry sparse(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .u64 d)
{{
    .reg .pred %p<3>;
    .reg .b32 %r<12>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<8>;
    .shared .align 1024 .b8 tiles[5128];    // A: 64 rows of 64 bytes, B: 8 rows of 128 bytes, an mbarrier
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tiles;
    add.u32 %r3, %r2, 4096;
    add.u32 %r4, %r2, 5120;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r4], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    mov.b64 %rd1, a;
    cvta.param.u64 %rd1, %rd1;
    mov.b64 %rd2, b;
    cvta.param.u64 %rd2, %rd2;
    mov.u32 %r5, 0;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 5120;
    @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1, {{%r5, %r5}}], [%r4];
    @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd2, {{%r5, %r5}}], [%r4];
COPIED:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0;
    @!%p2 bra COPIED;
    shr.u32 %r6, %r2, 4;
    cvt.u64.u32 %rd4, %r6;
    or.b64 %rd4, %rd4, {2 << 62 | 512 >> 4 << 32:#x};
    shr.u32 %r6, %r3, 4;
    cvt.u64.u32 %rd5, %r6;
    or.b64 %rd5, %rd5, {1 << 62 | 1024 >> 4 << 32:#x};
    mov.u32 %r7, {FIRST_TWO:#x};
    mov.f32 %f0, 0f00000000;
    mov.f32 %f1, %f0;
    mov.f32 %f2, %f0;
    mov.f32 %f3, %f0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %rd4, %rd5, %r7, 0, 1, 1, 1, 0, 0;
    add.u64 %rd4, %rd4, 2;
    {NEXT_OF_B}
    wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %rd4, %rd5, %r7, 0, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    ld.param.u64 %rd6, [d];
    mul.wide.u32 %rd7, %r1, 16;
    add.u64 %rd6, %rd6, %rd7;
    st.global.v4.f32 [%rd6], {{%f0, %f1, %f2, %f3}};
    ret;
}}
"""


def launch(text: str, **options: Any) -> tuple[Any, bool]:
    """The result, and whether the product is right."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(-4, 5, (64, 32)).astype(np.float16), rng.integers(-4, 5, (8, 64)).astype(np.float16)
    found = np.zeros((128, 4), np.float32)
    maps = [ptxlab.TensorMap(a, box=(32, 64), swizzle="64B"), ptxlab.TensorMap(b, box=(64, 8), swizzle="128B")]
    result = ptxlab.loads(text, file="sparse.ptx").kernel().launch(block=128, args=[*maps, found], **options)
    rows = np.zeros((64, 64))
    rows.reshape(64, 16, 4)[:, :, :2] = a.reshape(64, 16, 2)
    # Registers 0 and 1 of a thread are neighbours in a row, 2 and 3 in the row eight below.
    d = found.reshape(4, 8, 4, 2, 2).transpose(0, 3, 1, 2, 4).reshape(64, 8)
    return result, bool((d == rows @ b.astype(np.float64).T).all())


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_the_kernel_itself(policy: str) -> None:
    result, right = launch(TEXT, policy=policy)
    assert right
    assert result.diagnostics == ()


def test_a_step_of_b_that_is_too_short() -> None:
    result, right = launch(TEXT.replace(NEXT_OF_B, "add.u64 %rd5, %rd5, 2;"), check="operands")
    assert not right
    assert [found.code for found in result.diagnostics] == ["O105"]
    assert result.diagnostics[0].fix == "advance the start address of B by 64 bytes from instruction to instruction"
