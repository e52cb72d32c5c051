"""add, sub, mul, fma, mad, div, rcp, sqrt on f32, f32x2 and f64, exactly rounded."""

from __future__ import annotations

from functools import cache
from typing import Any

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar._rounding import (
    directed_div64,
    directed_fma64,
    directed_sqrt64,
    narrow_directed,
    sum_odd,
    zero_sign,
)
from ptxlab.isa.scalar.float_helpers import canonical, flush, operation, quiet, saturate, widen_half

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
