"""Registers that several loads write, and registers to which moves copy what has been loaded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    text = text.replace(".reg .f32 %f<4>;", ".reg .f32 %f<4>; .reg .b16 %h<2>;")
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


BEHIND = {
    "the sources are replaced": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r26, %r27, %r28, %r29}, [%r2];",
    "a move under a guard": "@%p3 mov.b32 %r20, %r20;",
    "a register of two moves": "mov.b32 %r20, %r29;\n    mov.b32 %r20, %r26;",
    "another block": "bra.uni NEXT;\nNEXT:",
    "a choice of equal registers": "setp.lt.u32 %p2, %r1, 7;\n    selp.b32 %r20, %r20, %r26, %p2;\n    selp.b32 %r24, %r30, %r24, %p2;",
    "halves": "mov.b32 {%h0, %h1}, %r20;\n    mov.b32 %r20, {%h0, %h1};",
    "permuted twice": "prmt.b32 %r20, %r20, %r20, 0x1032;\n    prmt.b32 %r20, %r20, %r20, 0x1032;",
    "rotated": "shf.l.wrap.b32 %r20, %r20, %r20, 16;\n    shf.r.clamp.b32 %r20, %r20, %r20, 16;",
    "some lanes": "setp.lt.u32 %p2, %r1, 7;\n    @%p2 bra LESS;\n    mov.b32 %r20, %r26;\n    bra.uni NEXT;\n"
    "LESS:\n    mov.b32 %r20, %r26;\nNEXT:",
}


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("behind", BEHIND)
def test_behind_moves(behind: str, backend: str) -> None:
    """What the registers hold is noted where no single instruction says it."""
    result, right = launch(moved(TEXT, BEHIND[behind]), backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()
    text, code, fix = mistaken("no swizzle of A")
    result, right = launch(moved(text, BEHIND[behind]), backend=backend, check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {code}
    assert any(fix in found.fix for found in result.diagnostics)


WRONG_MOVES = {
    #                      behind the moves, a part of the fix
    "exchanged registers": ("mov.b32 %r3, %r20;\n    mov.b32 %r20, %r22;\n    mov.b32 %r22, %r3;", "A in the order 2, 1, 0, 3"),
    "exchanged halves":    ("prmt.b32 %r24, %r24, 0, 0x1032;", "load both so that each k of A is the k of B"),
    "a choice of two k":   ("setp.lt.u32 %p2, %r1, 16;\n    selp.b32 %r20, %r26, %r28, %p2;", "so that all rows have the same k"),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("name", WRONG_MOVES)
def test_wrong_moves(name: str, backend: str) -> None:
    behind, fix = WRONG_MOVES[name]
    result, right = launch(moved(TEXT, f"bra.uni NEXT;\nNEXT:\n    {behind}"), backend=backend, check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} <= {"O101", "O104"}
    assert any(fix in found.fix for found in result.diagnostics)


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_a_choice_of_zeros(backend: str) -> None:
    """Rows behind the end of an array."""
    zeros = "setp.lt.u32 %p2, %r1, 20;\n    selp.b32 %r20, %r20, 0, %p2;\n    selp.b32 %r22, %r22, 0, %p2;"
    result, right = launch(moved(TEXT, zeros), backend=backend, check="operands")
    assert not right
    assert result.diagnostics == ()
    result, _ = launch(moved(mistaken("no swizzle of A")[0], zeros), backend=backend, check="operands")
    assert {found.code for found in result.diagnostics} == {"O101"}


@pytest.mark.parametrize(
    "computed", ["add.u32 %r20, %r20, 0;", "shfl.sync.idx.b32 %r20, %r20, %r1, 31, -1;", "prmt.b32 %r20, %r20, 0, 0x3201;"]
)
def test_values_that_are_computed_are_not_judged(computed: str) -> None:
    result, _ = launch(moved(mistaken("no swizzle of A")[0], f"bra.uni NEXT;\nNEXT:\n    {computed}"), check="operands")
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


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_loads_of_which_a_register_has_different_words(backend: str) -> None:
    other = LOAD_A.replace("%r20, %r21", "%r21, %r20")
    text = TEXT.replace(MMA, f"@%p0 {other}\n    {MMA}").replace("STEP:", "setp.ne.u32 %p0, %r1, %r1;\nSTEP:")
    result, right = launch(text, backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()
    wrong = text.replace(STEP_OF_A, "add.u32 %r10, %r10, 1;").replace(STEP_OF_B, "add.u32 %r12, %r12, 1;")
    result, right = launch(wrong, backend=backend, check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {"O105"}


def test_the_last_of_two_loads_decides() -> None:
    other = LOAD_A.replace("%r20, %r21", "%r21, %r20")
    text = TEXT.replace(MMA, f"@%p0 {other}\n    {MMA}").replace("STEP:", "setp.eq.u32 %p0, %r1, %r1;\nSTEP:")
    result, right = launch(text, check="operands")
    assert not right
    assert [found.code for found in result.diagnostics] == ["O101"]
    assert "give the registers of A in the order 1, 0, 2, 3" in result.diagnostics[0].fix


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_loads_of_overlapping_registers(backend: str) -> None:
    """Four loads of two registers, of which each but the last one replaces a register of the one before."""
    loads = [
        f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{regs}}}, [%r11];" for regs in ("%r20, %r26, %r22, %r23", "%r27, %r21, %r28, %r29")
    ]
    for wrong in (False, True):
        text = (mistaken("no swizzle of A")[0] if wrong else TEXT).replace(LOAD_A, "\n    ".join([LOAD_A, *loads]))
        result, right = launch(text, backend=backend, check="operands")
        assert right is not wrong
        assert [found.code for found in result.diagnostics] == ["O101"] * wrong


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


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_zeros_with_two_loads(backend: str) -> None:
    zeros = "".join(f"mov.b32 %r{20 + i}, 0;\n    " for i in range(4))
    text = HALVES.replace("setp.lt.u32 %p7", f"{zeros}setp.lt.u32 %p7")
    result, right = word_kernels.launch(text, backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()
    ragged = text.replace("@!%p7", "setp.gt.u32 %p7, %r1, 100;\n    @%p7")
    result, right = word_kernels.launch(ragged, backend=backend, check="operands")
    assert not right
    assert result.diagnostics == ()
    result, _ = word_kernels.launch(word_kernels.mistaken("swizzle 64B", ragged)[0], backend=backend, check="operands")
    assert {found.code for found in result.diagnostics} == {"O101"}


A_REGISTERS = [20, 21, 22, 23]
_SPARE = 3
STEPS = {
    "registers": lambda i, j, n: f"mov.b32 %r{_SPARE}, %r{i};\n    mov.b32 %r{i}, %r{j};\n    mov.b32 %r{j}, %r{_SPARE};",
    "wide": lambda i, j, n: f"mov.b64 %rd8, {{%r{i}, %r{j}}};\n    mov.b64 {{%r{j}, %r{i}}}, %rd8;",
    "halves": lambda i, j, n: f"shf.l.wrap.b32 %r{i}, %r{i}, %r{i}, 16;",
    "upper halves": lambda i, j, n: (
        f"prmt.b32 %r{_SPARE}, %r{i}, %r{j}, 0x7610;\n    prmt.b32 %r{j}, %r{j}, %r{i}, 0x7610;\n    mov.b32 %r{i}, %r{_SPARE};"
    ),
    "some lanes": lambda i, j, n: (
        f"setp.lt.u32 %p2, %r1, {5 + i};\n    selp.b32 %r{_SPARE}, %r{i}, %r{j}, %p2;\n"
        f"    selp.b32 %r{j}, %r{j}, %r{i}, %p2;\n    mov.b32 %r{i}, %r{_SPARE};"
    ),
    "in a branch": lambda i, j, n: (
        f"setp.lt.u32 %p2, %r1, {9 + j};\n    @%p2 bra OVER{n};\n    mov.b64 %rd9, {{%r{i}, %r{j}}};\n"
        f"    mov.b64 {{%r{j}, %r{i}}}, %rd9;\nOVER{n}:"
    ),
}
"""Each exchanges something between registers, and done twice it changes nothing."""


@given(
    st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.permutations(A_REGISTERS)), min_size=1, max_size=5),
    st.sampled_from(["llvm", "numpy"]),
)
@settings(max_examples=15, deadline=None)
def test_exchanges_and_back(drawn: list[tuple[str, list[int]]], backend: str) -> None:
    """Whatever has been moved, and moved back, gives no finding, and a mistake in front of it still gives one."""
    there = [STEPS[name](i, j, n) for n, (name, (i, j, *_)) in enumerate(drawn)]
    back = [STEPS[name](i, j, len(drawn) + n) for n, (name, (i, j, *_)) in enumerate(reversed(drawn))]
    result, right = launch(TEXT.replace(MMA, "\n    ".join([*there, *back, MMA])), backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()
    text, code, _ = mistaken("no swizzle of A")
    result, right = launch(text.replace(MMA, "\n    ".join([*there, *back, MMA])), backend=backend, check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {code}
