"""Operands that lie in several boxes: each box has its own k, or its own rows."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from ptxlab.descriptors import InstructionDescriptor

from . import box_kernels
from .box_kernels import LAYOUTS, MMA, launch, ptx
from .word_kernels import INSTRUCTION

TWO_TILES = "K-major, 64 rows in a box"
"""The tiles are of two k: no operand of 128 rows."""


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != TWO_TILES])
def test_the_kernels_themselves(layout: str) -> None:
    result, right = launch(layout, ptx(layout))
    assert right
    assert result.diagnostics == ()


MISTAKES = {
    #                              layout, matrix, leading, stride, the code, what the message says, the field to set
    "other rows, the same k":      ("M-major, 8 k in a box", "B", None, 1024, "O101", "other rows and the same k", "stride", 2048),
    "the same bytes":              ("M-major, 8 k in a box", "A", None, 1024, "O102", "the same bytes", "stride", 2048),
    "strides exchanged":           ("M-major, 8 k in a box", "A", 2048, 1024, "O101", "at different k", "leading", 1024),
    "half of the leading offset":  ("K-major, rows in two boxes", "B", 1024, None, "O101", "the same k", "leading", 2048),
    "twice the stride":            ("K-major, rows in two boxes", "B", None, 256, "O101", "", "stride", 128),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    layout, matrix, leading, stride, code, message, field, value = MISTAKES[name]
    result, right = launch(layout, ptx(layout, matrix, leading, stride), check="operands")
    assert not right
    (found,) = (each for each in result.diagnostics if each.code == code)
    assert message in found.message
    assert re.search(rf"set the {field} dimension byte offset to {value}\b", found.fix)


NARROW = hex(int(INSTRUCTION, 16) & ~(0x3F << 17) | 32 // 8 << 17)
"""The instruction descriptor with N = 32."""


UNREADABLE: dict[str, tuple[tuple[int, int], int, int, str, str, str]] = {
    # the unswizzled box, leading and stride dimension byte offset, the major dimension, the code, the tensor map that fits
    "K-major":              ((64, 128), 2048, 128, "k", "O101",
                             "with swizzling mode 128B, which the descriptor needs too, with a stride dimension byte offset of 1024, or "),
    "K-major, same bytes":  ((64, 128), 16, 1024, "k", "O102",
                             "with swizzling mode 128B, which the descriptor needs too, with a stride dimension byte offset of 1024, or "),
    "K-major, half as wide": ((32, 128), 2048, 128, "k", "O101",
                             "with swizzling mode 64B, which the descriptor needs too, with a stride dimension byte offset of 512, or "),
    "M-major, same bytes":  ((128, 32), 1024, 128, "mn", "O102", ""),
    "M-major, too far":     ((128, 32), 1024, 2048, "mn", "D704", ""),
    "M-major, half as wide": ((64, 64), 1024, 128, "mn", "O102", "with swizzling mode 128B, which the descriptor needs too, or "),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_rows_that_no_descriptor_reads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A box without swizzling is wider than a row of a core matrix."""
    box, leading, stride, major, code, mode = UNREADABLE[name]
    monkeypatch.setitem(box_kernels.LAYOUTS, name, ("none", box, ((0, 0),), leading, stride, major))
    result, right = launch(name, ptx(name), check="operands")
    assert not right
    found = result.diagnostics[0]
    lines = "rows" if major == "k" else "steps of k"
    assert (found.code, found.fix) == (
        code,
        f"no descriptor reads this tile: its {lines} lie {2 * box[0]} bytes apart in shared memory, and those of an unswizzled core matrix "
        f"16 bytes; encode the tensor map {mode}with a box of 8 elements in the innermost dimension",
    )


def test_stripes_of_k_in_a_tile_of_eight_rows() -> None:
    """Each group of 8 rows of B takes the next 32 bytes of the rows of a tile that has no others."""
    text = ptx("K-major, 8 rows in a box", "B", None, 32).replace(INSTRUCTION, NARROW)
    result, _ = launch("K-major, 8 rows in a box", text, check="operands")
    assert result.completed
    assert result.diagnostics == ()


def test_stripes_of_k_in_a_larger_tile() -> None:
    text = ptx("K-major, 64 k in a box", "B", None, 32).replace(INSTRUCTION, NARROW)
    result, _ = launch("K-major, 64 k in a box", text, check="operands")
    (found,) = result.diagnostics
    assert found.code == "O101"
    assert "B[8, 0] is element [0, 16] of the array, but B[0, 0] is element [0, 0]" in found.message
    assert "set the stride dimension byte offset to 1024" in found.fix


def instruction(**fields: object) -> str:
    """The instruction descriptor of the kernels with other fields."""
    return hex(int(replace(InstructionDescriptor.decode(int(INSTRUCTION, 16), "f16"), **fields)))


def test_more_columns_than_rows_of_the_tile() -> None:
    text = ptx("K-major, 64 k in a box").replace(INSTRUCTION, instruction(n=192))
    result, _ = launch("K-major, 64 k in a box", text.replace("[%r3], 64;", "[%r3], 256;").replace("%r4, 64;", "%r4, 256;"))
    (found,) = (each for each in result.diagnostics if each.code == "D704")
    assert found.fix == "set N to 128: 128 of the 192 rows of B are what was copied"


def two_tiles(*instructions: tuple[int, int]) -> Any:
    """Launch a kernel with tiles of 64 rows at two k, whose instructions, with an M and an N each, add to one D."""
    mmas = [
        f"    mov.b32 %r6, {instruction(m=m, n=n)};\n{MMA.replace(', 0;', f', {int(i > 0)};')}" for i, (m, n) in enumerate(instructions)
    ]
    text = ptx(TWO_TILES).replace(MMA, "add.u64 %rd10, %rd10, 2;\n    add.u64 %rd11, %rd11, 2;\n".join(mmas))
    return launch(TWO_TILES, text.replace("[%r3], 64;", "[%r3], 128;").replace("%r4, 64;", "%r4, 128;"), check="operands")[0]


def test_an_m_of_two_tiles() -> None:
    assert two_tiles((64, 64)).diagnostics == ()
    (found,) = two_tiles((128, 64)).diagnostics
    assert found.code == "O101"
    assert found.message.endswith("A[64, 0] is element [0, 64] of the array, but A[0, 0] is element [0, 0] of the array")
    assert found.fix == "set M to 64: 64 of the 128 rows of A are what was copied"


def test_an_n_of_two_tiles_in_one_instruction_of_a_sum() -> None:
    found = two_tiles((64, 64), (64, 128)).diagnostics
    assert {each.code: each.fix for each in found} == {
        "O101": "set N to 64: 64 of the 128 rows of B are what was copied",
        "O107": "set N to 64 in both instruction descriptors",
    }


M_MAJOR = "M-major, 32 k in a box"


def test_rows_that_advance_are_the_k_of_the_other_dimension() -> None:
    """B is read K-major, and its start advances as that of an MN-major operand does."""
    second = f"    add.u64 %rd10, %rd10, 128;\n    add.u64 %rd11, %rd11, 128;\n{MMA.replace(', 0;', ', 1;')}"
    text = ptx(M_MAJOR).replace(MMA, MMA + second)
    right = hex(int(INSTRUCTION, 16) | 3 << 15)
    assert launch(M_MAJOR, text, check="operands")[0].diagnostics == ()
    assert right in text
    result, _ = launch(M_MAJOR, text.replace(right, instruction(n=16, transpose_a=True)), check="operands")
    (found,) = (each for each in result.diagnostics if each.code == "O105")
    assert "the rows of B move by 16" in found.message
    assert found.fix == "set the transpose bit of the operand: it is MN-major in shared memory: then k of B advances"


def test_an_mn_major_operand_that_begins_inside_a_row() -> None:
    """By less than a K-major operand advances, so that its transpose bit is not what is wrong."""
    text = ptx(M_MAJOR).replace(MMA, f"    add.u64 %rd11, %rd11, 1;\n{MMA}")
    result, right = launch(M_MAJOR, text, check="operands")
    assert not right
    (found,) = result.diagnostics
    assert found.code == "O101"
    assert "set the start address to 0x400" in found.fix
