"""A kernel that copies A by TMA to shared memory and by `tcgen05.cp` to tensor memory, and multiplies it by a swizzled B."""

from __future__ import annotations

from typing import Any

import numpy as np

import ptxlab

from . import word_kernels

ROWS, COLUMNS, K = 128, 64, 64
_BOX = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"
_BEFORE = word_kernels.TEXT[: word_kernels.TEXT.index("    ld.param.u64 %rd1, [a];")]
_AFTER = word_kernels.TEXT[word_kernels.TEXT.index("    tcgen05.commit") :]
_SIZE = ROWS * K * 2
MODES = {"none": 0, "128B": 2, "64B": 4, "32B": 6}


def descriptor(mode: str, leading: int, stride: int) -> int:
    """A matrix descriptor that begins at 0."""
    return MODES[mode] << 61 | 1 << 46 | stride >> 4 << 32 | leading >> 4 << 16


def ptx(of_a: int, boxes: int = 1, shape: str = "128x256b", step: int = 2) -> str:
    """A stands in so many boxes of its map, one after the other, and is copied with a descriptor; ``step`` counts 16 bytes."""
    inner = K // boxes
    bring = "\n".join(
        f"    @%p2 add.u32 %r20, %r2, {_SIZE // boxes * i};\n    @%p2 {_BOX} [%r20], [%rd1, {{{inner * i}, 0}}], [%r5];"
        for i in range(boxes)
    )
    copies = "\n".join(
        f"    @%p2 add.u32 %r25, %r4, {64 + 8 * i};\n    @%p2 add.u64 %rd15, %rd10, {step * i};\n"
        f"    @%p2 tcgen05.cp.cta_group::1.{shape} [%r25], %rd15;"
        for i in range(K // 16)
    )
    products = "\n".join(
        f"    @%p2 add.u32 %r24, %r4, {64 + 8 * i};\n    @%p2 add.u64 %rd12, %rd11, {2 * i};\n"
        f"    @%p2 tcgen05.mma.cta_group::1.kind::f16 [%r4], [%r24], %rd12, {word_kernels.INSTRUCTION}, {int(i > 0)};"
        for i in range(K // 16)
    ).replace(f", {word_kernels.INSTRUCTION},", ", %r6,")
    body = f"""    bar.sync 0;
    mov.b64 %rd1, map_a;
    cvta.param.u64 %rd1, %rd1;
    mov.b64 %rd2, map_b;
    cvta.param.u64 %rd2, %rd2;
    @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {_SIZE + COLUMNS * K * 2};
{bring}
    @%p2 add.u32 %r20, %r2, {_SIZE};
    @%p2 {_BOX} [%r20], [%rd2, {{0, 0}}], [%r5];
COPIED:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5], 0;
    @!%p3 bra COPIED;
    bar.sync 0;
    ld.shared.b32 %r4, [%r3];
    shr.u32 %r14, %r2, 4;
    cvt.u64.u32 %rd10, %r14;
    add.u64 %rd11, %rd10, {_SIZE // 16};
    or.b64 %rd10, %rd10, {of_a:#x};
    or.b64 %rd11, %rd11, {descriptor("128B", 16, 1024):#x};
    mov.b32 %r6, {word_kernels.INSTRUCTION};
{copies}
{products}
    @!%p2 bra WAIT;
"""
    text = _BEFORE + body + _AFTER
    text = text.replace("tile[16384]", f"tile[{_SIZE + COLUMNS * K * 2}]").replace("[%r5], 0;\n    @!%p6", "[%r5], 1;\n    @!%p6")
    text = text.replace(".param .u64 a,", ".param .align 64 .b8 map_a[128], .param .align 64 .b8 map_b[128],")
    return text.replace("[%r3], 64;", "[%r3], 128;").replace("%r4, 64;\n    ret", "%r4, 128;\n    ret")


def launch(text: str, mode: str, boxes: int = 1, width: int = K, **options: Any) -> tuple[Any, bool]:
    """The result, and whether the product is right; ``mode`` is that of the map of A, whose array has rows of ``width`` elements."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, (rows, k)).astype(np.float16) for rows, k in ((ROWS, width), (COLUMNS, K)))
    c = np.zeros((ROWS, COLUMNS), np.float32)
    maps = [ptxlab.TensorMap(a, box=(K // boxes, ROWS), swizzle=mode), ptxlab.TensorMap(b, box=(K, COLUMNS), swizzle="128B")]
    result = ptxlab.loads(text, file="copied.ptx").kernel().launch(block=128, args=[*maps, c], **options)
    return result, bool((c == a[:, :K].astype(np.float64) @ b.astype(np.float64).T).all())
