"""Mistakes in descriptors of the GEMM of ``tests/check/race/gemm.ptx``: each is legal, and the result is wrong."""

from __future__ import annotations

from tests.check.race.gemm_kernels import TEXT

MATRICES = "0x4000404000010000"
"""The fields of both matrix descriptors: swizzling mode 128B, stride dimension 1024 bytes, leading dimension 16 bytes."""
INSTRUCTION = "0x08100010"
STEP = "add.u64 %rd10, %rd10, 2; add.u64 %rd11, %rd11, 2;"
STEP_OF_A = "add.u64 %rd10, %rd10, 2; add"

MISTAKES: dict[str, tuple[str, str, str, str]] = {
    #                       the right text, the wrong text, the code, what the fix says
    "swizzle 64B":          (MATRICES, "0x8000404000010000", "O101", "set the swizzling mode to 128B"),
    "swizzle 32B":          (MATRICES, "0xc000404000010000", "O101", "set the swizzling mode to 128B"),
    "no swizzle":           (MATRICES, "0x0000404000010000", "O102", "set the swizzling mode to 128B"),
    "stride 512":           (MATRICES, "0x4000402000010000", "O102", "set the stride dimension byte offset to 1024"),
    "stride 0":             (MATRICES, "0x4000400000010000", "O102", "set the stride dimension byte offset to 1024"),
    "K step of 16 bytes":   (STEP, STEP.replace(" 2;", " 1;"), "O105", "advance the start address of A by 32 bytes"),
    "K step of A only":     (STEP_OF_A, STEP_OF_A.replace(" 2;", " 1;"), "O105", "advance the start address of A by 32 bytes"),
    "K step of 1024 bytes": (STEP, STEP.replace(" 2;", " 64;"), "O101", "set the start address to 0x800"),
    "no K step":            (STEP, "", "O105", "advance the start address of A by 32 bytes"),
    "bf16 for f16":         (INSTRUCTION, "0x08100490", "O103", "give f16 as the element type of A"),
    "f16 D":                (INSTRUCTION, "0x08100000", "O106", "give f32 as the type of D"),
    "transposed A":         (INSTRUCTION, "0x08108010", "O102", "clear the transpose bit"),
    "transposed B":         (INSTRUCTION, "0x08110010", "O101", "clear the transpose bit"),
    "start of A":           ("or.b64 %rd10, %rd10, 0x4", "add.u64 %rd10, %rd10, 2;\nor.b64 %rd10, %rd10, 0x4", "O101", "0x800"),
}  # fmt: skip


def wrong(name: str) -> tuple[str, str, str]:
    """The PTX with a mistake, the code of the finding, and a part of its fix."""
    right, instead, code, fix = MISTAKES[name]
    assert right in TEXT
    return TEXT.replace(right, instead), code, fix
