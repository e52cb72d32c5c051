"""A block-scaled product of four steps of k; the scale factors are copied to shared memory by threads, and to tensor memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import ptxlab
from ptxlab.descriptors import InstructionDescriptor
from ptxlab.layout import scale_factor_offset

from . import word_kernels

KIND = "mxf8f6f4"


def _instruction(number: int) -> int:
    found = InstructionDescriptor.decode(0, KIND)
    fields = {"m": 128, "n": 64, "a": "e4m3", "b": "e4m3", "scale": "ue8m0", "scale_a_id": number, "scale_b_id": number}
    return int(type(found)(**{**{name: getattr(found, name) for name in found.__dataclass_fields__}, **fields}))


_NEXT_IDS = _instruction(1) - _instruction(0)
COPY = "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r24], %rd12;"
IDS = f"add.u32 %r6, %r6, {_NEXT_IDS};"
SCALES = "0x0000400800080000"
_MMA = f"tcgen05.mma.cta_group::1.kind::{KIND}.block_scale.scale_vec::1X [%r4], %rd10, %rd11, %r6, [%r24], [%r25], %p4;\n    {IDS}"
_LOAD = """    @!%p1 bra LOADED;
    ld.param.u64 %rd6, [scales];
    mul.wide.u32 %rd7, %r1, 16;
    add.u64 %rd6, %rd6, %rd7;
    shl.b32 %r20, %r1, 4;
    add.u32 %r20, %r20, %r2;
    ld.global.v4.b32 {%r26, %r27, %r28, %r29}, [%rd6];
    st.shared.v4.b32 [%r20+16384], {%r26, %r27, %r28, %r29};
LOADED:
"""
_TO_TENSOR = f"""    add.u32 %r24, %r4, 64;
    mov.u32 %r25, %r24;
    add.u32 %r20, %r2, 16384;
    shr.u32 %r20, %r20, 4;
    cvt.u64.u32 %rd12, %r20;
    or.b64 %rd12, %rd12, {SCALES};
    @%p2 {COPY}
"""
TEXT = (
    word_kernels.TEXT.replace("tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd10, %rd11, %r6, %p4;", _MMA)
    .replace(word_kernels.INSTRUCTION, hex(_instruction(0)))
    .replace("[%r3], 64;", "[%r3], 128;")
    .replace("%r4, 64;", "%r4, 128;")
    .replace("tile[16384]", "tile[16896]")
    .replace(".param .u64 a,", ".param .u64 a, .param .u64 scales,")
    .replace("    mov.u32 %r12, 0;\nCOPY:", _LOAD + "    mov.u32 %r12, 0;\nCOPY:")
    .replace("    @!%p2 bra WAIT;\n    mov.u32 %r15, 0;", _TO_TENSOR + "    @!%p2 bra WAIT;\n    mov.u32 %r15, 0;")
)


def arguments() -> list[np.ndarray[Any, Any]]:
    """The matrix, the scale factors as tensor memory takes them, and the result."""
    generator = np.random.default_rng(5)
    a = np.zeros((128, 256), ml_dtypes.float8_e4m3fn)
    a[:, :128] = generator.integers(-4, 5, (128, 128))
    blocked = np.zeros(512, np.uint8)
    blocked[scale_factor_offset(128, 4)] = generator.integers(-2, 3, (128, 4)) + 127
    return [a, blocked, np.zeros((128, 64), np.float32)]


def launch(text: str, **options: Any) -> tuple[Any, bool]:
    """The result, and whether the product is right."""
    a, blocked, c = arguments()
    result = ptxlab.loads(text, file="scaled.ptx").kernel().launch(block=128, args=[a, blocked, c], **options)
    return result, bool((c == product(a, blocked)).all())


def product(a: Any, blocked: Any) -> Any:
    """What the kernel computes."""
    powers = np.exp2(blocked[scale_factor_offset(128, 4)].astype(np.float64) - 127)
    rows = a[:, :128].astype(np.float64) * np.repeat(powers, 32, axis=1)
    return rows @ rows[:64].T
