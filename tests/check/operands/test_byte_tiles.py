"""Words whose bytes come from four rows of the array: tiles of 8-bit elements that threads transpose."""

from __future__ import annotations

from itertools import permutations

import pytest

from ptxlab.engine.word_sources import address_in, byte_source, half_source, part_source, word_source

from .byte_tile_kernels import ROWS, in_tensor_memory, joined, launch, stored_again, stored_bytes

MATRICES = "0x4000404000010000"
STEP = "add.u64 %rd10, %rd10, 2;\n    add.u64 %rd11, %rd11, 2;"
FORMS = {"words": joined, "bytes": stored_bytes, "words that are loaded again": stored_again}
MISTAKES = {
    #                       the right text, the wrong text, the code, what the fix says
    "swizzle 64B":          (MATRICES, "0x8000404000010000", "O101", "set the swizzling mode to 128B: then A is the tile that was copied"),
    "no swizzle":           (MATRICES, "0x0000404000010000", "O102", "set the swizzling mode to 128B"),
    "stride 512":           (MATRICES, "0x4000402000010000", "O102", "set the stride dimension byte offset to 1024"),
    "K step of 16 bytes":   (STEP, STEP.replace(" 2;", " 1;"), "O105", "advance the start address of A by 32 bytes"),
    "K step of A only":     (STEP, STEP.replace(" 2;", " 1;", 1), "O105", "advance the start address of A by 32 bytes"),
    "e5m2 for e4m3":        ("0x08100010", "0x08100490", "O103", "give e4m3 as the element type of A"),
}  # fmt: skip


@pytest.mark.parametrize(("form", "backend"), [*[(form, "llvm") for form in FORMS], ("words", "numpy")])
def test_forms(form: str, backend: str) -> None:
    text = FORMS[form]()
    result, right = launch(text, backend)
    assert right
    assert result.diagnostics == ()
    result, right = launch(text.replace(MATRICES, "0x8000404000010000"), backend)
    assert not right
    assert {found.code for found in result.diagnostics} == {"O101"}
    first = result.diagnostics[0]
    assert first.message == (
        "matrix A is not an image of the rows that were copied: it has no equal steps; A[2, 0] is a[0, 1], but A[0, 0] is a[0, 0]"
    )
    assert first.fix == "set the swizzling mode to 128B: then A is the tile that was copied"


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    right_text, wrong, code, fix = MISTAKES[name]
    text = joined()
    assert right_text in text
    result, right = launch(text.replace(right_text, wrong))
    assert not right
    assert any(found.code == code and fix in found.fix for found in result.diagnostics)


def test_rows_that_are_farther_apart() -> None:
    result, right = launch(joined(1024), pitch=1024)
    assert right
    assert result.diagnostics == ()
    result, right = launch(joined(1024).replace(MATRICES, "0x8000404000010000"), pitch=1024)
    assert not right
    assert {found.code for found in result.diagnostics} == {"O101"}


def test_values_that_are_computed_are_not_judged() -> None:
    text = joined().replace(MATRICES, "0x8000404000010000").replace("st.shared", "xor.b32 %r21, %r21, 0x80;\n    st.shared")
    result, _ = launch(text)
    assert result.diagnostics == ()


def test_an_a_in_tensor_memory() -> None:
    result, right = launch(in_tensor_memory())
    assert right
    assert result.diagnostics == ()


WRONG_STEPS = {
    "K step of A": ("add.u32 %r24, %r24, 8;", "add.u32 %r24, %r24, 4;", "O105", "advance the address of A by 8 columns"),
    "K step of B": ("add.u64 %rd11, %rd11, 2;", "add.u64 %rd11, %rd11, 1;", "O105", "advance the start address of B by 32 bytes"),
    "registers": ("{%a0, %a1,", "{%a1, %a0,", "O104", "load both so that each k of A is the k of B"),
}


@pytest.mark.parametrize("name", WRONG_STEPS)
def test_mistakes_with_an_a_in_tensor_memory(name: str) -> None:
    right_text, wrong, code, fix = WRONG_STEPS[name]
    assert right_text in in_tensor_memory()
    result, right = launch(in_tensor_memory().replace(right_text, wrong))
    assert not right
    assert code in {found.code for found in result.diagnostics}
    assert any(fix in found.fix for found in result.diagnostics if found.code == code)


_BASE = 0x801000000000


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2, ROWS, 16384, -16383])
def test_what_words_of_equal_steps_say_of_their_bytes(step: int) -> None:
    found = [_BASE + 65536 + i * step for i in range(4)]
    word = word_source(found)
    assert address_in(word) == found[0]
    assert [byte_source(word, i) for i in range(4)] == found
    halves = [part_source(word, i, 2) for i in (0, 2)]
    assert halves == [half_source(*found[:2]), half_source(*found[2:])]
    assert word_source(halves) == word


@pytest.mark.parametrize(
    "distances", [*sorted({*permutations((0, 1, 64, 65))} - {(0, 1, 64, 65), (64, 65, 0, 1)}), (0, 16385, 32770, 49155), (0, 1, 3, 4)]
)
def test_other_words_are_not_known(distances: tuple[int, ...]) -> None:
    assert word_source([_BASE + distance for distance in distances]) == 0
