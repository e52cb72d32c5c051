"""A sparse product of four steps of k, whose metadata tcgen05.cp brings to tensor memory."""

from __future__ import annotations

from typing import Any

import numpy as np

import ptxlab

from . import scaled_kernels

NEXT = "add.u32 %r24, %r24, 1;"
FIRST_TWO = 0x44444444
"""Of each four elements of k the first two are stored."""
_SCALED = scaled_kernels.TEXT[scaled_kernels.TEXT.index("tcgen05.mma") : scaled_kernels.TEXT.index("\n    " + scaled_kernels.IDS)]
_TILE = """and.b32 %r13, %r12, 7;
    xor.b32 %r13, %r13, %r11;
    shr.u32 %r14, %r12, 3;
    shl.b32 %r14, %r14, 14;"""
TEXT = (
    scaled_kernels.TEXT.replace(_SCALED, "tcgen05.mma.sp.cta_group::1.kind::f16 [%r4], %rd10, %rd11, [%r24], %r6, %p4;")
    .replace(scaled_kernels.IDS, NEXT)
    .replace(hex(scaled_kernels._instruction(0)), "0x08100014")
    .replace("tile[16896]", "tile[33280]")
    .replace("[%r20+16384]", "[%r20+32768]")
    .replace("add.u32 %r20, %r2, 16384;", "add.u32 %r20, %r2, 32768;")
    .replace("xor.b32 %r13, %r12, %r11;", _TILE)
    .replace("add.u32 %r13, %r13, %r10;", "add.u32 %r13, %r13, %r10;\n    add.u32 %r13, %r13, %r14;")
    .replace("setp.lt.u32 %p3, %r12, 8;", "setp.lt.u32 %p3, %r12, 16;")
    .replace("add.u64 %rd11, %rd11, 2;", "add.u64 %rd11, %rd11, 4;\n    setp.eq.u32 %p7, %r15, 1;\n    @%p7 add.u64 %rd11, %rd11, 1016;")
)
"""The array has 128 rows of two tiles; A are the 64 stored elements of the first tile, B both tiles of the first 64 rows."""


def launch(text: str, ctas: int = 1, **options: Any) -> tuple[Any, bool]:
    """The result, and whether the product is right; all CTAs compute the same."""
    a = np.random.default_rng(5).integers(-4, 5, (128, 128)).astype(np.float16)
    metadata, c = np.full(128, FIRST_TWO, np.uint32), np.zeros((128, 64), np.float32)
    result = ptxlab.loads(text, file="sparse.ptx").kernel().launch(grid=ctas, block=128, args=[a, metadata, c], **options)
    rows = np.zeros((128, 128))
    rows.reshape(128, 32, 4)[:, :, :2] = a[:, :64].reshape(128, 32, 2)
    return result, bool((c == rows @ a[:64].astype(np.float64).T).all())
