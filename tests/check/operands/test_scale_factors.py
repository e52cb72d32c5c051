"""Scale factors of block-scaled products: copied to tensor memory in the right rows, and taken once each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.descriptors import InstructionDescriptor

from .scaled_kernels import IDS, KIND, SCALES, TEXT, arguments, launch
from .word_kernels import STEP

OF_A, OF_B = 1 << 29, 1 << 4


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_the_kernel_itself(policy: str) -> None:
    result, right = launch(TEXT, policy=policy)
    assert right
    assert result.diagnostics == ()


def with_ids(of: int, numbers: tuple[int, int, int, int]) -> str:
    """The kernel in which a matrix has these scale factor IDs."""
    steps = [b - a for a, b in zip((0, *numbers[:3]), numbers, strict=True)]
    first = f"add.u32 %r6, %r6, {of * steps[0]};\nSTEP:"
    after = "".join(
        f"\n    setp.eq.u32 %p7, %r15, {i};\n    @%p7 add.u32 %r6, %r6, {of * (step - 1) & 0xFFFFFFFF};" for i, step in enumerate(steps[1:])
    )
    return TEXT.replace("STEP:", first, 1).replace(IDS, IDS + after)


WRONG = [(1, 1, 2, 3), (3, 1, 2, 3), (0, 0, 2, 3), (0, 3, 2, 3), (0, 1, 1, 3), (0, 1, 0, 1), (0, 1, 2, 0), (0, 1, 2, 2)]


@pytest.mark.parametrize("of", [OF_A, OF_B], ids=["A", "B"])
@pytest.mark.parametrize("numbers", WRONG)
def test_wrong_ids(numbers: tuple[int, int, int, int], of: int) -> None:
    result, right = launch(with_ids(of, numbers), check="operands")
    assert not right
    (found,) = result.diagnostics
    assert found.code == "O108"
    name = "A" if of == OF_A else "B"
    wanted = next(i for i, number in enumerate(numbers) if number != i)
    assert found.fix == f"let each instruction take the scale factors of its own k: set the scale factor ID of {name} to {wanted}"
    assert found.message.startswith(
        f"two instructions that add to the same D take the same scale factors of {name}, byte {numbers[wanted]} of"
    )
    assert found.severity == "warning"


@pytest.mark.parametrize("numbers", [(0, 0, 0, 0), (0, 0, 1, 1), (3, 2, 1, 0), (1, 1, 1, 0)])
def test_scale_factors_of_longer_blocks(numbers: tuple[int, int, int, int]) -> None:
    """Scale factors of 64 or 128 elements of k are taken by several instructions in a row, the last ones perhaps by fewer."""
    result, _ = launch(with_ids(OF_A, numbers), check="operands")
    assert result.diagnostics == ()


@pytest.mark.parametrize(
    ("descriptor", "code"), [("0x0000400000080000", "O101"), ("0x0000400400080000", "O101"), ("0x0000401000080000", "D704")]
)
def test_wrong_strides_of_the_copy(descriptor: str, code: str) -> None:
    result, right = launch(TEXT.replace(SCALES, descriptor), check="operands")
    assert not right
    (found,) = result.diagnostics
    assert (found.code, found.fix) == (code, "set the stride dimension byte offset to 128: then the source is the tile that was copied")


def test_scale_factors_that_threads_have_changed_are_not_judged() -> None:
    """What is copied has been computed."""
    text = with_ids(OF_A, (0, 1, 2, 2)).replace(
        "st.shared.v4.b32 [%r20+16384]", "add.u32 %r26, %r26, 0;\n    st.shared.v4.b32 [%r20+16384]"
    )
    result, right = launch(text, check="operands")
    assert not right
    assert result.diagnostics == ()


def of_four_bits(text: str) -> Any:
    """Launch the kernel with elements of 4 bits, of which an instruction takes 64, and the same scale factors for each."""
    fields = {"m": 128, "n": 64, "a": "e2m1", "b": "e2m1", "scale": "ue8m0"}
    number = int(replace(InstructionDescriptor.decode(0, "mxf4"), **fields))
    text = text.replace(f"kind::{KIND}.block_scale.scale_vec::1X", "kind::mxf4.block_scale.scale_vec::2X").replace(IDS, "")
    text = text.replace(hex(int(replace(InstructionDescriptor.decode(0, KIND), **{**fields, "a": "e4m3", "b": "e4m3"}))), hex(number))
    a, blocked, c = arguments()
    return ptxlab.loads(text, file="scaled.ptx").kernel().launch(block=128, args=[a.view(np.uint8), blocked, c], check="operands")


def test_steps_of_four_bit_elements() -> None:
    result = of_four_bits(TEXT)
    assert result.completed
    assert result.diagnostics == ()
    result = of_four_bits(TEXT.replace(STEP, STEP.replace(" 2;", " 1;", 1)))
    (found,) = result.diagnostics
    assert found.code == "O105"
    assert "k of A moves by 32, where an instruction takes 64 elements of k" in found.message
    assert found.fix == "advance the start address of A by 32 bytes from instruction to instruction"
