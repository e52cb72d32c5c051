"""Words whose bytes come from several words: 8-bit elements of an array in which k advances from row to row."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .byte_kernels import JOINS, launch, single_bytes, words

SPACES = ["global", "shared"]


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("space", SPACES)
def test_words_whose_bytes_are_exchanged(space: str, backend: str) -> None:
    result, right = launch(words(space), backend=backend)
    assert right
    assert result.diagnostics == ()


ODD_ROWS = """and.b32 %t4, %r3, 1;
    setp.eq.u32 %p0, %t4, 1;
    selp.b32 %t4, %b1, %b0, %p0;
    selp.b32 %b1, %b0, %b1, %p0;
    mov.b32 %b0, %t4;"""
"""The two registers of B are exchanged."""


def in_front(text: str, *steps: str) -> str:
    """Do something in front of the first product."""
    text = text.replace(".reg .b8 %c", ".reg .pred %p<2>; .reg .b8 %c")
    return text.replace("mma.sync", "\n    ".join([*steps, "mma.sync"]), 1)


WRONG = {
    "rows in another order":     (words("global", (1, 0, 2, 3)), "O104", "A[0, 0] is a[0, 0], but B[0, 0] is b[1, 0]"),
    "rows of pairs":             (words("shared", (2, 3, 0, 1)), "O104", "A[0, 0] is a[0, 0], but B[0, 0] is b[2, 0]"),
    "the second permutation":    (words("shared", selectors=(0x5140, 0x7362, 0x1054, 0x7632)), "O104",
                                  "A[0, 0] is a[0, 0], but B[0, 0] is b[2, 0]"),
    "the first permutation":     (words("global", selectors=(0x1504, 0x7362, 0x5410, 0x7632)), "O104",
                                  "A[0, 0] is a[0, 0], but B[0, 0] is b[1, 0]"),
    "k of odd rows":             (in_front(words("shared"), ODD_ROWS), "O101",
                                  "its rows do not have the same k; B[1, 16] is b[0, 4], but B[0, 16] is b[16, 0]"),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("name", WRONG)
def test_bytes_that_are_exchanged_in_a_wrong_way(name: str, backend: str) -> None:
    text, code, message = WRONG[name]
    result, right = launch(text, backend=backend)
    assert not right
    assert {found.code for found in result.diagnostics} == {code}
    assert any(found.message.endswith(message) for found in result.diagnostics)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("join", JOINS)
def test_single_bytes(join: str, space: str) -> None:
    result, right = launch(single_bytes(space, join))
    assert right
    assert result.diagnostics == ()
    result, right = launch(single_bytes(space, join, (3, 1, 2, 0)))
    assert not right
    assert {found.code for found in result.diagnostics} == {"O104"}
    assert {found.message for found in result.diagnostics} == {
        f"A and B are multiplied with different k: A[0, 0] is a[0, {k}], but B[0, 0] is b[{k + 3}, {tile}]"
        for k in (0, 32)
        for tile in range(4)
    }


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize(
    ("written", "followed"), [("mov.b32 %t6, 0x5140;", True), ("mov.b32 %t6, 0x5140;\n    @%p0 mov.b32 %t6, 0x5140;", False)]
)
def test_a_selector_in_a_register(written: str, followed: bool, backend: str) -> None:
    """It is known if nothing else writes the register. Two of four tiles take what it selects."""
    for order in ((0, 1, 2, 3), (1, 0, 2, 3)):
        text = words("shared", order).replace(".reg .b8 %c", ".reg .pred %p<2>; .reg .b8 %c")
        text = text.replace("0x5140", "%t6").replace(
            "cp.async.wait_all;", f"cp.async.wait_all;\n    setp.eq.u32 %p0, %r1, 0;\n    {written}"
        )
        result, right = launch(text, backend)
        assert right is (order[0] == 0)
        tiles = set() if right else {0, 1, 2, 3} if followed else {2, 3}
        assert {found.message.partition("B[0, 0] is ")[2] for found in result.diagnostics} == {
            f"b[{k}, {tile}]" for k in (1, 33) for tile in tiles
        }


@pytest.mark.parametrize("space", SPACES)
def test_an_array_whose_pairs_of_k_are_neighbours(space: str) -> None:
    """The bytes of two words of rows are not exchanged: that is right if the array has pairs of k side by side. Nothing is said."""
    result, right = launch(words(space, selectors=(0x3210, 0x7654, 0x5410, 0x7632)))
    assert not right
    assert result.diagnostics == ()


@pytest.mark.parametrize("computed", ["add.u32 %b0, %b0, 0;", "prmt.b32 %b0, %b0, 0, 0x321F;", "max.u32 %b0, %b0, 0;"])
def test_bytes_that_are_computed_are_not_judged(computed: str) -> None:
    """Of eight products only the first one takes what has been computed."""
    result, _ = launch(in_front(words("global", (1, 0, 2, 3)), computed))
    found = sorted(found.message.partition("B[0, 0] is ")[2] for found in result.diagnostics)
    assert found == [f"b[{k}, {tile}]" for k in (1, 33) for tile in range(4)][1:]


STEPS = {
    "reversed": lambda i, j: f"prmt.b32 %b{i}, %b{i}, 0, 0x0123;",
    "exchanged": lambda i, j: f"mov.b32 %t0, %b{i};\n    mov.b32 %b{i}, %b{j};\n    mov.b32 %b{j}, %t0;",
    "bytes of two": lambda i, j: f"prmt.b32 %t0, %b{i}, %b{j}, 0x3254;\n    prmt.b32 %b{j}, %b{j}, %b{i}, 0x3254;\n    mov.b32 %b{i}, %t0;",
    "taken apart": lambda i, j: (
        f"and.b32 %t0, %b{i}, 0xff00ff00;\n    and.b32 %t1, %b{i}, 0x00ff00ff;\n    shl.b32 %t1, %t1, 8;\n    "
        f"shr.u32 %t0, %t0, 8;\n    or.b32 %b{i}, %t0, %t1;"
    ),
    "fields": lambda i, j: (
        f"bfe.u32 %t0, %b{i}, 8, 8;\n    bfe.u32 %t1, %b{j}, 16, 8;\n    bfi.b32 %b{i}, %t1, %b{i}, 8, 8;\n    "
        f"bfi.b32 %b{j}, %t0, %b{j}, 16, 8;"
    ),
    "registers of 64 bits": lambda i, j: f"mov.b64 %rd8, {{%b{i}, %b{j}}};\n    mov.b64 {{%b{j}, %b{i}}}, %rd8;",
    "in some lanes": lambda i, j: (
        f"setp.lt.u32 %p0, %r1, {3 + i + 2 * j};\n    selp.b32 %t0, %b{i}, %b{j}, %p0;\n    selp.b32 %b{j}, %b{j}, %b{i}, %p0;\n    "
        f"mov.b32 %b{i}, %t0;"
    ),
}
"""Each exchanges bytes in registers, and done twice it changes nothing."""


@given(
    st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.permutations(range(8))), min_size=1, max_size=5),
    st.sampled_from(SPACES),
    st.sampled_from(["llvm", "numpy"]),
)
@settings(max_examples=15, deadline=None)
def test_exchanges_and_back(drawn: list[tuple[str, list[int]]], space: str, backend: str) -> None:
    """Whatever has been moved, and moved back, gives no finding, and a mistake in front of it still gives one."""
    steps = [STEPS[name](i, j) for name, (i, j, *_) in (*drawn, *reversed(drawn))]

    result, right = launch(in_front(words(space), *steps), backend)
    assert right
    assert result.diagnostics == ()
    result, right = launch(in_front(words(space, (1, 0, 2, 3)), *steps), backend)
    assert not right
    assert {found.code for found in result.diagnostics} == {"O104"}
