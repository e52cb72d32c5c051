"""The exact shadow hands over the rows that the compiled one completes itself: groups of copies, transfers, waits."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.mutations.exact import observe
from benchmarks.mutations.observers import observed_by

import ptxlab
from tests.debug.gemm_kernels import compiled

COPIES = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 source, .param .u64 result)
{
    .reg .b32 %r<7>;
    .reg .b64 %rd<5>;
    .shared .align 16 .b8 stages[2048];
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [source];
    ld.param.u64 %rd2, [result];
    mul.wide.u32 %rd3, %r1, 16;
    add.u64 %rd1, %rd1, %rd3;
    mul.wide.u32 %rd4, %r1, 4;
    add.u64 %rd2, %rd2, %rd4;
    mov.u32 %r2, stages;
    shl.b32 %r3, %r1, 4;
    add.u32 %r2, %r2, %r3;
    cp.async.cg.shared.global [%r2], [%rd1], 16;
    cp.async.commit_group;
    cp.async.cg.shared.global [%r2+1024], [%rd1+1024], 16, SIZE;
    cp.async.commit_group;
    cp.async.wait_group PENDING;
    bar.sync 0;
    mov.u32 %r4, stages;
    xor.b32 %r5, %r3, 512;
    add.u32 %r4, %r4, %r5;
    ld.shared.b32 %r6, [%r4+AT];
    st.global.b32 [%rd2], %r6;
    cp.async.wait_group 0;
    ret;
}
"""


@pytest.mark.parametrize(("pending", "at", "size"), [(0, 0, 16), (1, 0, 16), (2, 0, 16), (0, 1024, 16), (1, 1024, 16), (1, 1024, 8)])
def test_groups_of_copies(pending: int, at: int, size: int) -> None:
    """Both shadows find a read that is before the wait for its stage, and no other."""
    text = COPIES.replace("PENDING", str(pending)).replace("AT", str(at)).replace("SIZE", str(size))
    kernel = ptxlab.loads(text).kernel()
    arguments = [np.arange(1024, dtype=np.uint32), np.zeros(64, np.uint32)]
    compiled_finds = kernel.launch(block=64, args=arguments).diagnostics
    with observed_by(observe):
        exact_finds = kernel.launch(block=64, args=arguments).diagnostics
    assert [d.code for d in exact_finds] == [d.code for d in compiled_finds] == ["X111"] * (pending > (1 if at == 0 else 0))


@pytest.mark.parametrize("name", ["gl_mm_i8", "mm_ptr_fp16"])
def test_compiled_kernels_are_clean(name: str) -> None:
    with observed_by(observe):
        assert compiled(name).run()[0].diagnostics == ()
