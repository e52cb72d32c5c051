"""A product whose A threads load from global memory and store to tensor memory; and mistakes in it."""

from __future__ import annotations

from . import word_kernels
from .word_kernels import INSTRUCTION, STEP

WORDS = 32
_REGISTERS = [f"%a{i}" for i in range(WORDS)]
LOADS = "\n".join(f"    ld.global.v4.b32 {{{', '.join(_REGISTERS[i : i + 4])}}}, [%rd13+{4 * i}];" for i in range(0, WORDS, 4))
STORE = f"tcgen05.st.sync.aligned.32x32b.x32.b32 [%r24], {{{', '.join(_REGISTERS)}}};"
ROW = "mul.wide.u32 %rd14, %r1, 256;"
_MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd10, %rd11, %r6, %p4;"
_STEP = "add.u32 %r24, %r24, 8;\n    add.u64 %rd11, %rd11, 2;"
TEXT = (
    word_kernels.TEXT.replace(_MMA, _MMA.replace("%rd10", "[%r24]"))
    .replace(STEP, _STEP)
    .replace("[%r3], 64;", "[%r3], 128;")
    .replace("%r4, 64;\n    ret", "%r4, 128;\n    ret")
    .replace(".reg .f32 %f<64>;", f".reg .f32 %f<64>; .reg .b32 %a<{WORDS}>;")
    .replace(
        "ld.shared.b32 %r4, [%r3];",
        f"""ld.shared.b32 %r4, [%r3];
    ld.param.u64 %rd13, [a];
    {ROW}
    add.u64 %rd13, %rd13, %rd14;
{LOADS}
    add.u32 %r24, %r4, 64;
    {STORE}
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;""",
    )
)
HALVES = "\n    ".join(
    f"add.u32 %r25, %r24, {column};\n    tcgen05.st.sync.aligned.32x32b.x16.b32 [%r25], {{{', '.join(_REGISTERS[first : first + 16])}}};"
    for column, first in ((0, 0), (16, 16))
)
"""The same in two stores."""
_EXCHANGED = """    and.b32 %r25, %r1, 1;
    mul.wide.u32 %rd15, %r25, 16;
    sub.u64 %rd14, %rd13, %rd15;
    add.u64 %rd13, %rd13, %rd15;
""" + LOADS.replace("%rd13+16]", "%rd14+16]").replace("%rd13+48]", "%rd14+48]").replace("%rd13+80]", "%rd14+80]").replace(
    "%rd13+112]", "%rd14+112]"
)

MISTAKES: dict[str, tuple[str, str, str, str]] = {
    #                     the right text, the wrong text, the code, what the fix says
    "registers":          (STORE, STORE.replace("%a0, %a1", "%a1, %a0"), "O104", "load both so that each k of A is the k of B"),
    "odd rows":           (LOADS, _EXCHANGED, "O101", "correct the addresses with which A is loaded or stored"),
    "halves":             (STORE, HALVES.replace("%r24, 0;", "%r24, 16; ").replace("%r24, 16;\n", "%r24, 0;\n"), "O105",
                           "advance the address from which A is taken by 16 elements of k"),
    "K step of A":        ("add.u32 %r24, %r24, 8;", "add.u32 %r24, %r24, 4;", "O105", "advance the address of A by 8 columns"),
    "K step of B":        ("add.u64 %rd11, %rd11, 2;", "add.u64 %rd11, %rd11, 1;", "O105", "advance the start address of B by 32 bytes"),
    "bf16 for f16":       (INSTRUCTION, "0x08100490", "O103", "give f16 as the element type of"),
}  # fmt: skip


def mistaken(name: str, text: str = TEXT) -> tuple[str, str, str]:
    """The PTX with a mistake, the code of the finding, and a part of its fix."""
    right, instead, code, fix = MISTAKES[name]
    assert right in text
    return text.replace(right, instead), code, fix
