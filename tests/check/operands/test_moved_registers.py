"""Registers that several loads write, and registers to which moves copy what has been loaded."""

from __future__ import annotations

import pytest

from . import word_kernels
from .warp_kernels import LOAD_A, LOAD_B, MISTAKES, MMA, STEP_OF_A, STEP_OF_B, TEXT, launch, mistaken
from .word_kernels import LOADED_TEXT

LOADED_A, LOADED_B = "{%r26, %r27, %r28, %r29}", "{%r30, %r31}"
MOVES = """mov.b64 %rd8, {%r26, %r27};
    mov.b64 %rd9, %rd8;
    mov.b64 {%r20, %r21}, %rd9;
    mov.b32 %r22, %r28;
    mov.u32 %r23, %r29;
    mov.b64 %rd10, {%r30, %r31};
    mov.b64 {_, %r25}, %rd10;
    mov.b32 %r24, %r30;"""


def moved(text: str, behind: str = "") -> str:
    """Load into other registers, move the words, packed and unpacked, and do something else."""
    text = text.replace("{%r20, %r21, %r22, %r23}, [", f"{LOADED_A}, [").replace("{%r24, %r25}, [", f"{LOADED_B}, [")
    return text.replace("mma.sync", f"{MOVES}\n    {behind}\n    mma.sync")


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_moves(backend: str) -> None:
    result, right = launch(moved(TEXT), backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_front_of_moves(name: str) -> None:
    text, code, fix = mistaken(name)
    result, right = launch(moved(text), check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {code}
    assert any(fix in found.fix for found in result.diagnostics)


UNKNOWN = {
    "the words have been replaced": ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r26, %r27, %r28, %r29}, [%r2];", ""),
    "a move under a guard": ("@%p3 mov.b32 %r20, %r20;", ""),
    "a register of two moves": ("mov.b32 %r20, %r29;\n    mov.b32 %r20, %r26;", ""),
    "another block": ("bra.uni NEXT;\nNEXT:", ""),
}


@pytest.mark.parametrize("behind", UNKNOWN)
def test_copies_that_are_not_known(behind: str) -> None:
    """The right kernel has no finding; that the wrong one has none either is a limit."""
    result, right = launch(moved(TEXT, UNKNOWN[behind][0]), check="operands")
    assert right
    assert result.diagnostics == ()
    result, right = launch(moved(mistaken("no swizzle of A")[0], UNKNOWN[behind][0]), check="operands")
    assert not right
    assert result.diagnostics == ()


def pipelined(text: str) -> str:
    """The first step is loaded in front of the loop, the next one at the end of each pass, into the same registers."""
    first, last = text.index("STEP:\n") + len("STEP:\n"), text.index("    mma.sync")
    load = text[first:last]
    behind = "@%p3 bra STEP;"
    later = load.replace("ldmatrix", "@%p3 ldmatrix")
    return text.replace(f"STEP:\n{load}", f"{load}STEP:\n").replace(behind, f"{later}    {behind}")


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("text", [TEXT, moved(TEXT)], ids=["as loaded", "moved"])
def test_two_loads_into_the_same_registers(text: str, backend: str) -> None:
    result, right = launch(pipelined(text), backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_with_two_loads(name: str) -> None:
    text, code, fix = mistaken(name)
    result, right = launch(pipelined(text), check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {code}
    assert any(fix in found.fix for found in result.diagnostics)


def test_the_finding_names_both_loads() -> None:
    result, _ = launch(pipelined(mistaken("no swizzle of A")[0]), check="operands")
    (found,) = result.diagnostics
    assert [key for key, _ in found.details].count("loaded by") == 2


def test_only_one_of_two_loads_is_transposed() -> None:
    text = pipelined(TEXT)
    wrong = LOAD_B.replace("x2", "x2.trans")
    result, right = launch(text.replace(LOAD_B, wrong, 1), check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {"O101"}
    assert "load B with .trans in all of its loads, or in none of them" in result.diagnostics[0].fix


def test_loads_of_which_a_register_has_different_words_are_not_judged() -> None:
    other = LOAD_A.replace("%r20, %r21", "%r21, %r20")
    text = TEXT.replace(MMA, f"@%p0 {other}\n    {MMA}").replace("STEP:", "setp.ne.u32 %p0, %r1, %r1;\nSTEP:")
    result, right = launch(text, check="operands")
    assert right
    assert result.diagnostics == ()
    wrong = text.replace(STEP_OF_A, "add.u32 %r10, %r10, 1;").replace(STEP_OF_B, "add.u32 %r12, %r12, 1;")
    result, right = launch(wrong, check="operands")
    assert not right
    assert result.diagnostics == ()


LOAD = "ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd1];"
HALVES = LOADED_TEXT.replace(LOAD, f"setp.lt.u32 %p7, %r1, 64;\n    @%p7 {LOAD}\n    @!%p7 {LOAD}")
"""Half of the lanes execute each load."""


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_stores_of_what_one_of_two_loads_has_brought(backend: str) -> None:
    result, right = word_kernels.launch(HALVES, backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()
    text, code, fix = word_kernels.mistaken("swizzle 64B", HALVES)
    result, right = word_kernels.launch(text, backend=backend, check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {code}
    assert any(fix in found.fix for found in result.diagnostics)


def test_zeros_with_two_loads_are_not_judged() -> None:
    """Which lanes are zero would have to be known."""
    zeros = "".join(f"mov.b32 %r{20 + i}, 0;\n    " for i in range(4))
    text = HALVES.replace("setp.lt.u32 %p7", f"{zeros}setp.lt.u32 %p7")
    result, right = word_kernels.launch(text, check="operands")
    assert right
    assert result.diagnostics == ()
    result, _ = word_kernels.launch(word_kernels.mistaken("swizzle 64B", text)[0], check="operands")
    assert result.diagnostics == ()
