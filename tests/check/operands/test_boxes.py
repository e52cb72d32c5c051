"""Operands that lie in several boxes: each box has its own k, or its own rows."""

from __future__ import annotations

import re

import pytest

from .box_kernels import LAYOUTS, launch, ptx


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
