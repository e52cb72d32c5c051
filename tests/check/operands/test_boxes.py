"""Operands that lie in several boxes: each box has its own k, or its own rows."""

from __future__ import annotations

import re

import pytest

from .box_kernels import LAYOUTS, launch, ptx
from .word_kernels import INSTRUCTION


@pytest.mark.parametrize("layout", LAYOUTS)
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
