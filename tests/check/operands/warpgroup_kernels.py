"""A product of a warpgroup whose A is in registers, which ldmatrix has loaded from swizzled rows; and mistakes in it."""

from __future__ import annotations

from typing import Any

import numpy as np

import ptxlab

from .swizzled_rows import copy_rows

ROWS, COLUMNS, K = 64, 16, 64
CHUNK_OF_A = "xor.b32 %r11, %r10, %r8;"
LOAD_A = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r11];"
STEP_OF_A = "add.u32 %r10, %r10, 2;"
STEP_OF_B = "add.u64 %rd10, %rd10, 2;"
MMA = (
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, {%r20, %r21, %r22, %r23}, %rd10, "
    "%p3, 1, 1, 0;"
)
STORED = "\n".join(f"    st.global.v2.f32 [%rd6+{64 * 8 * (i % 2) + 32 * (i // 2)}], {{%f{2 * i}, %f{2 * i + 1}}};" for i in range(4))
ROW_OF_LANE = """    shr.u32 %r7, %r1, 5;
    shl.b32 %r7, %r7, 4;
    and.b32 %r4, %r1, 15;
    add.u32 %r7, %r7, %r4;
    and.b32 %r8, %r1, 7;
    shl.b32 %r7, %r7, 7;
    add.u32 %r7, %r7, %r2;
    and.b32 %r10, %r1, 31;
    shr.u32 %r10, %r10, 4;"""
"""Where the row of A begins that a lane gives to ldmatrix, its number modulo 8, and the first of its chunks."""
TEXT = f"""
.version 9.0
.target sm_90a
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 d)
{{
    .reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %rd<12>; .reg .f32 %f<8>;
    .shared .align 1024 .b8 tile[10240];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    {copy_rows(128, ROWS, COLUMNS)}
    fence.proxy.async.shared::cta;
    bar.sync 0;
{ROW_OF_LANE}
    add.u32 %r9, %r2, 8192;
    shr.u32 %r9, %r9, 4;
    cvt.u64.u32 %rd10, %r9;
    or.b64 %rd10, %rd10, 0x4000004000010000;
    mov.u32 %r14, 0;
STEP:
    setp.ne.u32 %p3, %r14, 0;
    {CHUNK_OF_A}
    shl.b32 %r11, %r11, 4;
    add.u32 %r11, %r11, %r7;
    {LOAD_A}
    wgmma.fence.sync.aligned;
    {MMA}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    {STEP_OF_A}
    {STEP_OF_B}
    add.u32 %r14, %r14, 1;
    setp.lt.u32 %p2, %r14, 4;
    @%p2 bra STEP;
    ld.param.u64 %rd6, [d];
    shr.u32 %r15, %r1, 5;
    shl.b32 %r15, %r15, 4;
    and.b32 %r16, %r1, 31;
    shr.u32 %r17, %r16, 2;
    add.u32 %r15, %r15, %r17;
    mul.wide.u32 %rd7, %r15, 64;
    add.u64 %rd6, %rd6, %rd7;
    and.b32 %r15, %r1, 3;
    mul.wide.u32 %rd7, %r15, 8;
    add.u64 %rd6, %rd6, %rd7;
{STORED}
    ret;
}}
"""

_COPY = TEXT[TEXT.index("    mov.u32 %r3, %r1;\nCOPY:") : TEXT.index("    shr.u32 %r7, %r1, 5;")]
_FIRST = """    shr.u32 %r17, %r10, 2;
    shr.u32 %r18, %r1, 5;
    shl.b32 %r18, %r18, 4;
    add.u32 %r17, %r17, %r18;
    mul.wide.u32 %rd8, %r17, 128;
    add.u64 %rd8, %rd8, %rd1;
    and.b32 %r17, %r10, 3;
    mul.wide.u32 %rd9, %r17, 4;
    add.u64 %rd8, %rd8, %rd9;
"""
DIRECT_LOAD = "".join(f"ld.global.b32 %r{20 + i}, [%rd8+{offset}];\n    " for i, offset in enumerate((0, 1024, 16, 1040)))
DIRECT_STEP = "add.u64 %rd8, %rd8, 32;"
DIRECT_TEXT = (
    TEXT.replace(
        _COPY,
        """    mov.u32 %r3, full;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    add.u32 %r6, %r2, 8192;
    mov.u32 %r7, 0;
    @!%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 2048;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r6], [%rd2, {%r7, %r7}], [%r3];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
    @!%p2 bra WAIT;
""",
    )
    .replace("    shr.u32 %r10, %r10, 4;\n", _FIRST)
    .replace(LOAD_A, DIRECT_LOAD)
    .replace(STEP_OF_A, DIRECT_STEP)
    .replace("ld.param.u64 %rd2, [b];", "mov.b64 %rd2, b;\n    cvta.param.u64 %rd2, %rd2;")
    .replace(".param .u64 b", ".param .align 64 .b8 b[128]")
    .replace(".b8 tile[10240];", ".b8 tile[10240];\n    .shared .align 8 .b64 full;")
)
"""The same with a tensor copy of B, and loads of A from global memory."""

MISTAKES: dict[str, tuple[str, str, str, str]] = {
    #                     the right text, the wrong text, the code, what the fix says
    "no swizzle of A":    (CHUNK_OF_A, "mov.u32 %r11, %r10;", "O101", "so that all rows have the same k"),
    "registers of A":     (MMA, MMA.replace("{%r20, %r21, %r22, %r23}", "{%r22, %r23, %r20, %r21}"), "O104",
                           "give the registers of A in the order 2, 3, 0, 1"),
    "halves of A":        (MMA, MMA.replace("{%r20, %r21, %r22, %r23}", "{%r20, %r22, %r21, %r23}"), "O101",
                           "give the registers of A in the order 0, 2, 1, 3"),
    "A with .trans":      (LOAD_A, LOAD_A.replace("x4", "x4.trans"), "O101", "load A without .trans"),
    "K step of A":        (STEP_OF_A, "add.u32 %r10, %r10, 1;", "O105",
                           "advance the address from which A is loaded by 16 elements of k from instruction to instruction"),
    "no K step of A":     (STEP_OF_A, "", "O105",
                           "advance the address from which A is loaded by 16 elements of k from instruction to instruction"),
    "K step of B":        (STEP_OF_B, "add.u64 %rd10, %rd10, 1;", "O105", "advance the start address of B by 32 bytes"),
    "bf16 for f16":       (MMA, MMA.replace("f16.f16", "bf16.bf16"), "O103", "give f16 as the element type of"),
}  # fmt: skip


def mistaken(name: str, text: str = TEXT) -> tuple[str, str, str]:
    """The PTX with a mistake, the code of the finding, and a part of its fix."""
    right, instead, code, fix = MISTAKES[name]
    assert right in text
    return text.replace(right, instead), code, fix


def launch(text: str, **options: Any) -> tuple[Any, bool]:
    """The result, and whether the product is right."""
    rng = np.random.default_rng(5)
    a = rng.integers(-4, 5, (ROWS, K)).astype(np.float16)
    b = rng.integers(-4, 5, (COLUMNS, K)).astype(np.float16)
    d = np.zeros((ROWS, COLUMNS), np.float32)
    args = [a, ptxlab.TensorMap(b, box=(K, COLUMNS), swizzle="128B") if "tensor.2d" in text else b, d]
    result = ptxlab.loads(text, file="product.ptx").kernel().launch(block=128, args=args, **options)
    return result, bool((d == a.astype(np.float64) @ b.astype(np.float64).T).all())
