"""Result words of a B200 that others published, for every kind of tcgen05.mma.

The words come from the validation of sf-tensor/tcgen05 (MIT), which names the inputs by the seed of Python's Mersenne Twister: the
elements of A, of B, then C, then the scales of A and of B.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pytest

from ptxlab import numerics
from ptxlab.formats import FORMATS

KINDS = {"tf32": ("tf32", 8), "bf16": ("f16", 16), "f16": ("f16", 16)}
NAN = 0x7FFFFFFF

# Type, seed, how an element is drawn (any finite f32 word, 16 bits, or a code below a number), words of D.
FLOATS = """
tf32  104 finite FF800000 FC347E7C
bf16  104 finite 7F800000 7F800000
f16   103 bits   7FFFFFFF 49776BBA
e4m3  104 7F     EC63D12A 452AF963
e5m2  300 7C     4D92B09A 4C9C1102
e2m3  301 40     C29DD800 449D14C1
e3m2  302 40     52C9EC63 C33B7700
e2m1  303 10     C1FE0000 DC3B62A3
"""
# Types of A and B, whether the sum is clamped, seed, word of D.
INTEGERS = """
u8 u8 wraps  500 078A5C64
s8 u8 wraps  501 F66E2FA6
u8 s8 wraps  502 D73F1A46
s8 s8 clamps 503 8063D12F
s8 s8 wraps  504 A4679E93
u8 u8 clamps 505 55DB8BB8
s8 u8 clamps 506 B47F6330
u8 s8 clamps 507 8533C14D
"""
# Kind, type of the scales, block, seed, range of the scales, words of D; C is 0 where the scales are ue8m0.
SCALED = """
mxf4nvf4 ue4m3 16 700   0 119 4429730B C30545D3
mxf8f6f4 ue8m0 32 910 115 140 3F094000
mxf4     ue8m0 32 920 115 140 46BA8000
mxf4nvf4 ue8m0 32 921 115 140 40580000
mxf4nvf4 ue8m0 16 922 115 140 C6A88896
"""
# Type, the code of 1, the least subnormal number, NaN, infinity; and the word of D that is the least subnormal number.
EDGES = """
tf32 3F800000 2000 7FC00000 7F800000 00002000
bf16 3F80     1    7FC0     7F80     00010000
f16  3C00     1    7E00     7C00     33800000
e4m3 38       1    7F       none     3B000000
e5m2 3C       1    7F       7C       37800000
"""


@dataclass(frozen=True)
class Words:
    """One dot product and its result."""

    name: str
    kind: str
    a: str
    b: str
    A: list[int]
    B: list[int]
    C: int
    D: int
    d: str = "f32"
    options: dict[str, Any] = field(default_factory=dict)

    def run(self, mma: Any) -> int:
        A, B = (np.array([codes], FORMATS[fmt].dtype) for codes, fmt in ((self.A, self.a), (self.B, self.b)))
        C = np.array([[self.C]], np.uint16 if self.d == "f16" else np.uint32)
        return int(mma(arch="tcgen05", kind=self.kind, a=self.a, b=self.b, d=self.d, A=A, B=B, C=C, **self.options)[0, 0])


def finite(generator: Random) -> int:
    """Any f32 word; infinities and NaN lose their exponent."""
    word = generator.getrandbits(32)
    return word if word & 0x7F800000 != 0x7F800000 else word & 0x807FFFFF


def element(generator: Random, fmt: str, draw: str) -> int:
    """A code; bf16 keeps the upper half of an f32 word."""
    if draw == "finite":
        return finite(generator) >> (16 if fmt == "bf16" else 0)
    return generator.getrandbits(16) if draw == "bits" else generator.randrange(int(draw, 16))


def lines(table: str) -> Iterator[list[str]]:
    return (line.split() for line in table.strip().splitlines())


def floats() -> Iterator[Words]:
    for fmt, seed, draw, *results in lines(FLOATS):
        generator = Random(int(seed))
        kind, k = KINDS.get(fmt, ("f8f6f4", 32))

        for result in results:
            A, B = ([element(generator, fmt, draw) for _ in range(k)] for _ in "AB")
            yield Words(f"{fmt} {result}", kind, fmt, fmt, A, B, finite(generator), int(result, 16))


def integers() -> Iterator[Words]:
    for a, b, end, seed, result in lines(INTEGERS):
        generator = Random(int(seed))
        A, B = ([generator.randrange(256) for _ in range(32)] for _ in "AB")
        options = {"saturate": end == "clamps"}
        yield Words(f"{a} {b} {end}", "i8", a, b, A, B, finite(generator), int(result, 16), "s32", options)


def scaling(scale: str, block: str, scale_a: list[int], scale_b: list[int]) -> dict[str, Any]:
    return {"scale": scale, "block": int(block), "scale_a": np.array([scale_a], np.uint8), "scale_b": np.array([scale_b], np.uint8)}


def scaled() -> Iterator[Words]:
    for kind, scale, block, seed, low, high, *results in lines(SCALED):
        generator = Random(int(seed))
        k = 32 if kind == "mxf8f6f4" else 64
        for result in results:
            A, B = ([generator.randrange(16) for _ in range(k)] for _ in "AB")
            C = finite(generator) if scale == "ue4m3" else 0
            scales = [[generator.randrange(int(low), int(high)) for _ in range(k // int(block))] for _ in "AB"]
            name = f"{kind} {scale} {block} {result}"
            yield Words(name, kind, "e2m1", "e2m1", A, B, C, int(result, 16), options=scaling(scale, block, *scales))


def one_product(name: str, fmt: str, x: int, y: int, D: int, C: int = 0) -> Words:
    kind, k = KINDS.get(fmt, ("f8f6f4", 32))
    rest = (k - 1) * [0]
    return Words(f"{fmt} {name}", kind, fmt, fmt, [x, *rest], [y, *rest], C, D)


def edges() -> Iterator[Words]:
    for fmt, *words in lines(EDGES):
        one, least, nan = (int(word, 16) for word in words[:3])
        yield one_product("-0", fmt, 0, 0, 0, C=0x80000000)
        yield one_product("subnormal", fmt, least, one, int(words[4], 16))
        yield one_product("NaN", fmt, nan, one, NAN)
        if words[3] != "none":
            yield one_product("infinity", fmt, int(words[3], 16), one, 0x7F800000)
            yield one_product("infinity * 0", fmt, int(words[3], 16), 0, NAN)
    # A NaN that has nothing but bits that the type does not keep. (bf16's were cut before they are codes.)
    yield one_product("NaN of dropped bits", "tf32", 0x7F800001, 0x3F800000, 0x7F800000)


def special_scales() -> Iterator[Words]:
    nvf4 = scaling("ue4m3", "16", [0x7F, 0x38, 0x38, 0x38], 4 * [0x38])
    yield Words("ue4m3 NaN", "mxf4nvf4", "e2m1", "e2m1", 64 * [1], 64 * [1], 0, NAN, options=nvf4)
    yield Words("ue8m0 NaN", "mxf8f6f4", "e2m1", "e2m1", 32 * [1], 32 * [1], 0, NAN, options=scaling("ue8m0", "32", [0xFF], [0x7F]))


def halves() -> Iterator[Words]:
    yield Words("f16 of NaN", "f8f6f4", "e2m1", "e4m3", 32 * [1], [0x7F, *31 * [0]], 0, 0x7FFF, "f16")
    yield Words("f16 of C = NaN", "f8f6f4", "e2m1", "e4m3", 32 * [0], 32 * [0], 0x7E00, 0x7FFF, "f16")


def carry() -> Iterator[Words]:
    """A sum one place below a float's boundary if products, and not their groups, were truncated."""
    A = "eeb608f9ab39f7e0 2615a8647c6b1c6d bb86c8c5041f16f5 2465a7b701adbfe7"
    B = "6cb289b43d299c18 7263d29a59f5a860 8dd2cc52834ff11a ba5bf3bea571178a"
    elements = ([int(digit, 16) for digit in text.replace(" ", "")] for text in (A, B))
    scales = scaling("ue4m3", "16", [0x09, 0x7C, 0x6D, 0x44], [0x07, 0x78, 0x26, 0x79])
    yield Words("carry", "mxf4nvf4", "e2m1", "e2m1", *elements, 0x094E5986, 0x49FCAFB7, options=scales)


WORDS = [*floats(), *integers(), *scaled(), *edges(), *special_scales(), *halves(), *carry()]


def test_every_kind_has_words() -> None:
    assert len(WORDS) == 16 + 8 + 6 + 29
    assert {words.kind for words in WORDS} == {"f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"}


@pytest.mark.parametrize("mma", [numerics.mma, numerics.reference.mma], ids=["fast", "reference"])
@pytest.mark.parametrize("words", WORDS, ids=lambda words: words.name)
def test_word(words: Words, mma: Any) -> None:
    assert f"{words.run(mma):08X}" == f"{words.D:08X}"
