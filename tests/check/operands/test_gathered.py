"""Words whose bytes come from places that no equal steps connect: each element is followed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ptxlab.check.operands.elements._several import ArrayPart, first_apart
from ptxlab.engine.listed_words import ListedWords
from ptxlab.engine.word_sources import part_source, word_source
from ptxlab.machine.memory.elements import ArrayPlace

from . import scaled_kernels
from .gathered_kernels import (
    EXCHANGED,
    ORDER,
    a_of_two_arrays,
    in_another_order,
    in_tensor_memory,
    joined,
    launch,
    launch_halves,
    launch_scaled,
    of_four_bits,
    of_halves,
    of_two_arrays,
    stored_again,
    stored_bytes,
)
from .test_scale_factors import OF_A, with_ids
from .test_scale_factors import of_four_bits as launch_of_four_bits
from .word_kernels import STEP

MATRICES, WITH_64B = "0x4000404000010000", "0x8000404000010000"
FORMS: dict[str, Callable[[], str]] = {
    "words": joined,
    "bytes": stored_bytes,
    "words that are loaded again": lambda: stored_again(joined()),
    "bytes that are loaded again": lambda: stored_again(stored_bytes()),
}
TO_128B = "set the swizzling mode to 128B: then A is the tile that was copied"
IN_64B = "matrix A is not an image of the rows that were copied: its rows do not have the same k; A[1, 0] is {}, but A[0, 0] is {}"
MISTAKES = {
    #                    the right text, the wrong text, the code, the message, the fix
    "swizzle 64B":       (MATRICES, WITH_64B, "O101", IN_64B.format("a[71, 0]", "a[7, 0]"), TO_128B),
    "no swizzle":        (MATRICES, "0x0000404000010000", "O102",
                          "A[1, 0] and A[0, 16] of matrix A are the same bytes of shared memory", TO_128B),
    "stride 512":        (MATRICES, "0x4000402000010000", "O102",
                          "A[8, 0] and A[4, 0] of matrix A are the same bytes of shared memory",
                          "set the stride dimension byte offset to 1024: then A is the tile that was copied"),
    "K step":            (STEP, STEP.replace(" 2;", " 1;"), "O105",
                          "between two instructions that add to the same D k of A moves by 16, where an instruction takes 32 elements of "
                          "k; the start address of A changes by 16 bytes",
                          "advance the start address of A by 32 bytes from instruction to instruction"),
    "K step of B":       ("add.u64 %rd11, %rd11, 2;", "add.u64 %rd11, %rd11, 1;", "O105",
                          "between two instructions that add to the same D k of B moves by 16, where an instruction takes 32 elements of "
                          "k; the start address of B changes by 16 bytes",
                          "advance the start address of B by 32 bytes from instruction to instruction"),
    "e5m2 for e4m3":     ("0x08100010", "0x08100490", "O103", "matrix A is read as e5m2, but the elements of a are float8_e4m3fn",
                          "give e4m3 as the element type of A, or make a an array of e5m2"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("form", "backend"), [*[(form, "llvm") for form in FORMS], ("words", "numpy"), ("bytes that are loaded again", "numpy")]
)
def test_forms(form: str, backend: str) -> None:
    text = FORMS[form]()
    result, right = launch(text, backend=backend)
    assert right
    assert result.diagnostics == ()
    result, right = launch(text.replace(MATRICES, WITH_64B), backend=backend)
    assert not right
    first = result.diagnostics[0]
    assert (first.code, first.message, first.fix) == ("O101", IN_64B.format("a[71, 0]", "a[7, 0]"), TO_128B)
    assert {found.code for found in result.diagnostics} == {"O101"}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    right_text, wrong, *finding = MISTAKES[name]
    assert right_text in joined()
    result, right = launch(joined().replace(right_text, wrong))
    assert not right
    first = result.diagnostics[0]
    assert [first.code, first.message, first.fix] == finding


NO_STEP = (
    "between two instructions that add to the same D k of A moves by 0, where an instruction takes {} elements of k; the start address "
    "of A changes by 0 bytes"
)


@pytest.mark.parametrize("form", FORMS)
def test_no_step(form: str) -> None:
    result, right = launch(FORMS[form]().replace(STEP, ""))
    assert not right
    first = result.diagnostics[0]
    assert (first.code, first.message) == ("O105", NO_STEP.format(32))
    assert first.fix == "advance the start address of A by 32 bytes from instruction to instruction"


@pytest.mark.parametrize("pitch", [256, 66048])
def test_no_step_of_halves(pitch: int) -> None:
    result, right = launch_halves(of_halves(pitch).replace(STEP, ""), pitch)
    assert not right
    first = result.diagnostics[0]
    assert (first.code, first.message) == ("O105", NO_STEP.format(16))
    assert first.fix == "advance the start address of A by 32 bytes from instruction to instruction"


@pytest.mark.parametrize(("times", "codes"), [(2, {"O105"}), (4, {"O105"}), (5, set()), (8, set())])
def test_a_product_that_is_repeated(times: int, codes: set[str]) -> None:
    """More often than there are k: that is no way through them."""
    text = joined().replace(STEP, "").replace("setp.lt.u32 %p5, %r15, 4;", f"setp.lt.u32 %p5, %r15, {times};")
    result, _ = launch(text)
    assert result.completed
    assert {found.code for found in result.diagnostics} == codes


def test_steps_that_are_repeated() -> None:
    """Each product is computed twice; no k is left out."""
    again = "    mov.b32 %r16, 0;\nAGAIN:\n    tcgen05.mma"
    text = joined().replace("    tcgen05.mma", again)
    once_more = "add.u32 %r16, %r16, 1;\n    setp.lt.u32 %p7, %r16, 2;\n    setp.ne.u32 %p4, %r16, 0;\n    @%p7 bra AGAIN;\n    "
    text = text.replace(STEP, once_more + STEP)
    result, _ = launch(text)
    assert result.completed
    assert result.diagnostics == ()


def test_values_that_are_computed_are_not_judged() -> None:
    text = joined().replace(MATRICES, WITH_64B).replace("st.shared", "xor.b32 %r21, %r21, 0x80;\n    st.shared")
    result, _ = launch(text)
    assert result.diagnostics == ()


def test_rows_that_are_too_far_apart_for_one_address() -> None:
    text = joined(32896)
    result, right = launch(text, pitch=32896)
    assert right
    assert result.diagnostics == ()
    result, right = launch(text.replace(MATRICES, WITH_64B), pitch=32896)
    assert not right
    assert (result.diagnostics[0].code, result.diagnostics[0].fix) == ("O101", TO_128B)


def test_bytes_of_two_arrays() -> None:
    result, right = launch(of_two_arrays(), 2)
    assert right
    assert result.diagnostics == ()
    result, right = launch(of_two_arrays().replace(MATRICES, WITH_64B), 2)
    assert not right
    assert (result.diagnostics[0].code, result.diagnostics[0].fix) == ("O101", TO_128B)


@pytest.mark.parametrize(("pitch", "backend"), [(256, "llvm"), (66048, "llvm"), (66048, "numpy")])
def test_halves(pitch: int, backend: str) -> None:
    result, right = launch_halves(of_halves(pitch), pitch, backend)
    assert right
    assert result.diagnostics == ()
    result, right = launch_halves(of_halves(pitch).replace(MATRICES, WITH_64B), pitch, backend)
    assert not right
    first = result.diagnostics[0]
    assert (first.code, first.message, first.fix) == ("O101", IN_64B.format("a[37, 0]", "a[5, 0]"), TO_128B)


@pytest.mark.parametrize("pitch", [256, 66048])
def test_steps_of_halves(pitch: int) -> None:
    result, right = launch_halves(of_halves(pitch).replace(STEP, STEP.replace(" 2;", " 1;", 1)), pitch)
    assert not right
    assert (result.diagnostics[0].code, result.diagnostics[0].fix) == (
        "O105",
        "advance the start address of A by 32 bytes from instruction to instruction",
    )


def test_elements_of_four_bits() -> None:
    result = launch_of_four_bits(of_four_bits())
    assert result.completed
    assert result.diagnostics == ()
    result = launch_of_four_bits(of_four_bits().replace(STEP, STEP.replace(" 2;", " 1;", 1)))
    (found,) = result.diagnostics
    assert found.code == "O105"
    assert "k of A moves by 32, where an instruction takes 64 elements of k" in found.message
    assert found.fix == "advance the start address of A by 32 bytes from instruction to instruction"


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_an_a_in_tensor_memory(backend: str) -> None:
    result, right = launch(in_tensor_memory(), backend=backend)
    assert right
    assert result.diagnostics == ()
    result, right = launch(in_another_order(), backend=backend)
    assert not right
    (found,) = result.diagnostics
    assert found.code == "O104"
    assert found.message == "A and B are multiplied with different k: A[0, 0] is a[4, 0], but B[0, 0] is a[7, 0]"
    assert found.fix == "load both so that each k of A is the k of B"


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_k_of_two_arrays(backend: str) -> None:
    result, right = launch(a_of_two_arrays(), 2, backend)
    assert right
    assert result.diagnostics == ()
    result, right = launch(a_of_two_arrays(EXCHANGED), 2, backend)
    assert not right
    (found,) = result.diagnostics
    assert found.code == "O104"
    assert found.message == (
        "A and B are multiplied with different k: A[0, 0] is a[1, 0], but B[0, 0] is a[7, 0]; A has k of a in another order than B has "
        "those of a"
    )
    assert found.fix == "load both so that each k of A is the k of B"


def test_an_a_of_two_arrays_beside_a_b_of_one() -> None:
    """The k that come from one array in both are compared."""
    result, right = launch(a_of_two_arrays(b_too=False), 2, of_b=1)
    assert right
    assert result.diagnostics == ()
    result, right = launch(a_of_two_arrays(EXCHANGED, b_too=False), 2, of_b=1)
    assert not right
    (found,) = result.diagnostics
    assert found.code == "O104"
    assert "A[0, 0] is a[1, 0], but B[0, 0] is a[7, 0]" in found.message


def test_k_of_different_arrays_that_are_exchanged_are_not_compared() -> None:
    """No address says which k of one array belongs to which of another one: A has k 4 of the first array, and B has k 7."""
    result, right = launch(a_of_two_arrays((ORDER[1], ORDER[0], *ORDER[2:])), 2)
    assert not right
    assert result.diagnostics == ()


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        ([0, 1, 2, 3], [8, 9, 10, 11], None),
        ([0, 1, 2, 3], [8, 10, 12, 14], None),
        ([3, 1, 2, 0], [11, 9, 10, 8], None),
        ([0, 1, 2, 3], [11, 10, 9, 8], None),
        ([0, 1, 2, 3], [8, 10, 9, 11], 1),
        ([0, 2, 4, 6], [10, 9, 8, 11], 0),
        ([7, 1, 2, 9], [17, 11, 12, 19], None),
        ([7, 1, 2, 9], [11, 17, 12, 19], 0),
        ([7, 1, 2, 9], [3, 0, 1, 2], None),
        ([0, 0, 1, 1], [0, 1, 2, 3], None),
    ],
)
def test_orders_of_k(a: list[int], b: list[int], apart: int | None) -> None:
    """Compared are the same k, moved or in other steps: other sets of k may belong together in any order."""
    array = ArrayPlace("x", 4096, "uint8", 1, (32, 32), (32, 1))
    of_a, of_b = (ArrayPart(array, 0, np.arange(4), np.array(k), 1) for k in (a, b))
    found = first_apart([of_a], [of_b])
    assert (None if found is None else found[2]) == apart


def test_the_step_of_b_beside_an_a_in_tensor_memory() -> None:
    result, right = launch(in_tensor_memory().replace("add.u64 %rd11, %rd11, 2;", "add.u64 %rd11, %rd11, 1;"))
    assert not right
    assert result.diagnostics[0].fix == "advance the start address of B by 32 bytes from instruction to instruction"


def test_interleaved_scale_factors() -> None:
    result, right = launch_scaled(scaled_kernels.TEXT)
    assert right
    assert result.diagnostics == ()
    result, right = launch_scaled(with_ids(OF_A, (0, 1, 1, 3)))
    assert not right
    (found,) = result.diagnostics
    assert found.code == "O108"
    assert found.fix == "let each instruction take the scale factors of its own k: set the scale factor ID of A to 2"


_BASE = 0x801000000000


def _bytes(words: ListedWords, *sources: int) -> list[list[int]]:
    found = words.bytes_of(np.array(sources, np.uint64).view(np.int64))
    return [[source - _BASE for source in each] for each in found.tolist()]


def test_listed_words() -> None:
    """Words are listed only if an address and distances do not say what they are; parts of them are known."""
    words = ListedWords(4)
    at = [_BASE + distance for distance in (5, 2, 90, 7)]
    assert word_source(at) == 0
    source = words.source_of(at)
    assert words.count == 1
    assert _bytes(words, source) == [[5, 2, 90, 7]]
    parts = [part_source(source, i, 1) for i in range(4)]
    assert _bytes(words, words.source_of(parts[::-1])) == [[7, 90, 2, 5]]
    upper = part_source(source, 2, 2)
    assert _bytes(words, words.source_of([upper, part_source(source, 0, 2)])) == [[90, 7, 5, 2]]
    steps = words.source_of([parts[0], _BASE + 6, parts[3], _BASE + 8])
    assert steps == _BASE + 5
    assert words.source_of([parts[0], 0, parts[1], parts[2]]) == 0


def test_listed_words_that_are_no_longer_kept_are_not_known() -> None:
    words = ListedWords(4)
    sources = [words.source_of([_BASE + distance for distance in (5, 2, 90 + i, 7)]) for i in range(6)]
    known = words.bytes_of(np.array(sources, np.uint64).view(np.int64))
    assert (known[:2] == 0).all()
    assert (known[2:] > 0).all()
    assert words.source_of([part_source(sources[0], i, 1) for i in (1, 0, 3, 2)]) == 0
