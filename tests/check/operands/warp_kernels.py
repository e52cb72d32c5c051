"""A product of one warp: rows that cp.async copies with swizzling, that ldmatrix loads, and mma.sync multiplies; and mistakes in it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

import ptxlab
from ptxlab.engine import Executable

from .swizzled_rows import copy_rows

ROWS, COLUMNS, K = 16, 8, 64
CHUNK_OF_A = "xor.b32 %r11, %r10, %r8;"
CHUNK_OF_B = "xor.b32 %r13, %r12, %r9;"
LOAD_A = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r11];"
LOAD_B = "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r24, %r25}, [%r13];"
MMA = (
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r20, %r21, %r22, %r23}, {%r24, %r25}, {%f0, %f1, %f2, %f3};"
)
STEP_OF_A = "add.u32 %r10, %r10, 2;"
STEP_OF_B = "add.u32 %r12, %r12, 2;"
LANES_OF_A = """and.b32 %r4, %r1, 15;
    shr.u32 %r10, %r1, 4;"""
"""The row of A to which a lane gives the address, and the chunk of 8 elements of k."""
_COPY = copy_rows(32, ROWS, COLUMNS)
TEXT = f"""
.version 9.0
.target sm_80
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 d)
{{
    .reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %rd<12>; .reg .f32 %f<4>;
    .shared .align 128 .b8 tile[3072];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    {_COPY}
    bar.warp.sync 0xffffffff;
    {LANES_OF_A}
    and.b32 %r8, %r4, 7;
    shl.b32 %r4, %r4, 7;
    add.u32 %r4, %r4, %r2;
    and.b32 %r9, %r1, 7;
    shl.b32 %r5, %r9, 7;
    add.u32 %r5, %r5, %r2;
    add.u32 %r5, %r5, 2048;
    shr.u32 %r12, %r1, 3;
    and.b32 %r12, %r12, 1;
    mov.f32 %f0, 0f00000000;
    mov.f32 %f1, 0f00000000;
    mov.f32 %f2, 0f00000000;
    mov.f32 %f3, 0f00000000;
    mov.u32 %r14, 0;
STEP:
    {CHUNK_OF_A}
    shl.b32 %r11, %r11, 4;
    add.u32 %r11, %r11, %r4;
    {CHUNK_OF_B}
    shl.b32 %r13, %r13, 4;
    add.u32 %r13, %r13, %r5;
    {LOAD_A}
    {LOAD_B}
    {MMA}
    {STEP_OF_A}
    {STEP_OF_B}
    add.u32 %r14, %r14, 1;
    setp.lt.u32 %p3, %r14, 4;
    @%p3 bra STEP;
    ld.param.u64 %rd6, [d];
    shr.u32 %r15, %r1, 2;
    mul.wide.u32 %rd7, %r15, 32;
    add.u64 %rd6, %rd6, %rd7;
    and.b32 %r15, %r1, 3;
    mul.wide.u32 %rd7, %r15, 8;
    add.u64 %rd6, %rd6, %rd7;
    st.global.v2.f32 [%rd6], {{%f0, %f1}};
    st.global.v2.f32 [%rd6+256], {{%f2, %f3}};
    ret;
}}
"""

BOXED_TEXT = (
    TEXT.replace(
        _COPY,
        """mov.u32 %r3, full;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    bar.warp.sync 0xffffffff;
    add.u32 %r6, %r2, 2048;
    mov.u32 %r7, 0;
    @!%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 3072;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd1, {%r7, %r7}], [%r3];
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r6], [%rd2, {%r7, %r7}], [%r3];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
    @!%p2 bra WAIT;""",
    )
    .replace("ld.param.u64 %rd1, [a];", "mov.b64 %rd1, a;\n    cvta.param.u64 %rd1, %rd1;")
    .replace("ld.param.u64 %rd2, [b];", "mov.b64 %rd2, b;\n    cvta.param.u64 %rd2, %rd2;")
    .replace(".param .u64 a, .param .u64 b", ".param .align 64 .b8 a[128], .param .align 64 .b8 b[128]")
    .replace(".shared .align 128 .b8 tile[3072];", ".shared .align 1024 .b8 tile[3072];\n    .shared .align 8 .b64 full;")
    .replace("sm_80", "sm_90a")
)
"""The same with tensor copies."""

MISTAKES: dict[str, tuple[str, str, str, str]] = {
    #                          the right text, the wrong text, the code, what the fix says
    "no swizzle of A":         (CHUNK_OF_A, "mov.u32 %r11, %r10;", "O101", "so that all rows have the same k"),
    "no swizzle of B":         (CHUNK_OF_B, "mov.u32 %r13, %r12;", "O101", "so that all rows have the same k"),
    "rows and k of A":         (LANES_OF_A, "and.b32 %r4, %r1, 7;\n    shr.u32 %r5, %r1, 4;\n    shl.b32 %r5, %r5, 3;\n"
                                "    add.u32 %r4, %r4, %r5;\n    shr.u32 %r10, %r1, 3;\n    and.b32 %r10, %r10, 1;",
                                "O101", "give the registers of A in the order 0, 2, 1, 3"),
    "registers of A":          (MMA, MMA.replace("{%r20, %r21, %r22, %r23}", "{%r22, %r23, %r20, %r21}"), "O104",
                                "give the registers of A in the order 2, 3, 0, 1"),
    "registers of B":          (MMA, MMA.replace("{%r24, %r25}", "{%r25, %r24}"), "O104", "give the registers of B in the order 1, 0"),
    "B with .trans":           (LOAD_B, LOAD_B.replace("x2", "x2.trans"), "O101", "load B without .trans"),
    "A with .trans":           (LOAD_A, LOAD_A.replace("x4", "x4.trans"), "O101", "load A without .trans"),
    "K step of B":             (STEP_OF_B, "add.u32 %r12, %r12, 1;", "O105",
                                "advance the address from which B is loaded by 16 elements of k from instruction to instruction"),
    "K step of A":             (STEP_OF_A, "add.u32 %r10, %r10, 1;", "O105",
                                "advance the address from which A is loaded by 16 elements of k from instruction to instruction"),
    "no K step of B":          (STEP_OF_B, "", "O105",
                                "advance the address from which B is loaded by 16 elements of k from instruction to instruction"),
    "K step of both":          (f"{STEP_OF_A}\n    {STEP_OF_B}", "add.u32 %r10, %r10, 1;\n    add.u32 %r12, %r12, 1;", "O105",
                                "advance the address from which A is loaded by 16 elements of k from instruction to instruction"),
    "bf16 for f16":            (MMA, MMA.replace("f16.f16", "bf16.bf16"), "O103", "give f16 as the element type of A"),
}  # fmt: skip


def mistaken(name: str, text: str = TEXT) -> tuple[str, str, str]:
    """The PTX with a mistake, the code of the finding, and a part of its fix."""
    right, instead, code, fix = MISTAKES[name]
    assert right in text
    return text.replace(right, instead), code, fix


def launch(text: str, backend: str = "llvm", **options: Any) -> tuple[Any, bool]:
    """The result, and whether the product is right."""
    rng = np.random.default_rng(5)
    a: Any
    b: Any
    a, b = rng.integers(-4, 5, (2, ROWS, K)).astype(np.float16)
    d = np.zeros((ROWS, COLUMNS), np.float32)
    kernel = ptxlab.loads(text, file="product.ptx").kernel()
    with kernel.replaced(kernel.program, Executable(kernel.program, backend=backend)) if backend != "llvm" else nullcontext():
        args = [a, b, d]
        if "tensor.2d" in text:
            args[:2] = [ptxlab.TensorMap(each, box=(K, rows), swizzle="128B") for each, rows in ((a, ROWS), (b, COLUMNS))]
        result = kernel.launch(block=32, args=args, **options)
    return result, bool((d == a.astype(np.float64) @ b[:COLUMNS].astype(np.float64).T).all())
