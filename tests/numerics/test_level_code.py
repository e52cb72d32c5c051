"""Products use the vectors and the instructions of the level that they are compiled for, and none of a higher one."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ptxlab import numerics
from ptxlab.native import _compile, compiling_for
from ptxlab.numerics._steps import find_step
from ptxlab.numerics.ir._fused import fused_ir
from ptxlab.numerics.ir.group import group_ir
from tests.native.level_helpers import LEVELS, emulated

FLOATS, GROUPS = find_step("tcgen05", "f16", "f16", "f16", "f32"), find_step("tcgen05", "mxf4", "e2m1", "e2m1", "f32", 64)
XMM, YMM, ZMM, VEX = r"%xmm", r"%ymm", r"%zmm", r"\n\tv\w+ps\b"
INSTRUCTIONS = {
    "SSE2": ({r"\tmulps\b.*%xmm", r"\tcvttps2dq\b"}, {YMM, ZMM, VEX, r"pmaddubsw", r"pmaxsd", r"pternlog"}),
    "SSE4": ({r"\tmulps\b.*%xmm", r"\tpmaddubsw\b.*%xmm", r"\tpmaxsd\b"}, {YMM, ZMM, VEX}),
    "AVX2": ({r"\tvmulps\b.*%ymm", r"\tvpmaddubsw\b.*%ymm", r"\tvcvttps2dq\b.*%ymm"}, {ZMM, r"vpdpbusd", r"vpternlog"}),
    "AVX-512": ({r"\tvmulps\b.*%zmm", r"\tvpmaddubsw\b.*%zmm", r"\tvcvtdq2ps\t\{rz-sae\}.*%zmm"}, {r"vpdpbusd"}),
    "AVX-512 VNNI": ({r"\tvmulps\b.*%zmm", r"\tvpdpbusd\b.*%zmm"}, {r"vpmaddubsw"}),
    "AVX-512 VBMI2": ({r"\tvmulps\b.*%zmm", r"\tvpdpbusd\b.*%zmm"}, {r"vpmaddubsw", r"vfmadd...pd"}),
    "AVX-512 BITALG": ({r"\tvfmadd...pd\t\{rd-sae\}, %zmm", r"\tvpopcntw\b.*%zmm", r"\tvpdpwssd\b.*%zmm"}, {r"vpmaddubsw"}),
    "NEON": ({r"\tfmul\tv\d+\.4s", r"\tfcvtzs\tv\d+\.4s", r"\tmla\tv\d+\.4s", r"\tumax\tv\d+\.16b"}, {r"\tsdot\b", r"\tz\d+\."}),
}
"""Expressions for instructions that the code of a level has, and for those that it must not have."""


@pytest.mark.parametrize("level", LEVELS)
def test_instructions(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compile, "emit_object", lambda machine, module: machine.emit_assembly(module).encode())
    lanes = LEVELS[level].vector_bits // 32
    with compiling_for(LEVELS[level]):
        text = "".join(_compile._object(ir, 1, True).decode() for ir in (fused_ir(FLOATS, False, lanes), group_ir(GROUPS, lanes)))
    there, absent = INSTRUCTIONS[level]
    assert [each for each in there if not re.search(each, text)] == []
    assert [found.group() for each in absent if (found := re.search(each, text))] == []


NEON = {
    "fmul v.4s": (0xFFE0FC00, 0x6E20DC00),
    "fmul v.4s by an element": (0xFFC0F400, 0x4F809000),
    "fcvtzs v.4s": (0xFFFFFC00, 0x4EA1B800),
    "umax v.16b": (0xFFE0FC00, 0x6E206400),
    "any": (0xDE000000, 0x4E000000),
}
"""Masks of fields and values of instructions on vectors of 128 bits."""


def test_executed_instructions_of_aarch64() -> None:
    """Of what is executed, vectors of 128 bits do the most."""
    codes = np.full((64, 16), 0x3C00, np.uint16)
    with emulated(notes=True) as emulator:
        a, b = (numerics.prepare(codes, "f16", role=role, kind="f16") for role in ("a", "b"))
        cells = np.zeros((64, 64), np.uint32)
        emulator.instructions.clear()
        numerics.mma_prepared("f16", "f32", a, b, cells, accumulate=True)
    assert (cells.view(np.float32) == 16).all()
    words = np.array(emulator.instructions, np.uint32)
    count = {name: int((words & mask == value).sum()) for name, (mask, value) in NEON.items()}
    products = 64 * 64 * 16
    assert count["fmul v.4s"] + count["fmul v.4s by an element"] >= products // 4
    assert count["fcvtzs v.4s"] >= products // 4
    assert count["umax v.16b"] >= products // 16
    assert count["any"] > len(words) // 2
