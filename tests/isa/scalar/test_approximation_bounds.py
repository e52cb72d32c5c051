"""Every approximate form of the catalogue at the bound that its section states, against decimals of 120 digits; and its special values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal, Overflow, Underflow, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.hardware.test_scalar_h200 import record, recorded
from tests.isa.exact_helpers import FORMATS, Format, is_infinite, is_nan, rounded, value
from tests.sweep_helpers import one_in

from ..form_helpers import Form, cases, forms, pure_rows, special, with_numpy

DIGITS = Context(prec=120, Emax=10**6, Emin=-(10**6), traps=[])
COUNT = 800
APPROXIMATE = {form.opcode: form for row in pure_rows() for form in forms(row) if {"approx", "full"} & set(form.opcode.split("."))}


def decimal(exact: Fraction) -> Decimal:
    return Decimal(exact.numerator) / Decimal(exact.denominator)


def arctangent(inverse: int) -> Decimal:
    total, power, n = Decimal(0), Decimal(1) / inverse, 1
    while abs(power) > Decimal(10) ** -125:
        total, power, n = total + power / n, -power / inverse**2, n + 2
    return total


with localcontext(DIGITS):
    PI = 4 * (4 * arctangent(5) - arctangent(239))
    LN2 = Decimal(2).ln()


def sine(a: Decimal, quarter: int = 0) -> Decimal:
    angle = (a + quarter * PI / 2).remainder_near(2 * PI)
    total, term, n = Decimal(0), angle, 1
    while abs(term) > Decimal(10) ** -100:
        total, term, n = total + term, -term * angle * angle / ((n + 1) * (n + 2)), n + 2
    return total


def tangent(a: Decimal) -> Decimal:
    if abs(a) > 200:
        return Decimal(1).copy_sign(a)
    power = (2 * a).exp()
    return (power - 1) / (power + 1)


def upper(a: Fraction) -> Fraction:
    """A double from its upper word alone."""
    word = np.float64(float(a)).view(np.uint64) >> np.uint64(32) << np.uint64(32)
    return Fraction(float(word.view(np.float64)))


EXACT: dict[str, Callable[..., Decimal]] = {
    "rcp": lambda a: 1 / a,
    "sqrt": lambda a: a.sqrt(),
    "rsqrt": lambda a: 1 / a.sqrt(),
    "ex2": lambda a: (a * LN2).exp(),
    "lg2": lambda a: a.ln() / LN2,
    "sin": sine,
    "cos": lambda a: sine(a, 1),
    "tanh": tangent,
    "div": lambda a, b: a / b,
}


@dataclass(frozen=True)
class Bound:
    """The error that is allowed: the largest of these; ``inside`` is where it is stated."""

    ulp: float = 0.0
    relative: float = 0.0
    absolute: float = 0.0
    inside: Callable[..., bool] = lambda *a: True


def near_one(a: Fraction) -> bool:
    return Fraction(1, 2) < a < 2


def within(turns: int) -> Callable[[Fraction], bool]:
    return lambda a: abs(a) <= Fraction(turns * PI)


BOUNDS: dict[str, list[Bound]] = {
    "rcp.approx.f32": [Bound(ulp=1)],
    "sqrt.approx.f32": [Bound(relative=2.0**-23, inside=lambda a: a >= 0)],
    "rsqrt.approx.f32": [Bound(relative=2.0**-22.9, inside=lambda a: a > 0)],
    "ex2.approx.f32": [Bound(ulp=2)],
    "lg2.approx.f32": [
        Bound(absolute=2.0**-22, inside=near_one),
        Bound(relative=2.0**-22, inside=lambda a: a > 0 and not near_one(a)),
    ],
    "sin.approx.f32": [Bound(absolute=2.0**-20.5, inside=within(2)), Bound(absolute=2.0**-14.7, inside=within(100))],
    "cos.approx.f32": [Bound(absolute=2.0**-20.4, inside=within(2)), Bound(absolute=2.0**-14.7, inside=within(100))],
    "tanh.approx.f32": [Bound(relative=2.0**-11)],
    "div.approx.f32": [Bound(ulp=2, inside=lambda a, b: Fraction(2) ** -126 <= abs(b) <= 2**126)],
    "div.full.f32": [Bound(ulp=2)],
    "ex2.approx.f16": [Bound(relative=2.0**-9.9)],
    "ex2.approx.bf16": [Bound(relative=2.0**-7)],
    "tanh.approx.f16": [Bound(absolute=2.0**-10.987)],
    "tanh.approx.bf16": [Bound(absolute=2.0**-8)],
    # No error is stated: what an H200 gives.
    "rcp.approx.ftz.f64": [Bound(relative=2.0**-20)],
    "rsqrt.approx.ftz.f64": [Bound(relative=2.0**-20, inside=lambda a: a > 0)],
    "rsqrt.approx.f64": [Bound(ulp=0.5, inside=lambda a: a > 0)],
}

RANGES = {"ex2": (-150, 130), "sin": (-320, 320), "cos": (-320, 320), "tanh": (-12, 12), "lg2": (0.25, 4)}
"""Where most numbers of the approximated functions are; others are of all sizes."""


def format_of(form: Form) -> tuple[str, Format]:
    kind = form.results[0].removesuffix("x2")
    return kind, FORMATS[kind]


def bounds_of(opcode: str) -> list[Bound]:
    plain = opcode.removesuffix("x2")
    return BOUNDS[plain] if plain in BOUNDS else BOUNDS[plain.replace(".ftz", "")]


def elements(words: NDArray[Any], form: Form) -> list[int]:
    """Words of one element each."""
    kind = format_of(form)[0]
    return words.view({"f64": np.uint64, "f32": np.uint32}.get(kind, np.uint16)).tolist()


def inputs(form: Form, seed: int) -> list[NDArray[Any]]:
    """Words for each source: special ones, all sizes, and the range that matters."""
    found = []
    for position, type in enumerate(form.sources):
        kind = type.removesuffix("x2")
        words = cases(type, COUNT, seed + position)
        low, high = RANGES.get(form.opcode.split(".")[0], (2.0**-20, 2.0**20))
        some = np.random.default_rng([seed, position]).uniform(low, high, COUNT)
        if kind == "f64":
            extra = some.view(np.uint64)
        elif kind == "f32":
            extra = some.astype(np.float32).view(np.uint32)
        else:
            narrow = (
                some.astype(np.float16).view(np.uint16)
                if kind == "f16"
                else (some.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            )
            extra = narrow.astype(words.dtype)
        every = np.array(special(kind), words.dtype)
        found.append(np.concatenate([words, extra, every if position == 0 else np.roll(every, 5)]))
    return found


def flushed(word: int, f: Format) -> int:
    return word & f.sign if word & (f.sign - 1) < 1 << f.mantissa else word


def judge(form: Form, sources: list[int], got: int) -> bool | None:
    """Whether the result is near enough; None where nothing is promised."""
    (kind, f), ftz = format_of(form), "ftz" in form.opcode.split(".")
    if ftz:
        sources = [flushed(word, f) for word in sources]
    if any(is_nan(word, f) or is_infinite(word, f) for word in sources):
        return None
    reals = [value(word, f) for word in sources]
    family = form.opcode.split(".")[0]
    if (family in ("rcp", "rsqrt", "lg2") and not reals[0]) or (family == "div" and not reals[1]):
        return None
    bound = next((bound for bound in bounds_of(form.opcode) if bound.inside(*reals)), None)
    if bound is None:
        return None
    if form.opcode.endswith("ftz.f64"):
        reals = [upper(a) for a in reals]
        if got & 0xFFFFFFFF:
            return False
    if family == "ex2":
        reals = [max(Fraction(-3000), min(Fraction(3000), reals[0]))]
    exact = Fraction(EXACT[family](*map(decimal, reals)))
    least = Fraction(2) ** (1 - f.bias)
    if is_infinite(got, f):
        return is_infinite(rounded(exact * (1 + Fraction(2) ** (1 - f.mantissa)), f, "rn"), f)
    if is_nan(got, f):
        return False
    found = value(got, f)
    if ftz and abs(exact) < least * (1 + Fraction(2) ** -f.mantissa) and found == 0:
        return bool(got & f.sign) == (exact < 0 or (exact == 0 and sum(bool(word & f.sign) for word in sources) % 2 == 1))
    if ftz and 0 < abs(found) < least:
        return False
    size = abs(exact)
    step = least / 2**f.mantissa
    unit = step
    if size >= least:
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        unit = Fraction(2) ** (exponent - (Fraction(2) ** exponent > size) - f.mantissa)
    allowed = max(Fraction(bound.ulp) * unit, Fraction(bound.relative) * size, Fraction(bound.absolute))
    if size < least:  # the 16-bit forms truncate
        allowed = max(allowed, step if kind == "f16" else step / 2)
    return abs(found - exact) <= allowed


@pytest.mark.parametrize("opcode", one_in(3, APPROXIMATE))
def test_error(opcode: str) -> None:
    form = APPROXIMATE[opcode]
    sources = inputs(form, 3)
    with np.errstate(all="ignore"):
        (got,) = with_numpy(form, sources)
    columns = [elements(words, form) for words in (*sources, got)]
    judged = 0
    with localcontext(DIGITS) as context:
        context.traps[Overflow] = context.traps[Underflow] = False
        for *given, result in zip(*columns, strict=True):
            fits = judge(form, given, result)
            judged += fits is not None
            assert fits is not False, f"{opcode}({', '.join(map(hex, given))}) = {result:#x}"
    assert judged > COUNT


INF, NAN = float("inf"), float("nan")
TABLES: dict[str, list[tuple[float, float]]] = {
    "rcp": [(-INF, -0.0), (-0.0, -INF), (0.0, INF), (INF, 0.0), (NAN, NAN)],
    "sqrt": [(-INF, NAN), (-1.0, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, INF), (NAN, NAN)],
    "rsqrt": [(-INF, NAN), (-1.0, NAN), (-0.0, -INF), (0.0, INF), (INF, 0.0), (NAN, NAN)],
    "ex2": [(-INF, 0.0), (-0.0, 1.0), (0.0, 1.0), (INF, INF), (NAN, NAN)],
    "lg2": [(-INF, NAN), (-1.0, NAN), (-0.0, -INF), (0.0, -INF), (INF, INF), (NAN, NAN)],
    "sin": [(-INF, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, NAN), (NAN, NAN)],
    "cos": [(-INF, NAN), (-0.0, 1.0), (0.0, 1.0), (INF, NAN), (NAN, NAN)],
    "tanh": [(-INF, -1.0), (-0.0, -0.0), (0.0, 0.0), (INF, 1.0), (NAN, NAN)],
}
"""The corner cases that the sections list: operand, result."""


def word_of(number: float, f: Format) -> int:
    sign = f.sign if np.signbit(number) else 0
    if np.isnan(number):
        return sign | f.infinity | 1 << f.mantissa - 1
    return sign | f.infinity if np.isinf(number) else sign | rounded(Fraction(abs(number)), f, "rn")


def corners(form: Form) -> Iterator[tuple[int, float]]:
    f, words = format_of(form)[1], form.opcode.split(".")
    gross = form.opcode.endswith("ftz.f64")
    for operand, result in TABLES[words[0]]:
        word = word_of(operand, f)
        yield word, result
        if np.isnan(operand):
            yield from ((sign | f.infinity | 1 << 32 * gross, result) for sign in (0, f.sign))
        if operand == 0 and "ftz" in words:
            yield from ((word | size, result) for size in (1, (1 << f.mantissa) - 1))
        if np.isinf(operand) and gross:
            yield word | 1, result


def apply(form: Form, *operands: int) -> list[int]:
    """The results of one case; both of a packed form."""
    wide = {"f64": np.uint64, "f32": np.uint32}.get(form.sources[0], np.uint32 if form.sources[0].endswith("x2") else np.uint16)
    twice = 0x10001 if form.sources[0].endswith("x2") else 1
    with np.errstate(all="ignore"):
        (got,) = with_numpy(form, [np.array([operand * twice], wide) for operand in operands])
    return elements(got, form)


@pytest.mark.parametrize("opcode", [opcode for opcode in APPROXIMATE if not opcode.startswith("div")])
def test_corners(opcode: str) -> None:
    form = APPROXIMATE[opcode]
    f = format_of(form)[1]
    for operand, wanted in corners(form):
        for result in apply(form, operand):
            if np.isnan(wanted):
                assert is_nan(result, f), f"{opcode}({operand:#x}) = {result:#x}"
            else:
                assert result == word_of(wanted, f), f"{opcode}({operand:#x}) = {result:#x}"


@pytest.mark.parametrize("opcode", ["rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"])
def test_canonical_nan(opcode: str) -> None:
    assert apply(APPROXIMATE[opcode], 0xFFF123456789ABCD) == [0x7FFFFFFF00000000]


QUOTIENTS = [
    # dividend, divisor, div.approx, div.full
    (1.0, 2.0**127, 0.0, 2.0**-127),
    (-1.0, 2.0**127, -0.0, -(2.0**-127)),
    (2.0**127, -1.5 * 2.0**126, -0.0, None),
    (INF, 2.0**127, NAN, INF),
    (-INF, -1.5 * 2.0**127, NAN, INF),
    (1.0, 0.0, INF, INF),
    (1.0, -0.0, -INF, -INF),
    (0.0, 0.0, NAN, NAN),
    (INF, INF, NAN, NAN),
    (-3.0, INF, -0.0, -0.0),
    (NAN, 1.0, NAN, NAN),
    (1.0, NAN, NAN, NAN),
    (0.0, -5.0, -0.0, -0.0),
]


@pytest.mark.parametrize("opcode", [opcode for opcode in APPROXIMATE if opcode.startswith("div")])
def test_quotients(opcode: str) -> None:
    form, f = APPROXIMATE[opcode], FORMATS["f32"]
    for a, b, *wanted in QUOTIENTS:
        want = wanted["full" in opcode]
        if want is None:
            continue
        if "ftz" in opcode and 0 < abs(want) < 2.0**-126:
            want = 0.0 * want
        (got,) = apply(form, word_of(a, f), word_of(b, f))
        assert is_nan(got, f) if np.isnan(want) else got == word_of(want, f), (a, b, hex(got))


@pytest.mark.parametrize("opcode", [opcode for opcode in APPROXIMATE if opcode.endswith("f64")])
def test_doubles_of_an_h200(opcode: str) -> None:
    """The silicon's own results are within the bounds, and those here are the same."""
    form = APPROXIMATE[opcode]
    operands, results = record()["in_f64_0"], {f.opcode: words for f, words in recorded()}[opcode]
    with localcontext(DIGITS):
        fits = [judge(form, [int(a)], int(b)) for a, b in zip(operands.view(np.uint64), results.view(np.uint64), strict=True)]
    assert False not in fits
    assert fits.count(True) > 200
    with np.errstate(all="ignore"):
        (got,) = with_numpy(form, [operands.view(np.uint64)])
    assert np.array_equal(got.view(np.uint64), results.view(np.uint64))


def test_every_bound_is_used() -> None:
    assert {bounds_of(opcode)[0] for opcode in APPROXIMATE} == {bounds[0] for bounds in BOUNDS.values()}
    assert len(APPROXIMATE) == 30
