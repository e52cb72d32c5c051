"""Integer and bit instructions against Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ptxlab.engine.reference._vocabulary import NumpyVocabulary
from ptxlab.isa.operands import Const
from ptxlab.isa.scalar._bits import _permuted

from ..form_helpers import as_words, cases, form, with_numpy

COUNT = 400


def signed(word: int, bits: int) -> int:
    return word - (1 << bits) if word >> (bits - 1) & 1 else word


def number(word: int, type: str) -> int:
    return signed(word, int(type[1:])) if type[0] == "s" else word


def clamp32(v: int) -> int:
    return max(-(2**31), min(2**31 - 1, v))


def quotient(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return -1 if b == 0 else a - quotient(a, b) * b


BINARY: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, w: a + b,
    "sub": lambda a, b, w: a - b,
    "mul.lo": lambda a, b, w: a * b,
    "mul.hi": lambda a, b, w: a * b >> w,
    "div": lambda a, b, w: quotient(a, b),
    "rem": lambda a, b, w: remainder(a, b),
    "min": lambda a, b, w: min(a, b),
    "max": lambda a, b, w: max(a, b),
}


@pytest.mark.parametrize("type", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("op", sorted(BINARY))
def test_two_operands(op: str, type: str) -> None:
    bits = int(type[1:])
    a, b = cases(type, COUNT, 0), cases(type, COUNT, 1)
    (got,) = with_numpy(form(f"{op}.{type}", 2), [a, b])
    for m, n, result in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        assert result == BINARY[op](number(m, type), number(n, type), bits) & ((1 << bits) - 1), (hex(m), hex(n))


@pytest.mark.parametrize("type", ["u16", "s16", "u32", "s32"])
def test_wide_products(type: str) -> None:
    bits = int(type[1:])
    a, b, c = cases(type, COUNT, 0), cases(type, COUNT, 1), cases(f"b{2 * bits}", COUNT, 2)
    (product,) = with_numpy(form(f"mul.wide.{type}", 2), [a, b])
    (total,) = with_numpy(form(f"mad.wide.{type}", 3), [a, b, c])
    mask = (1 << 2 * bits) - 1
    for m, n, k, p, t in zip(*(v.tolist() for v in (a, b, c, product, total)), strict=True):
        assert p == number(m, type) * number(n, type) & mask
        assert t == (number(m, type) * number(n, type) + k) & mask


SATURATING = {"add.sat.s32": lambda a, b: a + b, "sub.sat.s32": lambda a, b: a - b}


@pytest.mark.parametrize("opcode", SATURATING)
def test_saturation(opcode: str) -> None:
    a, b = cases("s32", COUNT, 0), cases("s32", COUNT, 1)
    (got,) = with_numpy(form(opcode, 2), [a, b])
    for m, n, result in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        assert result == clamp32(SATURATING[opcode](signed(m, 32), signed(n, 32))) & 0xFFFFFFFF


def bits_of(word: int, count: int) -> list[int]:
    return [word >> i & 1 for i in range(count)]


@pytest.mark.parametrize("type", ["u32", "s32", "u64", "s64"])
def test_bit_field_extract(type: str) -> None:
    bits = int(type[1:])
    a, b, c = cases(type, COUNT, 0), cases("u8", COUNT, 1), cases("u8", COUNT, 2)
    (got,) = with_numpy(form(f"bfe.{type}", 3), [a, b.astype(np.uint32), c.astype(np.uint32)])
    for word, place, length, result in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        source = bits_of(word, bits)
        fill = 0 if type[0] == "u" or length == 0 else source[min(place + length - 1, bits - 1)]
        want = [source[place + i] if i < length and place + i < bits else fill for i in range(bits)]
        assert bits_of(result, bits) == want


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_field_insert(bits: int) -> None:
    a, b = cases(f"b{bits}", COUNT, 0), cases(f"b{bits}", COUNT, 1)
    c, d = cases("u8", COUNT, 2), cases("u8", COUNT, 3)
    (got,) = with_numpy(form(f"bfi.b{bits}", 4), [a, b, c.astype(np.uint32), d.astype(np.uint32)])
    for field, into, place, length, result in zip(*(v.tolist() for v in (a, b, c, d, got)), strict=True):
        want = bits_of(into, bits)
        for i in range(min(length, bits - place) if place < bits else 0):
            want[place + i] = field >> i & 1
        assert bits_of(result, bits) == want


def test_lop3_with_every_table() -> None:
    chosen = form("lop3.b32", 4)
    a, b, c = (np.array([v], np.uint32) for v in (0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA))
    for lut in range(256):
        result = chosen.row.semantics(NumpyVocabulary(), chosen.q, a, b, c, Const(lut))
        assert int(as_words(result, 1)[0]) == int(f"{lut:02x}" * 4, 16)


def permuted(a: int, b: int, selector: int) -> int:
    source = (a | b << 32).to_bytes(8, "little")
    chosen = []
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = source[nibble & 7]
        chosen.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
    return int.from_bytes(bytes(chosen), "little")


def test_byte_permutation() -> None:
    a, b, c = (cases("b32", COUNT, seed) for seed in range(3))
    (got,) = with_numpy(form("prmt.b32", 3), [a, b, c])
    assert got.tolist() == [permuted(*given) for given in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]


def test_known_selectors_give_the_same_bytes_as_unknown_ones() -> None:
    rng = np.random.default_rng(0)
    a, b = cases("b32", 32, 0), cases("b32", 32, 1)
    for selector in [0x5410, 0x7632, 0x3210, 0x0000, 0xFEDC, 0x8888, *rng.integers(0, 65536, 200).tolist()]:
        got = as_words(_permuted(NumpyVocabulary(), a, b, selector), 32)
        assert got.tolist() == [permuted(m, n, selector) for m, n in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
@pytest.mark.parametrize("direction", ["l", "r"])
def test_funnel_shift(direction: str, mode: str) -> None:
    a, b, c = (cases("b32", COUNT, seed) for seed in range(3))
    (got,) = with_numpy(form(f"shf.{direction}.{mode}.b32", 3), [a, b, c])
    for low, high, amount, result in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        n = amount & 31 if mode == "wrap" else min(amount, 32)
        both = low | high << 32
        assert result == (both << n >> 32 if direction == "l" else both >> n) & 0xFFFFFFFF


@pytest.mark.parametrize("type", ["b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64"])
def test_shifts_clamp(type: str) -> None:
    bits = int(type[1:])
    a, b = cases(type, COUNT, 0), cases("u32", COUNT, 1)
    (right,) = with_numpy(form(f"shr.{type}", 2), [a, b])
    for word, amount, result in zip(a.tolist(), b.tolist(), right.tolist(), strict=True):
        assert result == number(word, type) >> min(amount, bits) & ((1 << bits) - 1)
    if type[0] == "b":
        (left,) = with_numpy(form(f"shl.{type}", 2), [a, b])
        assert left.tolist() == [w << min(n, bits) & ((1 << bits) - 1) for w, n in zip(a.tolist(), b.tolist(), strict=True)]


def nth_set(mask: int, base: int, offset: int) -> int:
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    places = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [p for p in places if mask >> p & 1]
    return found[abs(offset) - 1] if abs(offset) <= len(found) else 0xFFFFFFFF


def test_find_nth_set() -> None:
    rng = np.random.default_rng(1)
    mask, base = cases("b32", 2000, 0), rng.integers(0, 32, 2000).astype(np.uint32)
    offset = rng.integers(-34, 35, 2000)
    (got,) = with_numpy(form("fns.b32", 3), [mask, base, offset.astype(np.int32).view(np.uint32)])
    assert got.tolist() == [nth_set(*given) for given in zip(mask.tolist(), base.tolist(), offset.tolist(), strict=True)]


@pytest.mark.parametrize("type", ["u32", "u64"])
def test_long_addition_and_subtraction(type: str) -> None:
    """Numbers of four words through the carry flag."""
    bits = int(type[1:])
    a, b = ([cases(type, COUNT, 10 * k + seed) for k in range(4)] for seed in (0, 1))
    for op, sign in (("add", 1), ("sub", -1)):
        flag = None
        parts = []
        for k, (m, n) in enumerate(zip(a, b, strict=True)):
            opcode = f"{op}.cc.{type}" if k == 0 else f"{op}c.cc.{type}" if k < 3 else f"{op}c.{type}"
            words = [m, n] + ([] if flag is None else [flag])
            result, *rest = with_numpy(form(opcode, len(words)), words)
            flag = rest[0] if rest else None
            parts.append(result)
        for i in range(COUNT):
            x, y, z = (sum(int(w[i]) << bits * k for k, w in enumerate(v)) for v in (a, b, parts))
            assert z == (x + sign * y) % (1 << 4 * bits)


def test_long_multiplication() -> None:
    """A product of a long number and a word, by mad.lo.cc and madc.hi, as compilers write it."""
    words, by = [cases("u32", COUNT, seed) for seed in range(3)], cases("u32", COUNT, 9)
    zero = np.zeros(COUNT, np.uint32)
    low = [with_numpy(form("mul.lo.u32", 2), [w, by])[0] for w in words]
    result, flag = [low[0]], None
    for below in words:
        part = low[len(result)] if len(result) < 3 else zero
        given = [below, by, part] + ([] if flag is None else [flag])
        name = "mad.hi.cc.u32" if flag is None else "madc.hi.cc.u32"
        total, flag = with_numpy(form(name, len(given)), given)
        result.append(total)
    for i in range(COUNT):
        number = sum(int(w[i]) << 32 * k for k, w in enumerate(words))
        assert sum(int(w[i]) << 32 * k for k, w in enumerate(result)) == number * int(by[i])


def test_dot_products() -> None:
    a, b, c = (cases("b32", COUNT, seed) for seed in range(3))
    (four,) = with_numpy(form("dp4a.s32.u32", 3), [a, b, c])
    (two,) = with_numpy(form("dp2a.hi.s32.s32", 3), [a, b, c])
    bytes_a, bytes_b = a.view(np.int8).reshape(-1, 4).astype(np.int64), b.view(np.uint8).reshape(-1, 4).astype(np.int64)
    want = (bytes_a * bytes_b).sum(1) + c
    assert four.tolist() == (want & 0xFFFFFFFF).tolist()
    halves, high = a.view(np.int16).reshape(-1, 2).astype(np.int64), b.view(np.int8).reshape(-1, 4)[:, 2:].astype(np.int64)
    assert two.tolist() == (((halves * high).sum(1) + c) & 0xFFFFFFFF).tolist()
