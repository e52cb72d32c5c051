"""The product of one warp of `warp_kernels`, whose B each lane loads in parts of words that it joins; k advances as there."""

from __future__ import annotations

from .warp_kernels import LOAD_B, TEXT

_ADDRESS = """and.b32 %r3, %r1, 3;
    shl.b32 %r3, %r3, 2;
    shl.b32 %r6, %r12, 4;
    sub.u32 %r6, %r6, %r16;
    add.u32 %r3, %r3, %r6;
    shr.u32 %r6, %r1, 2;"""
"""The byte of a row at which the first element of a lane lies; register 16 is what the lane has added for the second matrix."""
ADDRESSES = {
    "global": f"""{_ADDRESS}
    shl.b32 %r6, %r6, 7;
    add.u32 %r3, %r3, %r6;
    cvt.u64.u32 %rd8, %r3;
    ld.param.u64 %rd9, [b];
    add.u64 %rd8, %rd8, %rd9;
    add.u64 %rd9, %rd8, 16;""",
    "shared": f"""{_ADDRESS}
    shl.b32 %r7, %r6, 4;
    shl.b32 %r6, %r6, 7;
    add.u32 %r6, %r6, %r2;
    add.u32 %r6, %r6, 2048;
    xor.b32 %r17, %r3, %r7;
    add.u32 %r17, %r17, %r6;
    add.u32 %r3, %r3, 16;
    xor.b32 %r18, %r3, %r7;
    add.u32 %r18, %r18, %r6;""",
}
"""The addresses of the two words of a lane, by the space from which they are loaded."""
_WORDS = {"global": ("%rd8", "%rd9"), "shared": ("%r17", "%r18")}


def load(space: str, vector: str, registers: str, byte: int) -> str:
    """An instruction that loads from a byte of the eight that a lane takes; ``vector`` is a type, perhaps behind a width."""
    word, offset = divmod(byte, 4)
    return f"ld.{space}.{vector} {registers}, [{_WORDS[space][word]}+{offset}];"


def with_b(space: str, *lines: str, text: str = TEXT) -> str:
    """The kernel with other instructions that bring B to registers 24 and 25: `ADDRESSES`, and these."""
    text = text.replace(".reg .f32 %f<4>;", ".reg .f32 %f<4>; .reg .b16 %h<16>; .reg .b8 %b<8>; .reg .b32 %e<16>;")
    text = text.replace(LOAD_B, "\n    ".join([ADDRESSES[space], *lines]))
    return text.replace("STEP:\n", "shr.u32 %r16, %r1, 3;\n    and.b32 %r16, %r16, 1;\n    shl.b32 %r16, %r16, 4;\nSTEP:\n", 1)
