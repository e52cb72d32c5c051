"""A and B of 4- or 6-bit elements in slots of shared memory, which global memory has packed or with padding too."""

from __future__ import annotations

import pytest

from tests.sweep_helpers import spread

from .narrow_kernels import BITS, GATHERED, PADDINGS, gathered, in_shared_memory, launch
from .word_kernels import MATRICES, STEP


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("element", BITS)
def test_the_kernels_themselves(element: str, padding: str) -> None:
    result, right = launch(in_shared_memory(element, padding), element, padded=padding != "none")
    assert right
    assert result.diagnostics == ()


SAME = "mov.u64 %rd11, %rd10;"
MISTAKES: dict[str, tuple[str, str, str, str]] = {
    #                     the right text, the wrong text, the code, the fix
    "swizzle 64B":        (MATRICES, "0x8000404000010000", "O101", "set the swizzling mode to 128B: then A is the tile that was copied"),
    "swizzle 32B":        (MATRICES, "0xc000404000010000", "O101", "set the swizzling mode to 128B: then A is the tile that was copied"),
    "no swizzle":         (MATRICES, "0x0000404000010000", "O102", "set the swizzling mode to 128B: then A is the tile that was copied"),
    "stride 512":         (MATRICES, "0x4000402000010000", "O102",
                           "set the stride dimension byte offset to 1024: then A is the tile that was copied"),
    "stride 2048":        (MATRICES, "0x4000408000010000", "D704",
                           "set the stride dimension byte offset to 1024: then A is the tile that was copied"),
    "swizzle 64B of B":   (SAME, f"{SAME}\n    xor.b64 %rd11, %rd11, 0xc000000000000000;", "O101",
                           "set the swizzling mode to 128B: then B is the tile that was copied"),
    "K step of 16 bytes": (STEP, STEP.replace(" 2;", " 1;"), "O105",
                           "advance the start address of A by 32 bytes from instruction to instruction"),
    "K step of A only":   (STEP, STEP.replace(" 2;", " 1;", 1), "O105",
                           "advance the start address of A by 32 bytes from instruction to instruction"),
    "no K step":          (STEP, "", "O105", "advance the start address of A by 32 bytes from instruction to instruction"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "element", "padding"), spread(2, MISTAKES, ["e2m1", "e3m2"], PADDINGS))
def test_mistakes(name: str, element: str, padding: str) -> None:
    right_text, wrong, code, fix = MISTAKES[name]
    text = in_shared_memory(element, padding)
    assert right_text in text
    result, right = launch(text.replace(right_text, wrong), element, padded=padding != "none", check="operands")
    assert not right
    assert (result.diagnostics[0].code, result.diagnostics[0].fix) == (code, fix)


def test_a_finding_in_full() -> None:
    text = in_shared_memory("e3m2", "left out").replace(MATRICES, "0x8000404000010000")
    found = launch(text, "e3m2", padded=True, check="operands")[0].diagnostics[0]
    assert found.message == (
        "matrix A is not an image of the rows that were copied: it has no equal steps; A[8, 0] is a[8, 0], but A[0, 0] is a[0, 0]"
    )


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("element", ["e2m1", "e3m2"])
def test_gathered_elements(element: str, backend: str) -> None:
    for text in (gathered(element), gathered(element, GATHERED[BITS[element]])):
        result, right = launch(text, element, backend=backend)
        assert right
        assert result.diagnostics == ()


@pytest.mark.parametrize("element", ["e2m1", "e3m2"])
@pytest.mark.parametrize("name", [name for name, mistake in MISTAKES.items() if mistake[2] != "D704"])
def test_mistakes_with_gathered_elements(name: str, element: str) -> None:
    right_text, wrong, code, fix = MISTAKES[name]
    result, right = launch(gathered(element).replace(right_text, wrong), element, check="operands")
    assert not right
    assert (result.diagnostics[0].code, result.diagnostics[0].fix) == (code, fix)


@pytest.mark.parametrize(
    ("element", "order", "there", "here"),
    [("e2m1", (0, 5, 3, 6, 1, 7, 4, 2), "a[0, 0]", "a[0, 5]"), ("e3m2", (2, 3, 0, 1), "a[0, 9]", "a[0, 0]")],
)
def test_k_of_gathered_elements(element: str, order: tuple[int, ...], there: str, here: str) -> None:
    result, right = launch(gathered(element, order), element, check="operands")
    assert not right
    (found,) = result.diagnostics
    at = 0 if element == "e2m1" else 4
    assert found.code == "O104"
    assert found.message == f"A and B are multiplied with different k: A[0, {at}] is {here}, but B[0, {at}] is {there}"
    assert found.fix == "load both so that each k of A is the k of B"


def test_gathered_elements_that_are_computed_are_not_judged() -> None:
    text = gathered("e2m1").replace(MATRICES, "0x8000404000010000").replace("st.shared.b32", "xor.b32 %r20, %r20, 8;\n    st.shared.b32")
    result, _ = launch(text, "e2m1", check="operands")
    assert result.completed
    assert result.diagnostics == ()
