"""A in tensor memory: the address advances by the columns that an instruction takes."""

from __future__ import annotations

import pytest

from . import box_kernels
from .word_kernels import STEP, TEXT, launch

MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd10, %rd11, %r6, %p4;"


def ptx(columns: int) -> str:
    """A is what stands in columns 64 to 95; nothing has been written there."""
    text = TEXT.replace(MMA, MMA.replace("%rd10", "[%r24]")).replace("STEP:", "add.u32 %r24, %r4, 64;\nSTEP:", 1)
    text = text.replace(STEP, f"add.u32 %r24, %r24, {columns};\n    add.u64 %rd11, %rd11, 2;")
    return text.replace("[%r3], 64;", "[%r3], 128;").replace("%r4, 64;\n    ret", "%r4, 128;\n    ret")


def test_the_kernel_itself() -> None:
    result, _ = launch(ptx(8), check="operands")
    assert result.completed
    assert result.diagnostics == ()


@pytest.mark.parametrize("columns", [1, 4, 7])
def test_part_of_the_columns(columns: int) -> None:
    result, _ = launch(ptx(columns), check="operands")
    (found,) = result.diagnostics
    assert found.code == "O105"
    assert found.message == (
        f"between two instructions that add to the same D the address of A moves by {columns} columns, where an instruction takes 8"
    )
    assert found.fix == "advance the address of A by 8 columns from instruction to instruction"


def boxed(steps: tuple[int, ...]) -> str:
    """The same with B in a box of a tensor map: A moves by these columns from instruction to instruction."""
    first = box_kernels.MMA.replace("%rd10", "[%r24]")
    others = [f"    add.u32 %r24, %r24, {step};\n    add.u64 %rd11, %rd11, 2;\n{first.replace(', 0;', ', 1;')}" for step in steps]
    text = box_kernels.ptx(LAYOUT).replace(box_kernels.MMA, f"    add.u32 %r24, %r4, 64;\n{first}{''.join(others)}")
    return text.replace("[%r3], 64;", "[%r3], 256;").replace("%r4, 64;\n    ret", "%r4, 256;\n    ret")


LAYOUT = "K-major, 64 k in a box"


@pytest.mark.parametrize(("steps", "found"), [((8, 8, 8), False), ((16, 16, 16), True), ((24, 24), True), ((8, 16, 8), False)])
def test_steps_over_columns(steps: tuple[int, ...], found: bool) -> None:
    """One step over columns leads to another part of A; several alike leave out every second k."""
    result, _ = box_kernels.launch(LAYOUT, boxed(steps), check="operands")
    assert [each.code for each in result.diagnostics] == ["O105"] * found
    if found:
        assert result.diagnostics[0].fix == "advance the address of A by 8 columns from instruction to instruction"
