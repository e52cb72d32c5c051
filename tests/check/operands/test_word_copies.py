"""Operands that threads copy with cp.async: a right product gives no finding, and each mistake names the value that fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxlab.check.operands.compiled.cta_words import CtaTaken
from ptxlab.check.operands.words.check import Words
from ptxlab.check.operands.words.images import is_image_of_words, is_image_without_swizzling
from ptxlab.descriptors import SharedMemoryDescriptor
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.layout import PlacedOperand, swizzle_bytes
from ptxlab.tables import SWIZZLES

from .word_kernels import INSTRUCTION, LOADED_TEXT, MATRICES, MISTAKES, STEP, TEXT, expect_mistake, launch, mistaken

SHOWS = {"test_mistakes": ("tcgen05.mma*",)}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    expect_mistake(name)


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_the_kernel_itself(policy: str, backend: str) -> None:
    result, right = launch(TEXT, policy=policy, backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_a_mistake_under_all_policies(policy: str, backend: str) -> None:
    result, _ = launch(mistaken("swizzle 64B")[0], policy=policy, backend=backend, check="operands")
    assert {found.code for found in result.diagnostics} == {"O101"}


def test_the_kernel_itself_with_all_checks() -> None:
    result, right = launch(TEXT)
    assert right
    assert result.diagnostics == ()


def test_a_finding_in_full() -> None:
    result, _ = launch(mistaken("swizzle 64B")[0], check="operands")
    first = result.diagnostics[0]
    assert first.message == (
        "matrix A is not an image of the rows that were copied: it has no equal steps; A[2, 0] is a[1, 0], but A[0, 0] is a[0, 0]"
    )
    assert first.fix == "set the swizzling mode to 128B: then A is the tile that was copied"


NOT_SWIZZLED = ("xor.b32 %r13, %r12, %r11;", "mov.u32 %r13, %r12;")


@pytest.mark.parametrize("text", [TEXT, LOADED_TEXT], ids=["cp.async", "loads and stores"])
def test_threads_that_do_not_swizzle(text: str) -> None:
    """No descriptor reads rows of 128 bytes that are not swizzled."""
    result, right = launch(text.replace(*NOT_SWIZZLED), check="operands")
    assert not right
    (found,) = result.diagnostics
    assert found.code == "O101"
    assert found.message == (
        "matrix A is not an image of the rows that were copied: it has no equal steps; A[1, 8] is a[1, 0], but A[0, 0] is a[0, 0]"
    )
    assert found.fix == (
        "the rows are not swizzled, but the descriptor says mode 128B: XOR bits 4 to 6 of the shared-memory addresses to which they are "
        "stored with bits 7 to 9; then A is the tile that was copied"
    )


def test_rows_that_follow_each_other_may_have_been_swizzled_in_global_memory() -> None:
    rows = np.random.default_rng(5).integers(-4, 5, (128, 64)).astype(np.float16)
    result, _ = launch(
        TEXT.replace(*NOT_SWIZZLED).replace("mul.wide.u32 %rd2, %r1, 256;", "mul.wide.u32 %rd2, %r1, 128;"), rows, check="operands"
    )
    assert result.diagnostics == ()


@pytest.mark.parametrize(
    ("mode", "major"), [("32B", "k"), ("64B", "k"), ("128B", "k"), ("128B_32B", "k"), ("32B", "mn"), ("64B", "mn"), ("128B", "mn")]
)
def test_what_would_be_an_image_without_swizzling(mode: str, major: Any) -> None:
    """Rows of the width of the mode, or lines of k, are stored one behind the other, or 16 bytes further apart, or as the mode says."""
    width, lines = SWIZZLES[mode].width, 64 if major == "k" else 16
    descriptor = SharedMemoryDescriptor(start=2048, leading=16, stride=8 * width, swizzle=mode)
    placed = PlacedOperand.of(descriptor, major, *((lines, 16) if major == "k" else (width // 2, lines)), 2)
    operand = MatrixOperand.of("A", placed, major, "f16", 16, 1, descriptor)
    found = {}
    for way in ("in rows", "wider", "swizzled"):
        sources = np.zeros(8192, np.uint64)
        for line, chunk in np.ndindex(lines, width // 16):
            place = 2048 + line * (width + 16 * (way == "wider")) + 16 * chunk
            if way == "swizzled":
                place = int(swizzle_bytes(np.array(place), mode))
            sources[place // 4 : place // 4 + 4] = 0x10000 + 1024 * line + 16 * chunk + np.arange(0, 16, 4)
        found[way] = is_image_without_swizzling(operand, sources)
        assert is_image_of_words(operand, sources) == (way == "swizzled")
    assert found == {"in rows": True, "wider": False, "swizzled": False}


def test_one_instruction_of_a_sum_reads_b_transposed() -> None:
    """By itself the first product is one of columns of a."""
    text = TEXT.replace(INSTRUCTION, "0x08110010").replace(STEP, STEP + f"\n    mov.b32 %r6, {INSTRUCTION};")
    result, right = launch(text, check="operands")
    assert not right
    (found,) = result.diagnostics
    assert found.code == "O105"
    assert found.message == (
        "matrix B is read K-major, and the instruction before, which adds to the same D, reads the same bytes MN-major"
    )
    assert found.fix == "clear the transpose bit of B in the instruction that reads it MN-major, or set the transpose bit in both"


def test_one_instruction_of_a_sum_has_fewer_columns() -> None:
    text = TEXT.replace(INSTRUCTION, "0x08080010").replace(STEP, STEP + f"\n    mov.b32 %r6, {INSTRUCTION};")
    result, right = launch(text, check="operands")
    assert not right
    (found,) = result.diagnostics
    assert found.code == "O107"
    assert found.message == "matrix B has 64 rows, and in the instruction before, which adds to the same D, 32 of the same rows"
    assert found.fix == "set N to 64 in both instruction descriptors"


def test_rows_of_another_array() -> None:
    """The operand begins 16 rows too late, and its last rows are those of the array that stands after it in shared memory."""
    copies = TEXT[TEXT.index("COPY:") : TEXT.index("    cp.async.wait_all")]
    again = "    mov.u32 %r12, 0;\n    add.u32 %r10, %r10, 16384;\n    ld.param.u64 %rd1, [c];\n" + copies.replace("COPY", "AGAIN")
    text = TEXT.replace(copies, copies + again).replace("tile[16384]", "tile[32768]")
    result, right = launch(text, check="operands")
    assert right
    assert result.diagnostics == ()
    late = text.replace(f"or.b64 %rd10, %rd10, {MATRICES};", f"or.b64 %rd10, %rd10, {MATRICES};\n    add.u64 %rd10, %rd10, 128;")
    result, right = launch(late.replace("mov.u64 %rd11, %rd10;", "sub.u64 %rd11, %rd10, 128;"), check="operands")
    assert not right
    assert result.diagnostics[0].code == "O101"
    assert result.diagnostics[0].fix == "set the start address to 0x400: then A is the tile that was copied"


def test_rows_in_any_order() -> None:
    """Rows that are gathered are no image of a matrix, and no descriptor would make them one."""
    index = "mul.lo.u32 %r30, %r1, 45;\n    and.b32 %r30, %r30, 127;\n    mul.wide.u32 %rd2, %r30, 256;"
    gathered = TEXT.replace("mul.wide.u32 %rd2, %r1, 256;", index)
    assert gathered != TEXT
    result, _ = launch(gathered, check="operands")
    assert result.diagnostics == ()


def test_rows_of_zeros() -> None:
    """Rows behind the end of an array are filled with zeros."""
    size = "setp.lt.u32 %p7, %r1, 100;\n    selp.u32 %r31, 16, 0, %p7;\nCOPY:"
    ragged = TEXT.replace("[%rd1], 16;", "[%rd1], 16, %r31;").replace("COPY:", size, 1)
    result, right = launch(ragged, check="operands")
    assert not right
    assert result.completed
    assert result.diagnostics == ()


def test_bytes_that_threads_have_overwritten_are_not_judged() -> None:
    """Threads change the tile after the copy: a wrong image of what was copied says nothing."""
    text = mistaken("swizzle 64B")[0].replace(
        "cp.async.wait_all;",
        "cp.async.wait_all;\n    mov.u32 %r32, 0;\nMIX:\n    add.u32 %r33, %r10, %r32;\n    ld.shared.b32 %r34, [%r33];\n"
        "    xor.b32 %r34, %r34, 0x01000100;\n    st.shared.b32 [%r33], %r34;\n    add.u32 %r32, %r32, 4;\n"
        "    setp.lt.u32 %p7, %r32, 128;\n    @%p7 bra MIX;",
    )
    result, _ = launch(text, check="operands")
    assert result.diagnostics == ()


def test_an_array_of_integers_says_nothing_about_the_type() -> None:
    a = np.random.default_rng(5).integers(-4, 5, (128, 128)).astype(np.float16)
    result, right = launch(TEXT, a.view(np.uint16), check="operands")
    assert right
    assert result.diagnostics == ()


def test_instructions_that_add_to_one_accumulator_take_a_from_different_memories() -> None:
    """The first one takes A from tensor memory: of its operands only B can be compared with the next one."""
    first = "tcgen05.mma.cta_group::1.kind::f16 [%r4], [%r20], %rd11, %r6, 0;"
    text = (
        TEXT.replace("STEP:", f"add.u32 %r20, %r4, 64;\n    {first}\nSTEP:", 1)
        .replace("], 64;", "], 128;")
        .replace("%r4, 64;", "%r4, 128;")
    )
    text = text.replace("add.u32 %r20, %r4, 128;", "add.u32 %r20, %r4, 64;").replace(
        "setp.ne.u32 %p4, %r15, 0;", "setp.ge.u32 %p4, %r15, 0;"
    )
    result, _ = launch(text, check="operands", undefined="zero")
    assert result.completed
    assert result.diagnostics == ()


@pytest.mark.parametrize("store", ["st.global.b32", "red.global.add.f32"])
def test_what_says_that_d_is_f32(store: str) -> None:
    """Stores of words say nothing about their type, but the array does; additions say it themselves."""
    text = TEXT.replace("st.global.f32", store)
    assert launch(text)[0].diagnostics == ()
    result, right = launch(text.replace(INSTRUCTION, "0x08100000"), check="operands")
    assert not right
    (found,) = result.diagnostics
    assert found.code == "O106"
    assert store in dict(found.details)["used by"]
    assert found.fix.startswith("give f32 as the type of D")


def test_one_product_with_d_of_f16() -> None:
    """The last product of the sum has the right type."""
    last = "setp.ne.u32 %p4, %r15, 0;\n    setp.eq.u32 %p7, %r15, 3;\n    @%p7 mov.b32 %r6, 0x08100010;"
    text = TEXT.replace(INSTRUCTION, "0x08100000").replace("setp.ne.u32 %p4, %r15, 0;", last)
    (found,) = launch(text, check="operands")[0].diagnostics
    assert found.code == "O106"


@given(st.lists(st.tuples(st.integers(0, 12), st.sampled_from((4, 8, 16)), st.integers(0, 16), st.integers(0, 31)), max_size=12))
@settings(deadline=None)
def test_deferred_copies_are_noted_in_their_order(copies: list[tuple[int, int, int, int]]) -> None:
    """A later copy replaces what an earlier one has brought; zeros fill what is not read."""
    (words,) = Words.of_cluster(CtaTaken.of_cluster(1), 64)
    rows = [
        (4 * place // size * size, 0x8010_0000_0000 + 256 * number, size | min(read, size) << 8 | lane << 16)
        for number, (place, size, read, lane) in enumerate(copies)
    ]
    words.copied(np.array(rows, np.uint64).reshape(-1, 3))
    expected = [0] * 16
    for offset, address, sizes in rows:
        for at in range(0, sizes & 0xFF, 4):
            expected[(offset + at) // 4] = address + at if at < sizes >> 8 & 0xFF else 1
    assert words.sources.tolist() == expected
