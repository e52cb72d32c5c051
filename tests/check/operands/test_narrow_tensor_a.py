"""A of 4- or 6-bit elements in tensor memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.descriptors import InstructionDescriptor
from tests.sweep_helpers import spread

from . import scaled_kernels, tensor_kernels, word_kernels
from .narrow_kernels import BITS, SOURCES, boxed, expanded, expansion, instruction, launch, stored


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("element", BITS)
@pytest.mark.parametrize("text", [boxed, expanded, stored])
def test_the_kernels_themselves(text: Any, element: str, backend: str) -> None:
    result, right = launch(text(element), element, backend=backend)
    assert right
    assert result.diagnostics == ()


@pytest.mark.parametrize("element", BITS)
def test_rows_that_are_padded_in_global_memory(element: str) -> None:
    result, right = launch(expanded(element, padded=True), element, padded=True)
    assert right
    assert result.diagnostics == ()


STEP_OF_B = "add.u64 %rd11, %rd11, 2;"
SAME = "mov.u64 %rd11, %rd10;"
OTHER_MODE = f"{SAME}\n    xor.b64 %rd11, %rd11, 0xc000000000000000;"
OTHER = {"e2m1": "e3m2", "e3m2": "e2m1", "e2m3": "e2m1"}


def with_source(text: str, element: str, descriptor: str) -> str:
    """A is copied to tensor memory with another descriptor than B is read."""
    made = f"    cvt.u64.u32 %rd12, %r14;\n    or.b64 %rd12, %rd12, {descriptor};\n"
    return text.replace(expansion(element), made + expansion(element, descriptor="%rd12"))


def exchanged(element: str) -> str:
    """The second and the third step of k."""
    text = expansion(element).replace("%rd10, 2;", "%rd10, 9;").replace("%rd10, 4;", "%rd10, 2;")
    return text.replace("%rd10, 9;", "%rd10, 4;")


MISTAKES: dict[str, tuple[Any, str, str]] = {
    #                     the change, the code, what the fix says
    "step of the copies": (lambda t, e: t.replace(expansion(e), expansion(e, step=1)), "O105", "A is taken by 32 elements of k"),
    "copies exchanged":   (lambda t, e: t.replace(expansion(e), exchanged(e)), "O105", "A is taken by 32 elements of k"),
    "K step of A":        (lambda t, e: t.replace("%r24, %r24, 8;", "%r24, %r24, 4;"), "O105", "address of A by 8 columns"),
    "type of A":          (lambda t, e: t.replace(instruction(e), instruction(e, a=OTHER[e])), "O103", "as the element type of A"),
    "K step of B":        (lambda t, e: t.replace(STEP_OF_B, "add.u64 %rd11, %rd11, 1;"), "O105", "the start address of B by 32 bytes"),
    "swizzle 64B":        (lambda t, e: with_source(t, e, "0x8000404000010000"), "O101", "set the swizzling mode to 128B"),
    "swizzle 32B":        (lambda t, e: with_source(t, e, "0xc000404000010000"), "O101", "set the swizzling mode to 128B"),
    "swizzle 64B of B":   (lambda t, e: t.replace(SAME, OTHER_MODE), "O101", "set the swizzling mode to 128B: then B is"),
}  # fmt: skip
OF_BOXES: dict[str, tuple[Any, str, str]] = {
    "stride 512":   (lambda t, e: with_source(t, e, "0x4000402000010000"), "O102", "set the stride dimension byte offset to 1024"),
    "format":       (lambda t, e: t.replace(expansion(e), expansion(OTHER[e])), "O103", "expand them with .b8x16.b"),
    "as it is":     (lambda t, e: t.replace("." + SOURCES[BITS[e]], ""), "O103", "expand them with .b8x16.b"),
}  # fmt: skip


def judge(text: str, right: str, element: str, code: str, fix: str) -> None:
    assert text != right
    result, is_right = launch(text, element, check="operands")
    assert not is_right
    assert {found.code for found in result.diagnostics} == {code}
    assert any(fix in found.fix for found in result.diagnostics)


@pytest.mark.parametrize(("name", "made", "element"), spread(2, MISTAKES, [boxed, expanded], BITS))
def test_mistakes(name: str, made: Any, element: str) -> None:
    change, code, fix = MISTAKES[name]
    judge(change(made(element), element), made(element), element, code, fix)


@pytest.mark.parametrize("element", BITS)
@pytest.mark.parametrize("name", OF_BOXES)
def test_mistakes_with_boxes(name: str, element: str) -> None:
    change, code, fix = OF_BOXES[name]
    judge(change(boxed(element), element), boxed(element), element, code, fix)


def test_messages() -> None:
    text = boxed("e3m2").replace(instruction("e3m2"), instruction("e3m2", a="e2m1"))
    (found,) = launch(text, "e3m2", check="operands")[0].diagnostics
    assert found.message == "matrix A is read as e2m1, but the elements that were expanded to bytes are b6x16_p32"
    assert found.fix == "give e2m3 as the element type of A, or expand elements of e2m1"
    text = boxed("e2m1").replace("." + SOURCES[4], "")
    found = launch(text, "e2m1", check="operands")[0].diagnostics[0]
    assert found.message == (
        "the elements of the tensor map are b4x16_p64, and are copied as they are, where tensor memory has each in a byte"
    )
    assert found.fix == "expand them with .b8x16.b4x16_p64"


STORES: dict[str, tuple[str, str, str, str]] = {
    "registers": ("{%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7", "{%a4, %a5, %a6, %a7, %a0, %a1, %a2, %a3", "O104", "so that each k of A is"),
    "odd rows":  (tensor_kernels.LOADS, tensor_kernels.mistaken("odd rows", tensor_kernels.LOADS)[0], "O101", "the addresses with which A"),
}  # fmt: skip


@pytest.mark.parametrize("element", BITS)
@pytest.mark.parametrize("name", STORES)
def test_mistakes_of_threads(name: str, element: str) -> None:
    right, instead, code, fix = STORES[name]
    judge(stored(element).replace(right, instead), stored(element), element, code, fix)


def test_cells_that_are_overwritten_are_not_judged() -> None:
    """A store of computed values takes the place of a part of what has been copied."""
    text = boxed("e2m1").replace(expansion("e2m1"), expansion("e2m1", step=1))
    over = """tcgen05.fence::after_thread_sync;
    xor.b32 %r26, %r1, 5;
    add.u32 %r25, %r4, 65;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r25], {%r26};
    tcgen05.wait::st.sync.aligned;
    bar.sync 0;
    @!%p2 bra WAIT;"""
    done = "@%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5];\nCOMMITTED:\n"
    done += "    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5], 1;\n    @!%p3 bra COMMITTED;\n    "
    text = text.replace("@!%p2 bra WAIT;", done + over).replace("[%r5], 1;\n    @!%p6", "[%r5], 0;\n    @!%p6")
    result, _ = launch(text, "e2m1", check="operands")
    assert result.completed
    assert [(found.code, "from which A is taken" in found.fix) for found in result.diagnostics] == [("O105", True)]


KIND = "mxf4"
DENSE = (
    scaled_kernels.TEXT.replace("[%r4], %rd10, %rd11, %r6, [%r24], [%r25], %p4;", "[%r4], [%r27], %rd11, %r6, [%r24], [%r25], %p4;")
    .replace(f"kind::{scaled_kernels.KIND}.block_scale.scale_vec::1X", f"kind::{KIND}.block_scale.scale_vec::2X")
    .replace(scaled_kernels.IDS, "")
    .replace(word_kernels.STEP, "add.u32 %r27, %r27, 8;\n    add.u64 %rd11, %rd11, 2;")
    .replace("    @!%p2 bra WAIT;", "    add.u32 %r27, %r4, 96;\n    @!%p2 bra WAIT;")
)


def dense(step: int) -> Any:
    """A product of elements of 4 bits, of which two fill a byte in tensor memory; ``step`` is by how many 16 bytes the source advances."""
    fields = {"m": 128, "n": 64, "a": "e2m1", "b": "e2m1", "scale": "ue8m0"}
    old = hex(int(replace(InstructionDescriptor.decode(0, scaled_kernels.KIND), **{**fields, "a": "e4m3", "b": "e4m3"})))
    text = DENSE.replace(old, hex(int(replace(InstructionDescriptor.decode(0, KIND), **fields))))
    copies = "".join(
        f"    add.u32 %r28, %r4, {96 + 8 * i};\n    add.u64 %rd15, %rd10, {step * i};\n"
        "    @%p2 tcgen05.cp.cta_group::1.128x256b [%r28], %rd15;\n"
        for i in range(4)
    )
    text = text.replace("    add.u32 %r27, %r4, 96;\n", copies + "    add.u32 %r27, %r4, 96;\n")
    a, blocked, c = scaled_kernels.arguments()
    result = ptxlab.loads(text, file="dense.ptx").kernel().launch(block=128, args=[a.view(np.uint8), blocked, c])
    assert result.completed
    return result.diagnostics


def test_elements_of_four_bits_that_fill_bytes() -> None:
    assert dense(2) == ()
    (found,) = dense(1)
    assert found.code == "O105"
    assert "k of A moves by 32, where an instruction takes 64 elements of k" in found.message
    assert found.fix == "advance the address from which A is taken by 64 elements of k from instruction to instruction"
