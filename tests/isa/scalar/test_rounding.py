"""Floating-point arithmetic against exact fractions rounded once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.sweep_helpers import one_in

from ..exact_helpers import FORMATS, is_infinite, is_nan, rounded, square_root, to_integer, value
from ..form_helpers import Words, cases, form, with_numpy

SHOWS = {
    "test_pairs": ("add*.f32x2", "sub*.f32x2", "mul*.f32x2", "fma*.f32x2"),
    "test_mixed_precision": ("*{.sat}.f32.(type=f16|bf16)",),
    "test_tf32_that_saturates": ("cvt.(rnd=rn|rz).satfinite{.relu}.tf32.f32",),
}

MODES = ("rn", "rz", "rm", "rp")
COUNT = 1500


def product_sum(a: int, b: int, c: int | None, kind: str, mode: str) -> int | None:
    """a * b + c; None where an operand or the result is special."""
    f = FORMATS[kind]
    if any(is_nan(v, f) or is_infinite(v, f) for v in (a, b, c or 0)):
        return None
    sign = bool((a ^ b) & f.sign)
    exact = value(a, f) * value(b, f)
    if c is None:
        return rounded(exact, f, mode, sign)
    signs = (sign, bool(c & f.sign))
    both_zero = exact == 0 and value(c, f) == 0
    negative = all(signs) if both_zero and signs[0] == signs[1] else mode == "rm"
    return rounded(exact + value(c, f), f, mode, negative)


def expected(op: str, words: tuple[int, ...], kind: str, mode: str) -> int | None:
    f = FORMATS[kind]
    one = f.bias << f.mantissa
    if op == "add":
        return product_sum(words[0], one, words[1], kind, mode)
    if op == "sub":
        return product_sum(words[0], one, words[1] ^ f.sign, kind, mode)
    if op == "mul":
        return product_sum(words[0], words[1], None, kind, mode)
    if op == "fma":
        return product_sum(*words, kind, mode)
    a, b = (one, words[0]) if op == "rcp" else (words[0], words[-1])
    if is_nan(a, f) or is_infinite(a, f) or is_nan(b, f) or is_infinite(b, f):
        return None
    if op == "sqrt":
        return a if value(a, f) == 0 else None if a & f.sign else square_root(value(a, f), f, mode)
    if value(b, f) == 0:
        return None
    return rounded(value(a, f) / value(b, f), f, mode, bool((a ^ b) & f.sign))


def check(opcode: str, op: str, kind: str, mode: str, operands: int) -> None:
    words = [cases(kind, COUNT, seed) for seed in range(operands)]
    if operands > 1:  # near cancellation, and sums of numbers far apart
        words[-1][::7] = words[0][::7] ^ FORMATS[kind].sign
        words[-1][::11] = 1
    (got,) = with_numpy(form(opcode, operands), words)
    tested = 0
    for i in range(COUNT):
        given = tuple(int(w[i]) for w in words)
        want = expected(op, given, kind, mode)
        if want is not None:
            tested += 1
            assert int(got[i]) == want, f"{opcode}({', '.join(map(hex, given))}) = {int(got[i]):#x}, exactly {want:#x}"
    assert tested > COUNT // 4


@pytest.mark.parametrize("mode", one_in(2, MODES))
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(("op", "operands"), [("add", 2), ("sub", 2), ("mul", 2), ("fma", 3), ("div", 2), ("rcp", 1), ("sqrt", 1)])
def test_arithmetic(op: str, operands: int, kind: str, mode: str) -> None:
    check(f"{op}.{mode}.{kind}", op, kind, mode, operands)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize(("op", "operands"), [("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)])
def test_half_arithmetic(op: str, operands: int, kind: str) -> None:
    check(f"{op}.rn.{kind}", op, kind, "rn", operands)


def test_fused_halves_where_two_roundings_would_differ() -> None:
    """A product that is a tie of the result's format, and an addend far below it."""
    f = FORMATS["bf16"]
    a, b, c = 0x3F81, 0x3F81, 0x0080  # (1 + 2**-7)**2 = 1 + 2**-6 + 2**-14, then 2**-126
    (got,) = with_numpy(form("fma.rn.bf16", 3), [np.array([v], np.uint16) for v in (a, b, c)])
    assert int(got[0]) == rounded(value(a, f) * value(b, f) + value(c, f), f, "rn")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("to", "source"), [("f32", "f64"), ("f16", "f64"), ("bf16", "f64"), ("f16", "f32"), ("bf16", "f32")])
def test_narrowing(to: str, source: str, mode: str) -> None:
    words = cases(source, COUNT, 1)
    # around the ties and the subnormals of the narrow format
    f, g = FORMATS[source], FORMATS[to]
    cut = f.mantissa - g.mantissa
    words[::3] = words[::3] & ~np.asarray((1 << cut) - 1, words.dtype) | np.asarray(1 << (cut - 1), words.dtype)
    low = (max(f.bias - g.bias - 3, 0) << f.mantissa) + (words[1::5] & np.asarray((6 << f.mantissa) - 1, words.dtype))
    words[1::5] = low
    (got,) = with_numpy(form(f"cvt.{mode}.{to}.{source}", 1), [words])
    for word, result in zip(words.tolist(), got.tolist(), strict=True):
        if not is_nan(word, f) and not is_infinite(word, f):
            assert result == rounded(value(word, f), g, mode, bool(word & f.sign)), f"{word:#x}"


@pytest.mark.parametrize("mode", ["rn", "rna", "rz"])
def test_tf32(mode: str) -> None:
    words = tf32_cases()
    (got,) = with_numpy(form(f"cvt.{mode}.tf32.f32", 1), [words])
    f = FORMATS["f32"]
    for word, result in zip(words.tolist(), got.tolist(), strict=True):
        if not is_nan(word, f) and not is_infinite(word, f):
            assert result == rounded(value(word, f), FORMATS["tf32"], mode, bool(word & f.sign)) << 13, f"{word:#x}"


def tf32_cases() -> np.ndarray:
    """Words around the ties of tf32."""
    words = cases("f32", COUNT, 2)
    words[::3] = words[::3] & np.uint32(0xFFFFE000) | np.uint32(0x1000)
    return words


@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_tf32_that_saturates(mode: str, relu: str) -> None:
    words = np.append(tf32_cases(), np.array([0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000], np.uint32))
    (got,) = with_numpy(form(f"cvt.{mode}.satfinite{relu}.tf32.f32", 1), [words])
    f, largest = FORMATS["f32"], 0x7F7FE000
    for word, result in zip(words.tolist(), got.tolist(), strict=True):
        sign = word & f.sign
        if is_nan(word, f):
            want = 0x7FFFE000
        else:
            within = sign | largest if is_infinite(word, f) else rounded(value(word, f), FORMATS["tf32"], mode, bool(sign)) << 13
            want = min(within & ~f.sign, largest) | sign
            want = 0 if relu and sign else want
        assert result == want, f"{word:#x}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("to", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("source", ["s64", "u64", "s32", "u32", "s16", "u8"])
def test_from_integers(to: str, source: str, mode: str) -> None:
    words = cases(source, 400, 3)
    bits = int(source[1:])
    (got,) = with_numpy(form(f"cvt.{mode}.{to}.{source}", 1), [words])
    for word, result in zip(words.tolist(), got.tolist(), strict=True):
        number = word - (1 << bits) if source[0] == "s" and word >> (bits - 1) else word
        assert result == rounded(Fraction(number), FORMATS[to], mode), f"{word:#x}"


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("to", ["s8", "u16", "s32", "u32", "s64", "u64"])
def test_to_integers(to: str, source: str, mode: str) -> None:
    words, f, bits = cases(source, 400, 4), FORMATS[source], int(to[1:])
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
    (got,) = with_numpy(form(f"cvt.{mode}.{to}.{source}", 1), [words])
    for word, result in zip(words.tolist(), got.tolist(), strict=True):
        if is_nan(word, f):
            want = 1 << (bits - 1) if source == "f64" or bits == 64 else 0
        elif is_infinite(word, f):
            want = least if word & f.sign else most
        else:
            want = min(max(to_integer(value(word, f), mode[:2]), least), most)
        assert result == want & ((1 << bits) - 1), f"{word:#x}"


def pairs(kind: str, count: int, seed: int) -> tuple[Words, list[list[int]]]:
    """Packed words and their elements, low ones first."""
    words = cases(kind, count, seed)
    half = words.itemsize * 4
    return words, [[int(w) >> shift & (1 << half) - 1 for w in words] for shift in (0, half)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("op", "operands"), [("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)])
def test_pairs(op: str, operands: int, mode: str) -> None:
    """Each half of an f32x2 as an f32 of its own."""
    packed = [pairs("f32x2", 600, seed) for seed in range(operands)]
    for ftz in ("", ".ftz"):
        (got,) = with_numpy(form(f"{op}.{mode}{ftz}.f32x2", operands), [words for words, _ in packed])
        for part in range(2):
            for i, word in enumerate(got.tolist()):
                given = tuple(elements[part][i] for _, elements in packed)
                if ftz:
                    given = tuple(flushed(v) for v in given)
                want = expected(op, given, "f32", mode)
                if want is not None:
                    assert word >> 32 * part & 0xFFFFFFFF == (flushed(want) if ftz else want), (list(map(hex, given)), hex(word))


def flushed(word: int) -> int:
    return word if word & 0x7F800000 else word & 0x80000000


@pytest.mark.parametrize("mode", one_in(2, MODES))
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("op", ["add", "sub", "fma"])
def test_mixed_precision(op: str, kind: str, mode: str) -> None:
    """Halves as the f32 that they are, one rounding; ``.sat`` clamps to 0..1."""
    halves = [cases(kind, COUNT, seed) for seed in range(2 if op == "fma" else 1)]
    addend = cases("f32", COUNT, 6)
    operands = [*halves, addend]
    (got,) = with_numpy(form(f"{op}.{mode}.f32.{kind}", len(operands)), operands)
    (clamped,) = with_numpy(form(f"{op}.{mode}.sat.f32.{kind}", len(operands)), operands)
    f, tested = FORMATS["f32"], 0
    for i, (result, limited) in enumerate(zip(got.tolist(), clamped.tolist(), strict=True)):
        words = [int(h[i]) for h in halves]
        if any(is_nan(w, FORMATS[kind]) or is_infinite(w, FORMATS[kind]) for w in words):
            continue
        wide = [rounded(value(w, FORMATS[kind]), f, "rn", bool(w & FORMATS[kind].sign)) for w in words]
        want = expected(op, (*wide, int(addend[i])), "f32", mode)
        if want is not None:
            tested += 1
            assert result == want, (list(map(hex, words)), hex(int(addend[i])))
            assert limited == (0 if want & f.sign else min(want, 0x3F800000))
    assert tested > COUNT // 2
