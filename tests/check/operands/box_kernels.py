"""A product whose operands lie in several boxes of one tensor map each: along k, and along the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import ptxlab

from . import word_kernels

_COPIES = word_kernels.TEXT[word_kernels.TEXT.index("    ld.param.u64 %rd1, [a];") : word_kernels.TEXT.index("    fence.proxy.async")]
_LOOP = word_kernels.TEXT[word_kernels.TEXT.index("    mov.u32 %r15, 0;\nSTEP:") : word_kernels.TEXT.index("    tcgen05.commit")]
_BOX = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"
MMA = "    tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd10, %rd11, %r6, 0;\n"

LAYOUTS: dict[str, tuple[str, tuple[int, int], tuple[tuple[int, int], ...], int, int, str]] = {
    # swizzling mode, box, coordinates of the boxes in the order in which they stand, leading and stride dimension byte offset,
    # the major dimension
    "M-major, 8 k in a box": ("128B", (64, 8), ((0, 0), (64, 0), (0, 8), (64, 8)), 1024, 2048, "mn"),
    "K-major, 8 k in a box": ("none", (8, 128), ((0, 0), (8, 0)), 2048, 128, "k"),
    "M-major, 32 k in a box": ("128B", (64, 32), ((0, 0), (64, 0)), 4096, 1024, "mn"),
    "K-major, 64 k in a box": ("128B", (64, 128), ((0, 0),), 16, 1024, "k"),
    "K-major, 64 rows in a box": ("128B", (64, 64), ((0, 0), (64, 0)), 16, 1024, "k"),
    "K-major, 8 rows in a box": ("128B", (64, 8), tuple((0, row) for row in range(0, 128, 8)), 16, 1024, "k"),
    "K-major, rows in two boxes": ("none", (8, 64), ((0, 0), (0, 64), (8, 0), (8, 64)), 2048, 128, "k"),
}


def ptx(layout: str, matrix: str = "", leading: int | None = None, stride: int | None = None) -> str:
    """The PTX, with other byte offsets for a matrix if they are given."""
    mode, (inner, outer), boxes, *right, major = LAYOUTS[layout]
    wrong = [given or known for given, known in zip((leading, stride), right, strict=True)]
    size = 2 * inner * outer

    def descriptor(name: str) -> str:
        leading, stride = wrong if name == matrix else right
        return hex((2 if mode == "128B" else 0) << 61 | 1 << 46 | stride >> 4 << 32 | leading >> 4 << 16)

    copies = "\n".join(
        f"    @%p2 add.u32 %r20, %r2, {size * i};\n    @%p2 {_BOX} [%r20], [%rd1, {{{x}, {y}}}], [%r5];" for i, (x, y) in enumerate(boxes)
    )
    issue = f"""    bar.sync 0;
    mov.b64 %rd1, map;
    cvta.param.u64 %rd1, %rd1;
    @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {size * len(boxes)};
{copies}
COPIED:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5], 0;
    @!%p3 bra COPIED;
"""
    made = word_kernels.TEXT.replace(_COPIES, issue).replace(_LOOP, MMA).replace("[%r5], 0;\n    @!%p6", "[%r5], 1;\n    @!%p6")
    made = made.replace(".param .u64 a,", ".param .align 64 .b8 map[128],").replace("mov.u64 %rd11, %rd10;", "")
    if major == "mn":
        made = made.replace(word_kernels.INSTRUCTION, hex(int(word_kernels.INSTRUCTION, 16) | 3 << 15))
    both = f"or.b64 %rd11, %rd10, {descriptor('B')};\n    or.b64 %rd10, %rd10, {descriptor('A')};"
    return made.replace(f"or.b64 %rd10, %rd10, {word_kernels.MATRICES};", both)


def launch(layout: str, text: str, **options: Any) -> tuple[Any, bool]:
    """The result, and whether the product is right."""
    mode, box, boxes, _, _, major = LAYOUTS[layout]
    k = max(x + box[0] if major == "k" else y + box[1] for x, y in boxes)
    rows = np.random.default_rng(5).integers(-4, 5, (128, k)).astype(np.float16)
    stored = np.ascontiguousarray(rows.T) if major == "mn" else rows
    c = np.zeros((128, 64), np.float32)
    kernel = ptxlab.loads(text, file="boxes.ptx").kernel()
    result = kernel.launch(block=128, args=[ptxlab.TensorMap(stored, box=box, swizzle=mode), c], **options)
    wide = rows[:, :16].astype(np.float64)
    return result, bool((c == wide @ wide[:64].T).all())
