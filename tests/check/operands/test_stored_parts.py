"""Operands that threads store to shared memory in halves or bytes of words, as they have been loaded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sweep_helpers import spread

from .test_loaded_values import BY_ST_ASYNC, TO_PEER
from .test_loaded_values import FORMS as WORD_FORMS
from .test_loaded_values import TURNED as TURNED_WORDS
from .word_kernels import LOADED_TEXT, MISTAKES, TRANSPOSED, expect_mistake, expect_swizzle_named

REGISTERS = ".reg .f32 %f<64>; .reg .b16 %h<16>; .reg .b32 %e<16>;"
LOAD = "ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd1];"
STORE = "st.shared.v4.b32 [%r13], {%r20, %r21, %r22, %r23};"


def accesses(text: str, element: str, width: int, register: str) -> list[str]:
    """The 16 bytes of a chunk in elements of a type, from register 0 on; the text has places for the registers and the byte."""
    size = int(element[1:]) // 8
    vector = f".v{width}.{element}" if width > 1 else f".{element}"
    names = [", ".join(f"%{register}{first + i}" for i in range(width)) for first in range(0, 16 // size, width)]
    return [text.format(type=vector, names=f"{{{each}}}" if width > 1 else each, byte=i * width * size) for i, each in enumerate(names)]


def loads(element: str, width: int, register: str) -> list[str]:
    """Loads of a chunk."""
    return accesses("ld.global{type} {names}, [%rd1+{byte}];", element, width, register)


def stores(element: str, width: int, register: str) -> list[str]:
    """Stores of a chunk."""
    return accesses("st.shared{type} [%r13+{byte}], {names};", element, width, register)


def reversed_stores(register: str) -> list[str]:
    """Stores of the halves of a chunk in the wrong order."""
    return [line.replace(f"%{register}{i}", f"%{register}{7 - i}") for i, line in enumerate(stores("b16", 1, register))]


UNPACKED = [f"mov.b32 {{%h{2 * i}, %h{2 * i + 1}}}, %e{i};" for i in range(4)]
SHIFTED = [f"shr.u32 %e{8 + i}, %e{i}, 16;" for i in range(4)]
ROTATED = [f"prmt.b32 %e{8 + i}, %e{i}, 0, 0x1032;" for i in range(4)]
FORMS = {
    "vectors of halves": [*loads("b16", 4, "h"), *stores("b16", 4, "h")],
    "pairs of halves": [*loads("u16", 2, "h"), *stores("u16", 2, "h")],
    "halves": [*loads("b16", 1, "h"), *stores("b16", 1, "h")],
    "halves in 32 bits": [*loads("u16", 1, "e"), *stores("u16", 1, "e")],
    "bytes": [*loads("b8", 1, "h"), *stores("b8", 1, "h")],
    "vectors of bytes": [*loads("u8", 4, "e"), *stores("u8", 4, "e")],
    "halves of words": [*loads("b32", 4, "e"), *UNPACKED, *stores("b16", 2, "h")],
    "upper halves that are shifted": [
        *loads("b32", 2, "e"),
        *SHIFTED,
        *[f"st.shared.b16 [%r13+{4 * i}], %e{i};\n    st.shared.b16 [%r13+{4 * i + 2}], %e{8 + i};" for i in range(4)],
    ],
    "upper halves first": [
        *loads("b32", 1, "e"),
        *ROTATED,
        *[f"st.shared.u16 [%r13+{4 * i + 2}], %e{8 + i};\n    st.shared.u16 [%r13+{4 * i}], %e{i};" for i in range(4)],
    ],
    "halves of bytes": [
        *loads("u8", 2, "h"),
        *[f"shl.b16 %h{2 * i + 1}, %h{2 * i + 1}, 8;\n    or.b16 %h{2 * i}, %h{2 * i}, %h{2 * i + 1};" for i in range(8)],
        *[f"st.shared.b16 [%r13+{2 * i}], %h{2 * i};" for i in range(8)],
    ],
    "words of bytes": [
        *loads("u8", 4, "e"),
        *[
            f"bfi.b32 %e{4 * i}, %e{4 * i + 1}, %e{4 * i}, 8, 8;\n    bfi.b32 %e{4 * i + 2}, %e{4 * i + 3}, %e{4 * i + 2}, 8, 8;\n"
            f"    prmt.b32 %r{20 + i}, %e{4 * i}, %e{4 * i + 2}, 0x5410;"
            for i in range(4)
        ],
        STORE,
    ],
    "words over halves": [*loads("b16", 4, "h"), *reversed_stores("h"), LOAD, STORE],
    "halves over words": [LOAD, STORE.replace("%r20, %r21", "%r21, %r20"), *loads("b16", 4, "h"), *stores("b16", 1, "h")],
    "halves over words that are right": [LOAD, STORE, *loads("u16", 1, "e"), *stores("u16", 1, "e")[1::2]],
    "bytes over halves": [*loads("b16", 4, "h"), *reversed_stores("h"), *loads("b8", 4, "e"), *stores("b8", 1, "e")],
    "generic addresses": [
        *loads("b16", 4, "h"),
        "cvt.u64.u32 %rd9, %r13;\n    cvta.shared.u64 %rd9, %rd9;",
        *[line.replace("st.shared", "st").replace("%r13", "%rd9") for line in stores("b16", 4, "h")],
    ],
}


def text_of(lines: list[str]) -> str:
    """The kernel with other loads and stores of a chunk."""
    body = LOADED_TEXT.replace(".reg .f32 %f<64>;", REGISTERS)
    assert f"{LOAD}\n    {STORE}" in body
    return body.replace(f"{LOAD}\n    {STORE}", "\n    ".join(lines))


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, backend: str) -> None:
    expect_swizzle_named(text_of(FORMS[form]), backend=backend)


@pytest.mark.parametrize("form", ["halves", "vectors of bytes"])
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, form: str) -> None:
    expect_mistake(name, text_of(FORMS[form]))


TURNED = (
    text_of(
        [*[f"ld.global.b16 %h{i}, [%rd1+{256 * i}];" for i in range(8)], *stores("b16", 4, "h")],
    )
    .replace("mul.wide.u32 %rd2, %r1, 256;", "mul.wide.u32 %rd2, %r1, 2;")
    .replace("add.u64 %rd1, %rd1, 16;", "add.u64 %rd1, %rd1, 2048;")
)
"""The array is the transposed matrix: the elements of a chunk come from eight rows of it."""
OF_TWO_ROWS = (
    text_of(
        [
            *[f"ld.global.b32 %e{j}, [%rd1+{512 * j}];" for j in range(4)],
            *[f"shr.u32 %e{8 + j}, %e{j}, 16;" for j in range(4)],
            "and.b32 %e4, %r1, 1;",
            "shl.b32 %e5, %e4, 1;",
            # The addresses of the chunk in the even row and in the odd one.
            "and.b32 %r16, %r11, 6;\n    xor.b32 %r16, %r12, %r16;\n    shl.b32 %r16, %r16, 4;",
            "shl.b32 %r17, %e4, 7;\n    sub.u32 %r17, %r10, %r17;\n    add.u32 %r16, %r16, %r17;\n    add.u32 %r16, %r16, %e5;",
            "or.b32 %r18, %r11, 1;\n    xor.b32 %r18, %r12, %r18;\n    shl.b32 %r18, %r18, 4;",
            "add.u32 %r17, %r17, 128;\n    add.u32 %r18, %r18, %r17;\n    add.u32 %r18, %r18, %e5;",
            *[f"st.shared.b16 [%r16+{4 * j}], %e{j};\n    st.shared.b16 [%r18+{4 * j}], %e{8 + j};" for j in range(4)],
        ],
    )
    .replace(
        "mul.wide.u32 %rd2, %r1, 256;",
        "and.b32 %e4, %r1, 1;\n    sub.u32 %e5, %r1, %e4;\n    mul.wide.u32 %rd2, %e5, 2;\n    mul.wide.u32 %rd3, %e4, 256;\n"
        "    add.u64 %rd2, %rd2, %rd3;",
    )
    .replace("add.u64 %rd1, %rd1, 16;", "add.u64 %rd1, %rd1, 2048;")
)
"""The same, where a lane loads words of two columns, and each of two neighbours stores every second element of a chunk in two rows."""


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("text", [TURNED, OF_TWO_ROWS], ids=["columns", "words of two columns"])
def test_a_transposed_array(text: str, backend: str) -> None:
    first, *_ = expect_swizzle_named(text, backend=backend, turned=True)
    assert first.message == TRANSPOSED


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_with_a_transposed_array(name: str) -> None:
    expect_mistake(name, OF_TWO_ROWS, turned=True)


PARTS = st.lists(st.sampled_from([1, 2, 4]), min_size=16, max_size=16).map(lambda sizes: list(_cut(sizes)))


def _cut(sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Parts of a chunk that are aligned to their sizes, which are the first ones that fit: byte and size of each."""
    at = 0
    for size in sizes:
        while at % size:
            size //= 2
        if at < 16:
            yield at, size
        at += size


def joined(loaded: list[tuple[int, int]], stored: list[tuple[int, int]]) -> list[str]:
    """Load some parts of a chunk, and store others, which are made of their bytes."""
    lines = [f"ld.global.u{8 * size} %e{i}, [%rd1+{at}];" for i, (at, size) in enumerate(loaded)]
    place = {at + i: (number, i) for number, (at, size) in enumerate(loaded) for i in range(size)}
    for at, size in stored:
        lines.append("mov.b32 %r17, 0;")
        for i in range(size):
            number, byte = place[at + i]
            lines += [f"bfe.u32 %r16, %e{number}, {8 * byte}, 8;", f"bfi.b32 %r17, %r16, %r17, {8 * i}, 8;"]
        lines.append(f"st.shared.u{8 * size} [%r13+{at}], %r17;")
    return lines


@given(PARTS, PARTS, st.sampled_from(["llvm", "numpy"]))
@settings(max_examples=12, deadline=None)
def test_parts_that_are_joined_to_others(loaded: list[tuple[int, int]], stored: list[tuple[int, int]], backend: str) -> None:
    expect_swizzle_named(text_of(joined(loaded, stored)), backend=backend)


JOINED_AGAIN = {
    "halves": "bfe.u32 %r16, %r{0}, 16, 16;\n    and.b32 %r{0}, %r{0}, 0xffff;\n    bfi.b32 %r{0}, %r16, %r{0}, 16, 16;",
    "bytes": "prmt.b32 %r16, %r{0}, 0, 0x0123;\n    prmt.b32 %r{0}, %r16, 0, 0x0123;",
    "some bytes": "and.b32 %r16, %r{0}, 0xffffff;\n    and.b32 %r{0}, %r{0}, 0xff000000;\n    or.b32 %r{0}, %r16, %r{0};",
}
"""A register is taken apart, and becomes what it was."""
KERNELS = {
    "stores": (LOADED_TEXT, {}),
    "stmatrix": (WORD_FORMS["stmatrix"], {}),
    "stmatrix that transposes": (TURNED_WORDS, {"turned": True}),
    "stores to another CTA": (TO_PEER, {"grid": 2, "cluster": 2}),
    "st.async": (BY_ST_ASYNC, {"grid": 2, "cluster": 2}),
}


@pytest.mark.parametrize(("name", "how", "backend"), spread(2, KERNELS, JOINED_AGAIN, ["llvm", "numpy"]))
def test_stores_of_words_that_are_joined_again(name: str, how: str, backend: str) -> None:
    text, options = KERNELS[name]
    steps = "\n    ".join(JOINED_AGAIN[how].format(20 + i) for i in range(4))
    first = text.index("ld.global")
    behind = text.index("\n", text.rindex("ld.global", first, text.index("ld.shared"))) + 1
    text = f"{text[:behind]}    {steps}\n{text[behind:]}"
    expect_swizzle_named(text, backend=backend, **options)


HALVES_TO_PEER = TO_PEER.replace(".reg .f32 %f<64>;", REGISTERS)
HALVES_TO_PEER = HALVES_TO_PEER.replace(LOAD, "\n    ".join(loads("b16", 2, "h")))
HALVES_TO_PEER = HALVES_TO_PEER.replace(
    STORE.replace("shared", "shared::cluster"), "\n    ".join(line.replace("shared", "shared::cluster") for line in stores("b16", 1, "h"))
)


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_halves_that_go_to_another_cta(backend: str) -> None:
    expect_swizzle_named(HALVES_TO_PEER, backend=backend, grid=2, cluster=2)
