"""A product of rows that threads copy with cp.async, with 128B swizzling, and mistakes in it: each is legal, and the result is wrong."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

import ptxlab
from ptxlab.engine import Executable

LOADED = ", ".join(f"%f{i}" for i in range(64))
STORED = "\n".join(f"    st.global.f32 [%rd5+{4 * i}], %f{i};" for i in range(64))
TEXT = f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 c)
{{
    .reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<16>; .reg .f32 %f<64>;
    .shared .align 1024 .b8 tile[16384];
    .shared .align 8 .b64 done;
    .shared .align 4 .b32 columns;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 32;
    setp.eq.u32 %p2, %r1, 0;
    mov.u32 %r2, tile;
    mov.u32 %r3, columns;
    mov.u32 %r5, done;
    @%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 64;
    @%p2 mbarrier.init.shared::cta.b64 [%r5], 1;
    ld.param.u64 %rd1, [a];
    mul.wide.u32 %rd2, %r1, 256;
    add.u64 %rd1, %rd1, %rd2;
    shl.b32 %r10, %r1, 7;
    add.u32 %r10, %r10, %r2;
    and.b32 %r11, %r1, 7;
    mov.u32 %r12, 0;
COPY:
    xor.b32 %r13, %r12, %r11;
    shl.b32 %r13, %r13, 4;
    add.u32 %r13, %r13, %r10;
    cp.async.cg.shared.global [%r13], [%rd1], 16;
    add.u64 %rd1, %rd1, 16;
    add.u32 %r12, %r12, 1;
    setp.lt.u32 %p3, %r12, 8;
    @%p3 bra COPY;
    cp.async.wait_all;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    ld.shared.b32 %r4, [%r3];
    shr.u32 %r14, %r2, 4;
    cvt.u64.u32 %rd10, %r14;
    or.b64 %rd10, %rd10, 0x4000404000010000;
    mov.u64 %rd11, %rd10;
    mov.b32 %r6, 0x08100010;
    @!%p2 bra WAIT;
    mov.u32 %r15, 0;
STEP:
    setp.ne.u32 %p4, %r15, 0;
    tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd10, %rd11, %r6, %p4;
    add.u64 %rd10, %rd10, 2;
    add.u64 %rd11, %rd11, 2;
    add.u32 %r15, %r15, 1;
    setp.lt.u32 %p5, %r15, 4;
    @%p5 bra STEP;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r5], 0;
    @!%p6 bra WAIT;
    tcgen05.ld.sync.aligned.32x32b.x64.b32 {{{LOADED}}}, [%r4];
    tcgen05.wait::ld.sync.aligned;
    ld.param.u64 %rd4, [c];
    mul.wide.u32 %rd5, %r1, 256;
    add.u64 %rd5, %rd5, %rd4;
{STORED}
    bar.sync 0;
    @%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 64;
    ret;
}}
"""
LOADED_TEXT = TEXT.replace(
    "cp.async.cg.shared.global [%r13], [%rd1], 16;",
    "ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd1];\n    st.shared.v4.b32 [%r13], {%r20, %r21, %r22, %r23};",
).replace("cp.async.wait_all;", "")
"""The same with loads and stores."""
MATRICES = "0x4000404000010000"
INSTRUCTION = "0x08100010"
STEP = "add.u64 %rd10, %rd10, 2;\n    add.u64 %rd11, %rd11, 2;"

MISTAKES: dict[str, tuple[str, str, str, str]] = {
    #                       the right text, the wrong text, the code, what the fix says
    "swizzle 64B":          (MATRICES, "0x8000404000010000", "O101", "set the swizzling mode to 128B"),
    "swizzle 32B":          (MATRICES, "0xc000404000010000", "O101", "set the swizzling mode to 128B"),
    "no swizzle":           (MATRICES, "0x0000404000010000", "O102", "set the swizzling mode to 128B"),
    "stride 512":           (MATRICES, "0x4000402000010000", "O102", "set the stride dimension byte offset to 1024"),
    "stride 2048":          (MATRICES, "0x4000408000010000", "D704", "set the stride dimension byte offset to 1024"),
    "K step of 16 bytes":   (STEP, STEP.replace(" 2;", " 1;"), "O105", "advance the start address of A by 32 bytes"),
    "K step of A only":     (STEP, STEP.replace(" 2;", " 1;", 1), "O105", "advance the start address of A by 32 bytes"),
    "no K step":            (STEP, "", "O105", "advance the start address of A by 32 bytes"),
    "bf16 for f16":         (INSTRUCTION, "0x08100490", "O103", "give f16 as the element type of A"),
    "f16 D":                (INSTRUCTION, "0x08100000", "O106", "give f32 as the type of D"),
    "transposed A":         (INSTRUCTION, "0x08108010", "O102", "clear the transpose bit"),
    "transposed B":         (INSTRUCTION, "0x08110010", "O101", "clear the transpose bit"),
    "M of 64":              (INSTRUCTION, "0x04100010", "O107", "set M to 128"),
}  # fmt: skip


def mistaken(name: str, text: str = TEXT) -> tuple[str, str, str]:
    """The PTX with a mistake, the code of the finding, and a part of its fix."""
    right, instead, code, fix = MISTAKES[name]
    assert right in text
    return text.replace(right, instead), code, fix


def launch(
    text: str, a: Any = None, backend: str = "llvm", flat: bool = False, turned: bool = False, one_row: bool = False, **options: Any
) -> tuple[Any, bool]:
    """The result, and whether the product is right.

    ``flat``: the array has one dimension; ``turned``: it is the transposed matrix; ``one_row``: the result has one dimension.
    """
    if a is None:
        a = np.random.default_rng(5).integers(-4, 5, (128, 128)).astype(np.float16)
    c = np.zeros((128, 64), np.float32)
    kernel = ptxlab.loads(text, file="product.ptx").kernel()
    args = [np.ascontiguousarray(a.T if turned else a).reshape(-1 if flat else a.shape), c.reshape(-1) if one_row else c]
    with kernel.replaced(kernel.program, Executable(kernel.program, backend=backend)) if backend != "llvm" else nullcontext():
        result = kernel.launch(block=128, args=args, **options)
    rows = a.view(np.float16)[:, :64].astype(np.float64)
    return result, bool((c == rows @ rows[:64].T).all())


def expect_mistake(name: str, text: str = TEXT, **options: Any) -> None:
    """With a mistake the product is wrong, and a finding has the code and the fix of the mistake."""
    wrong, code, fix = mistaken(name, text)
    result, right = launch(wrong, **options)
    assert not right
    assert code in {found.code for found in result.diagnostics}
    assert any(fix in found.fix for found in result.diagnostics if found.code == code)


def expect_swizzle_named(text: str, **options: Any) -> tuple[Any, ...]:
    """The kernel has no finding; with 64B swizzling in the descriptor the product is wrong, and the first finding names 128B.

    Returns
    -------
    the findings of the wrong kernel
    """
    result, right = launch(text, check="operands", **options)
    assert right
    assert result.diagnostics == ()
    result, right = launch(mistaken("swizzle 64B", text)[0], check="operands", **options)
    assert not right
    assert {found.code for found in result.diagnostics} == {"O101"}
    assert result.diagnostics[0].fix == "set the swizzling mode to 128B: then A is the tile that was copied"
    found: tuple[Any, ...] = result.diagnostics
    return found


TRANSPOSED = "matrix A is not an image of the rows that were copied: it has no equal steps; A[2, 0] is a[0, 1], but A[0, 0] is a[0, 0]"
"""The message of the first finding of the mistake "swizzle 64B" where the array is the transposed matrix."""
