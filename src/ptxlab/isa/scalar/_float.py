"""Arithmetic on f32, f32x2 and f64, exactly rounded: add, sub, mul, fma, mad, div, rcp, sqrt; and abs, neg, copysign, testp, min, max."""

from __future__ import annotations

from functools import cache
from typing import Any

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar.float_helpers import (
    NAN32,
    canonical,
    directed_div64,
    directed_fma64,
    directed_sqrt64,
    flush,
    narrow_directed,
    operation,
    quiet,
    saturate,
    sum_odd,
    widen_half,
    zero_sign,
)

_RND = "{.rnd=rn|rz|rm|rp}"
_MUST_ROUND = ".(rnd=rn|rz|rm|rp)"
_ARITHMETIC = "Floating Point Instructions: add, sub, mul, fma"
_MIXED = "Mixed Precision Floating Point Instructions: add, sub, fma"
_BLACKWELL = needs("8.6", "sm_100")

# ------------------------------------------------------------------------------------------------ f32


@cache
def _directed32(op: str, mode: str) -> Any:
    def round32(x: Vocabulary, a: Value, b: Value, *c: Value) -> Value:
        wide_a, wide_b = x.fext(a), x.fext(x.fneg(b) if op == "sub" else b)
        if op == "mul":
            return narrow_directed(x, mode, x.fmul(wide_a, wide_b))
        terms = (x.fmul(wide_a, wide_b), x.fext(c[0])) if c else (wide_a, wide_b)
        return narrow_directed(x, mode, zero_sign(x, mode, sum_odd(x, *terms), *terms))

    round32.__name__ = f"{op}_{mode}_f32"
    return round32


@pure("add|sub|mul" + _RND + "{.ftz}{.sat}.f32", d="f32", a="f32", b="f32", section=_ARITHMETIC, fidelity="hardware")
@pure("fma|mad" + _MUST_ROUND + "{.ftz}{.sat}.f32", d="f32", a="f32", b="f32", c="f32", section=_ARITHMETIC, fidelity="hardware")
def arithmetic_f32(x: Vocabulary, q: Qualifiers, *values: Value) -> Value:
    values = tuple(flush(x, q.get("ftz"), value) for value in values)
    if q.rnd in (None, "rn"):
        result = operation(x, q.base)(*values)
    else:
        result = x.call(_directed32(q.base, q.rnd), *values)
    result = flush(x, q.get("ftz"), result)
    return saturate(x, True, result) if q.get("sat") else canonical(x, result)


@pure("add|sub" + _RND + "{.sat}.f32.(type=f16|bf16)", d="f32", a="type", c="f32", requires=_BLACKWELL, section=_MIXED)
@pure("fma" + _MUST_ROUND + "{.sat}.f32.(type=f16|bf16)", d="f32", a="type", b="type", c="f32", requires=_BLACKWELL, section=_MIXED)
def arithmetic_mixed(x: Vocabulary, q: Qualifiers, *values: Value) -> Value:
    *narrow, last = values
    return arithmetic_f32(x, q, *(widen_half(x, q.type, value) for value in narrow), last)


@pure("add|sub|mul" + _RND + "{.ftz}.f32x2", d="f32x2", a="f32x2", b="f32x2", requires=_BLACKWELL, section=_ARITHMETIC)
@pure("fma" + _MUST_ROUND + "{.ftz}.f32x2", d="f32x2", a="f32x2", b="f32x2", c="f32x2", requires=_BLACKWELL, section=_ARITHMETIC)
def arithmetic_f32x2(x: Vocabulary, q: Qualifiers, *packed: Value) -> Value:
    return x.each(lambda x, *elements: arithmetic_f32(x, q, *elements), "f32", *packed)


# ------------------------------------------------------------------------------------------------ f64


def _as_fma(x: Vocabulary, op: str, a: Value, b: Value, *c: Value) -> tuple[Value, ...]:
    """The operands of the multiply-add that an operation is."""
    match op:
        case "add":
            return a, x.const(1.0, "f64"), b
        case "sub":
            return a, x.const(1.0, "f64"), x.fneg(b)
        case "mul":  # the zero added has the sign of the product, and so changes nothing
            sign = x.and_(x.xor(x.bitcast(a, "i64"), x.bitcast(b, "i64")), x.const(1 << 63, "i64"))
            return a, b, x.bitcast(sign, "f64")
    return a, b, *c


@pure("add|sub|mul" + _RND + ".f64", d="f64", a="f64", b="f64", section=_ARITHMETIC, fidelity="hardware")
@pure("fma|mad" + _MUST_ROUND + ".f64", d="f64", a="f64", b="f64", c="f64", section=_ARITHMETIC, fidelity="hardware")
def arithmetic_f64(x: Vocabulary, q: Qualifiers, *values: Value) -> Value:
    if q.rnd in (None, "rn"):
        return quiet(x, operation(x, q.base)(*values), *values)
    return quiet(x, x.call(directed_fma64(q.rnd), *_as_fma(x, q.base, *values)), *values)


# ------------------------------------------------------------------------------------------------ div, rcp, sqrt

_DIVISION = "Floating Point Instructions: div, rcp, sqrt"


@cache
def _directed_div32(mode: str, ftz: bool) -> Any:
    def div32(x: Vocabulary, a: Value, b: Value) -> Value:
        quotient = x.fdiv(x.fext(a), x.fext(b))
        result = narrow_directed(x, mode, quotient)
        if not ftz:
            return result
        # Silicon flushes what is subnormal before it is rounded.
        tiny = x.flt(x.fabs(quotient), x.const(2.0**-126, "f64"))
        sign = x.and_(x.bitcast(result, "i32"), x.const(1 << 31, "i32"))
        return x.select(tiny, x.bitcast(sign, "f32"), result)

    return div32


@cache
def _directed_sqrt32(mode: str) -> Any:
    def sqrt32(x: Vocabulary, a: Value) -> Value:
        return narrow_directed(x, mode, x.fsqrt(x.fext(a)))

    return sqrt32


@pure("div" + _MUST_ROUND + "{.ftz}.f32", d="f32", a="f32", b="f32", section=_DIVISION, fidelity="hardware")
@pure("rcp" + _MUST_ROUND + "{.ftz}.f32", d="f32", a="f32", section=_DIVISION, fidelity="hardware")
def div_f32(x: Vocabulary, q: Qualifiers, *operands: Value) -> Value:
    a, b = (flush(x, q.ftz, value) for value in (x.const(1.0, "f32"), *operands)[-2:])
    result = x.fdiv(a, b) if q.rnd == "rn" else x.call(_directed_div32(q.rnd, q.ftz), a, b)
    return canonical(x, flush(x, q.ftz, result))


@pure("sqrt" + _MUST_ROUND + "{.ftz}.f32", d="f32", a="f32", section=_DIVISION, fidelity="hardware")
def sqrt_f32(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    a = flush(x, q.ftz, a)
    return canonical(x, x.fsqrt(a) if q.rnd == "rn" else x.call(_directed_sqrt32(q.rnd), a))


@pure("div" + _MUST_ROUND + ".f64", d="f64", a="f64", b="f64", section=_DIVISION, fidelity="hardware")
@pure("rcp" + _MUST_ROUND + ".f64", d="f64", a="f64", section=_DIVISION, fidelity="hardware")
def div_f64(x: Vocabulary, q: Qualifiers, *operands: Value) -> Value:
    a, b = (x.const(1.0, "f64"), *operands)[-2:]
    result = x.fdiv(a, b) if q.rnd == "rn" else x.call(directed_div64(q.rnd), a, b)
    return quiet(x, result, b, a)


@pure("sqrt" + _MUST_ROUND + ".f64", d="f64", a="f64", section=_DIVISION, fidelity="hardware")
def sqrt_f64(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    result = x.fsqrt(a) if q.rnd == "rn" else x.call(directed_sqrt64(q.rnd), a)
    return quiet(x, result, a)


_SIGNS = "Floating Point Instructions: abs, neg, copysign"


@pure("abs|neg{.ftz}.f32", d="f32", a="f32", section=_SIGNS, fidelity="hardware")
def change_sign_f32(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    a = flush(x, q.ftz, a)
    return canonical(x, x.fabs(a) if q.base == "abs" else x.fneg(a))


@pure("abs|neg.f64", d="f64", a="f64", section=_SIGNS, fidelity="hardware")
def change_sign_f64(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return quiet(x, x.fabs(a) if q.base == "abs" else x.fneg(a), a)


@pure("copysign.(type=f32|f64)", d="type", a="type", b="type", section=_SIGNS, fidelity="hardware")
def copysign(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    """The magnitude of b with the sign of a."""
    width = int(q.type[1:])
    integer = f"i{width}"
    sign = x.and_(x.bitcast(a, integer), x.const(1 << (width - 1), integer))
    size = x.and_(x.bitcast(b, integer), x.const((1 << (width - 1)) - 1, integer))
    return x.bitcast(x.or_(sign, size), q.type)


@pure(
    "testp.(op=finite|infinite|number|notanumber|normal|subnormal).(type=f32|f64)",
    p="pred",
    a="type",
    outputs=1,
    section="Floating Point Instructions: testp",
    fidelity="hardware",
)
def testp(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    integer, infinity, least = ("i32", 0x7F800000, 0x00800000) if q.type == "f32" else ("i64", 0x7FF0000000000000, 0x0010000000000000)
    size = x.bitcast(x.fabs(a), integer)
    top, zero = x.const(infinity, integer), x.const(0, integer)
    if q.op == "normal":  # zero is normal
        return x.and_(x.ult(size, top), x.or_(x.ule(x.const(least, integer), size), x.eq(size, zero)))
    if q.op == "subnormal":
        return x.and_(x.ult(size, x.const(least, integer)), x.ne(size, zero))
    tests = {
        "finite": lambda: x.ult(size, top),
        "infinite": lambda: x.eq(size, top),
        "number": lambda: x.ule(size, top),
        "notanumber": lambda: x.ult(top, size),
    }
    return tests[q.op]()


# ------------------------------------------------------------------------------------------------ min, max


def _extreme(x: Vocabulary, largest: bool, a: Value, b: Value) -> Value:
    """The smaller or larger of two floats; -0 is below +0; a NaN yields to a number."""
    type = x.type(a)
    integer = f"i{type[1:]}"
    left, right = x.bitcast(a, integer), x.bitcast(b, integer)
    # Equal numbers have equal bits, but for zeros: and gives +0 if either is, or gives -0.
    both = x.bitcast(x.and_(left, right) if largest else x.or_(left, right), type)
    chosen = x.select(x.or_(x.flt(b, a) if largest else x.flt(a, b), x.isnan(b)), a, b)
    return x.select(x.feq(a, b), both, chosen)


_EXTREMES = "Floating Point Instructions: min, max"


@pure(
    "min|max{.ftz}{.NaN}.f32",
    "min|max{.ftz}{.NaN}.xorsign.abs.f32",
    d="f32",
    a="f32",
    b="f32",
    requires=(needs("7.0", "sm_80", when={"NaN": "NaN"}), needs("7.2", "sm_86", when={"xorsign": "xorsign"})),
    section=_EXTREMES,
    fidelity="hardware",
)
@pure("min|max{.ftz}{.NaN}{.abs}.f32", d="f32", a="f32", b="f32", c="f32", requires=needs("8.8", "sm_100"), section=_EXTREMES)
def extreme_f32(x: Vocabulary, q: Qualifiers, *values: Value) -> Value:
    values = tuple(flush(x, q.ftz, v) for v in values)
    result, *others = (x.fabs(v) for v in values) if q.get("abs") else values
    for other in others:
        result = _extreme(x, q.base == "max", result, other)
    spoiled = x.isnan(result)
    if q.NaN:
        for value in values:
            spoiled = x.or_(spoiled, x.isnan(value))
    if q.get("xorsign"):
        signs = x.xor(x.bitcast(values[0], "i32"), x.bitcast(values[1], "i32"))
        result = x.bitcast(x.or_(x.bitcast(result, "i32"), x.and_(signs, x.const(1 << 31, "i32"))), "f32")
    return x.select(spoiled, x.bits(NAN32, "f32"), result)


@pure("min|max.f64", d="f64", a="f64", b="f64", section=_EXTREMES, fidelity="hardware")
def extreme_f64(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return quiet(x, _extreme(x, q.base == "max", a, b), a, b)
