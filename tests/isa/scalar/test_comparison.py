"""setp, set, selp, slct, min, max, testp, copysign."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import ptxlab
from ptxlab.isa.catalogue import match

from ..form_helpers import Form, _form, as_value, cases, form, with_numpy

COUNT = 600
SHOWS = {
    "test_three_operands": ("max{.ftz}{.NaN}{.abs}.f32", "min{.ftz}{.NaN}{.abs}.f32"),
    "test_selection_keeps_the_bits": ("selp*", "slct*"),
    "test_moves": ("mov.*",),
    "test_classes": ("testp*",),
}
FLOATS = ("f16", "bf16", "f32", "f64")
OPERATORS = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}


def number(word: int, type: str) -> float | int:
    if type in FLOATS:
        if type == "bf16":
            return float(np.array([word << 16], np.uint32).view(np.float32)[0])
        bits = int(type[1:])
        return float(np.array([word], f"u{bits // 8}").view(f"f{bits // 8}")[0])
    bits = int(type[1:])
    return word - (1 << bits) if type[0] == "s" and word >> (bits - 1) else word


def compare(op: str, a: float | int, b: float | int) -> bool:
    nan = a != a or b != b
    if op in ("num", "nan"):
        return nan == (op == "nan")
    if op in ("lo", "ls", "hi", "hs"):
        op = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}[op]
    if op.endswith("u") and len(op) == 3:
        return nan or bool(OPERATORS[op[:2]](a, b))
    return not nan and bool(OPERATORS[op](a, b))


def pair_form(opcode: str, sources: int) -> Form:
    """The form with two destinations."""
    return next(f for f in (_form(opcode, row, q) for row, q in match(opcode)) if len(f.sources) == sources and len(f.results) == 2)


ORDERED = ["eq", "ne", "lt", "le", "gt", "ge"]
FLOAT_OPS = [*ORDERED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
TYPES = [*((t, FLOAT_OPS) for t in FLOATS), *((t, ORDERED) for t in ("s16", "s32", "s64"))]
TYPES += [*((t, [*ORDERED, "lo", "ls", "hi", "hs"]) for t in ("u16", "u32", "u64")), *((t, ["eq", "ne"]) for t in ("b16", "b32", "b64"))]


@pytest.mark.parametrize(("type", "ops"), TYPES, ids=[t for t, _ in TYPES])
def test_setp(type: str, ops: list[str]) -> None:
    a, b, c = cases(type, COUNT, 0), cases(type, COUNT, 1), cases("pred", COUNT, 2)
    b[::5] = a[::5]
    values = [(number(m, type), number(n, type)) for m, n in zip(a.tolist(), b.tolist(), strict=True)]
    for op in ops:
        want = np.array([compare(op, *pair) for pair in values])
        (got,) = with_numpy(form(f"setp.{op}.{type}", 2), [a, b])
        assert np.array_equal(got, want), op
        pairs = type not in ("f16", "bf16")  # a scalar comparison of halves gives no complement
        if pairs:
            first, second = with_numpy(pair_form(f"setp.{op}.{type}", 2), [a, b])
            assert np.array_equal(first, want)
            assert np.array_equal(second, ~want)
        for name, combine in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
            (alone,) = with_numpy(form(f"setp.{op}.{name}.{type}", 3), [a, b, c])
            assert np.array_equal(alone, combine(want, c)), (op, name)
            if pairs:
                first, second = with_numpy(pair_form(f"setp.{op}.{name}.{type}", 3), [a, b, c])
                assert np.array_equal(first, combine(want, c)), (op, name)
                assert np.array_equal(second, combine(~want, c)), (op, name)
        (flags,) = with_numpy(form(f"set.{op}.{'u32' if type != 'f16' else 's32'}.{type}", 2), [a, b])
        assert np.array_equal(flags, np.where(want, np.uint32(0xFFFFFFFF), np.uint32(0)))


def test_packed_comparison_gives_a_predicate_for_each_half() -> None:
    a, b = cases("f16x2", COUNT, 0), cases("f16x2", COUNT, 1)
    low, high = with_numpy(pair_form("setp.lt.f16x2", 2), [a, b])
    for shift, got in ((0, low), (16, high)):
        halves = [(w >> np.uint32(shift)).astype(np.uint16).view(np.float16) for w in (a, b)]
        assert np.array_equal(got.astype(bool), halves[0] < halves[1])


@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize("largest", [False, True])
def test_extremes(type: str, largest: bool) -> None:
    """Python's total order of floats: by value, then -0 before +0; a NaN yields to a number."""
    name = "max" if largest else "min"
    a, b = cases(type, COUNT, 0), cases(type, COUNT, 1)
    (got,) = with_numpy(form(f"{name}.{type}", 2), [a, b])
    sign = 1 << (a.dtype.itemsize * 8 - 1)
    for m, n, result in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        numbers = [w for w in (m, n) if number(w, type) == number(w, type)]
        if numbers:
            choose = max if largest else min
            assert result == choose(numbers, key=lambda w: (number(w, type), not w & sign)), (hex(m), hex(n))
        else:
            assert number(result, type) != number(result, type)


@pytest.mark.parametrize("type", ["f16", "bf16", "f32"])
def test_nan_and_xorsign(type: str) -> None:
    a, b = cases(type, COUNT, 2), cases(type, COUNT, 3)
    bits = a.dtype.itemsize * 8
    sign, nan = 1 << (bits - 1), (1 << (bits - 1)) - 1
    (propagated,) = with_numpy(form(f"max.NaN.{type}", 2), [a, b])
    (signed,) = with_numpy(form(f"min.xorsign.abs.{type}", 2), [a, b])
    for m, n, p, s in zip(a.tolist(), b.tolist(), propagated.tolist(), signed.tolist(), strict=True):
        either = any(number(w, type) != number(w, type) for w in (m, n))
        assert (p == nan) == either
        if not either:
            assert s == min(m & ~sign, n & ~sign) | ((m ^ n) & sign)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("flags", ["", ".NaN", ".abs", ".NaN.abs", ".ftz", ".ftz.NaN.abs"])
def test_three_operands(flags: str, largest: bool) -> None:
    """The order of magnitudes is that of the words; ``.abs`` looks at all three."""
    operands = [cases("f32", COUNT, seed) for seed in range(3)]
    (got,) = with_numpy(form(f"{'max' if largest else 'min'}{flags}.f32", 3), operands)
    for *words, result in zip(*(w.tolist() for w in operands), got.tolist(), strict=True):
        if ".ftz" in flags:
            words = [w if w & 0x7F800000 else w & 0x80000000 for w in words]
        if ".abs" in flags:
            words = [w & 0x7FFFFFFF for w in words]
        numbers = [w for w in words if w & 0x7FFFFFFF <= 0x7F800000]
        if not numbers or (".NaN" in flags and len(numbers) < 3):
            assert result == 0x7FFFFFFF
        else:
            choose = max if largest else min
            assert result == choose(numbers, key=lambda w: -(w & 0x7FFFFFFF) - 1 if w >> 31 else w), list(map(hex, words))


def test_selection_keeps_the_bits() -> None:
    a, b = np.array([0x7F800001], np.uint32), np.array([0xFFC12345], np.uint32)
    for flag, want in ((1, a), (0, b)):
        assert np.array_equal(with_numpy(form("selp.f32", 3), [a, b, np.array([flag], np.uint8)])[0], want)
    negative = np.array([0xFFFFFFFF], np.uint32)
    assert np.array_equal(with_numpy(form("slct.f32.s32", 3), [a, b, negative])[0], b)
    assert np.array_equal(with_numpy(form("slct.u32.f32", 3), [a, b, np.array([0x80000000], np.uint32)])[0], a)


@pytest.mark.parametrize("type", ["pred", "b128", *(f"{letter}{width}" for letter in "bus" for width in (16, 32, 64)), "f32", "f64"])
def test_moves(type: str) -> None:
    """A register takes all bits of another one."""
    width = 32 if type == "pred" else int(type[1:])
    words = np.random.default_rng(width).integers(0, 256, (32, width // 8), np.uint8)
    words[0], words[1] = 0xFF, 0
    if type == "pred":
        code = "ld.global.b32 r, [x]; setp.lt.s32 p, r, 0; mov.pred q, p; selp.b32 r, 0xffffffff, 0, q; st.global.b32 [y], r;"
        registers, want = ".reg .pred p, q; .reg .b32 r;", np.repeat(words[:, 3:] >> 7, 4, axis=1) * np.uint8(255)
    elif type == "b128":
        code = "ld.global.v2.b64 {l, h}, [x]; mov.b128 a, {l, h}; mov.b128 b, a; mov.b128 {l, h}, b; st.global.v2.b64 [y], {l, h};"
        registers, want = ".reg .b64 l, h; .reg .b128 a, b;", words
    else:
        code = f"ld.global.b{width} a, [x]; mov.{type} b, a; st.global.b{width} [y], b;"
        registers, want = f".reg .b{width} a, b;", words
    found = np.zeros_like(words)
    address = f"mad.wide.u32 x, t, {width // 8}, x; mad.wide.u32 y, t, {width // 8}, y;"
    ptxlab.loads(
        ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 px, .param .u64 py)\n{ .reg .b64 x, y; .reg .b32 t; "
        f"{registers} mov.u32 t, %tid.x; ld.param.u64 x, [px]; ld.param.u64 y, [py]; {address} {code} ret; }}"
    ).kernel().launch(grid=1, block=32, args=[words, found]).raise_for_errors()
    assert np.array_equal(found, want)


@pytest.mark.parametrize("type", ["f32", "f64"])
def test_classes(type: str) -> None:
    words = cases(type, COUNT, 0)
    values = as_value(words, type)
    size, least = np.abs(values), np.finfo(values.dtype).tiny
    with np.errstate(invalid="ignore"):
        tests = {
            "finite": np.isfinite(values),
            "infinite": np.isinf(values),
            "number": ~np.isnan(values),
            "notanumber": np.isnan(values),
            "normal": np.isfinite(values) & ((size >= least) | (size == 0)),
            "subnormal": (size > 0) & (size < least),
        }
    for name, want in tests.items():
        assert np.array_equal(with_numpy(form(f"testp.{name}.{type}", 1), [words])[0], want), name
