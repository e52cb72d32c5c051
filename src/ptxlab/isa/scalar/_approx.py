"""The approximate instructions: ex2, lg2, sin, cos, tanh, rcp, sqrt, rsqrt, div.

The ISA gives error bounds, not bits. Here the exact value is computed in f64 and rounded once, so results lie within the bounds but
differ from silicon in the last bits. Special values follow the tables of the ISA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar._half import each_half
from ptxlab.isa.scalar.float_helpers import NAN32, canonical, flush, half_kind, narrow_half, quiet, widen_half

_SECTION = "Floating Point Instructions: {base}"
_HALF_SECTION = "Half Precision Floating Point Instructions: {base}"
_LN2 = 0.6931471805599453


def _horner(x: Vocabulary, a: Value, coefficients: Sequence[float]) -> Value:
    """A polynomial by rising powers."""
    result = x.const(coefficients[-1], "f64")
    for coefficient in reversed(coefficients[:-1]):
        result = x.fma(result, a, x.const(coefficient, "f64"))
    return result


_EXP2 = (
    0.9999999999595622,
    0.6931471805568341,
    0.24022651213495422,
    0.055504109063177154,
    0.009618025613598036,
    0.0013333478480888061,
    0.00015469729140704658,
    1.5303699001378845e-05,
)
"""2**f for abs(f) <= 1/2, with a relative error below 2**-34 (interpolation at Chebyshev points)."""

_INTEGRAL = 1.5 * 2.0**52
"""Added to a small f64 it leaves the nearest integer in the low bits."""


def _exp2(x: Vocabulary, a: Value) -> Value:
    """2**a in f64 for -1000 < a < 1000."""
    shifted = x.fadd(a, x.const(_INTEGRAL, "f64"))
    whole = x.fsub(shifted, x.const(_INTEGRAL, "f64"))
    power = x.add(x.shl(x.bitcast(shifted, "i64"), x.const(52, "i64")), x.const(1023 << 52, "i64"))
    return x.fmul(_horner(x, x.fsub(a, whole), _EXP2), x.bitcast(power, "f64"))


def _clamped(x: Vocabulary, a: Value, bound: float) -> Value:
    """A float inside [-bound, bound]; NaN gives one of the ends."""
    type = x.type(a)
    low, high = x.const(-bound, type), x.const(bound, type)
    a = x.select(x.flt(low, a), a, low)
    return x.select(x.flt(a, high), a, high)


@cache
def _ex2(ftz: bool) -> Any:
    def ex2_f32(x: Vocabulary, a: Value) -> Value:
        a = flush(x, ftz, a)
        result = flush(x, ftz, x.fnarrow(_exp2(x, x.fext(_clamped(x, a, 200.0)))))
        return x.select(x.isnan(a), x.bits(NAN32, "f32"), result)

    return ex2_f32


# ------------------------------------------------------------------------------------------------ lg2

_ATANH = [2.0 / _LN2 / (2 * i + 1) for i in range(9)]


def _log2(x: Vocabulary, a: Value) -> Value:
    """log2 of a positive f32 in f32."""
    wide = x.bitcast(x.fext(a), "i64")
    # Halve the range at sqrt(1/2): the mantissa then lies in [0.707, 1.414].
    shifted = x.sub(wide, x.const(0x3FE6A09E667F3BCD, "i64"))
    exponent = x.ashr(shifted, x.const(52, "i64"))
    mantissa = x.bitcast(x.sub(wide, x.shl(exponent, x.const(52, "i64"))), "f64")
    one = x.const(1.0, "f64")
    ratio = x.fdiv(x.fsub(mantissa, one), x.fadd(mantissa, one))
    series = x.fmul(ratio, _horner(x, x.fmul(ratio, ratio), _ATANH))
    return x.fnarrow(x.fadd(x.sitof(exponent, "f64"), series))


@cache
def _lg2(ftz: bool) -> Any:
    def lg2_f32(x: Vocabulary, a: Value) -> Value:
        a = flush(x, ftz, a)
        zero, infinity = x.const(0.0, "f32"), x.bits(0x7F800000, "f32")
        result = x.select(x.feq(a, infinity), infinity, _log2(x, a))
        result = x.select(x.feq(a, zero), x.bits(0xFF800000, "f32"), result)
        return x.select(x.fle(zero, a), result, x.bits(NAN32, "f32"))

    return lg2_f32


# ------------------------------------------------------------------------------------------------ sin, cos

_SIN = [1.0, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800, 1 / 6227020800]
_COS = [1.0, -1 / 2, 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800, 1 / 479001600]


def _sine(x: Vocabulary, a: Value, quarter: int) -> Value:
    """sin(a + quarter * pi / 2) for an f32."""
    wide = _clamped(x, x.fext(a), 2.0**50)
    turns = x.fround(x.fmul(wide, x.const(0.6366197723675814, "f64")), "rni")
    rest = x.fma(turns, x.const(-1.5707963267948966, "f64"), wide)
    rest = x.fma(turns, x.const(-6.123233995736766e-17, "f64"), rest)
    square = x.fmul(rest, rest)
    quadrant = x.add(x.ftosi(turns, "i64"), x.const(quarter, "i64"))
    odd = x.ne(x.and_(quadrant, x.const(1, "i64")), x.const(0, "i64"))
    result = x.select(odd, _horner(x, square, _COS), x.fmul(rest, _horner(x, square, _SIN)))
    sign = x.shl(x.and_(quadrant, x.const(2, "i64")), x.const(62, "i64"))
    return x.fnarrow(x.bitcast(x.xor(x.bitcast(result, "i64"), sign), "f64"))


@cache
def _periodic(quarter: int, ftz: bool) -> Any:
    def sine_f32(x: Vocabulary, a: Value) -> Value:
        a = flush(x, ftz, a)
        finite = x.flt(x.fabs(a), x.bits(0x7F800000, "f32"))
        result = flush(x, ftz, _sine(x, a, quarter))
        if not quarter:
            result = x.select(x.feq(a, x.const(0.0, "f32")), a, result)
        return x.select(finite, result, x.bits(NAN32, "f32"))

    return sine_f32


_FUNCTIONS: dict[str, Callable[[bool], Any]] = {"ex2": _ex2, "lg2": _lg2, "sin": partial(_periodic, 0), "cos": partial(_periodic, 1)}


@pure("ex2|lg2|sin|cos.approx{.ftz}.f32", d="f32", a="f32", section=_SECTION)
def approx(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """2 to the power of a, the logarithm to base 2, sine or cosine.

    The ISA bounds the distance from the correctly rounded result by 2 ulp for ex2; the error of lg2 by 2**-22, absolute near 1 and relative
    elsewhere; and the absolute error of sin and cos by 2**-20.5 and 2**-20.4 in [-2 pi, 2 pi].
    """
    return x.call(_FUNCTIONS[q.base](q.ftz), a)


# ------------------------------------------------------------------------------------------------ tanh


def _tanh(x: Vocabulary, a: Value) -> Value:
    wide = _clamped(x, x.fext(a), 20.0)
    one = x.const(1.0, "f64")
    power = _exp2(x, x.fmul(wide, x.const(2.0 / _LN2, "f64")))
    result = x.fnarrow(x.fdiv(x.fsub(power, one), x.fadd(power, one)))
    result = x.select(x.flt(x.fabs(a), x.const(2.0**-13, "f32")), a, result)
    return x.select(x.isnan(a), x.bits(NAN32, "f32"), result)


@pure("tanh.approx.f32", d="f32", a="f32", section=_SECTION)
def tanh(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """Hyperbolic tangent; the ISA bounds the relative error by 2**-11."""
    return x.call(_tanh, a)


_BF16 = needs("7.8", "sm_90", when={"type": "bf16|bf16x2"})


@pure("ex2.approx.(type=f16|f16x2)", "ex2.approx.ftz.(type=bf16|bf16x2)", d="type", a="type", requires=_BF16, section=_HALF_SECTION)
@pure("tanh.approx.(type=f16|f16x2|bf16|bf16x2)", d="type", a="type", requires=_BF16, section=_HALF_SECTION)
def approx_half(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """ex2: relative error within 2**-9.9 (f16) or 2**-7 (bf16). tanh: absolute error within 2**-10.987 (f16) or 2**-8 (bf16)."""
    kind = half_kind(q.type)
    function = _tanh if q.base == "tanh" else _ex2(kind == "bf16")
    return each_half(x, q.type, lambda x, m: narrow_half(x, kind, x.call(function, widen_half(x, kind, m))), a)


# ------------------------------------------------------------------------------------------------ roots and quotients


def _reciprocal_root(x: Vocabulary, a: Value) -> Value:
    return x.fnarrow(x.fdiv(x.const(1.0, "f64"), x.fsqrt(x.fext(a))))


@pure("sqrt|rsqrt.approx{.ftz}.f32", d="f32", a="f32", section=_SECTION)
def sqrt_approx(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """The square root or its reciprocal; the ISA bounds the relative error by 2**-23 and 2**-22.9."""
    a = flush(x, q.ftz, a)
    return canonical(x, x.fsqrt(a) if q.base == "sqrt" else x.call(_reciprocal_root, a))


@pure("rcp.approx{.ftz}.f32", d="f32", a="f32", section=_SECTION)
@pure("div.full{.ftz}.f32", d="f32", a="f32", b="f32", section=_SECTION)
def div_full(x: Vocabulary, q: Qualifiers, *operands: Value) -> Value:
    """1/a or a/b; the ISA bounds the error by 1 and 2 ulp."""
    a, b = (x.const(1.0, "f32"), *operands)[-2:]
    return canonical(x, flush(x, q.ftz, x.fdiv(flush(x, q.ftz, a), flush(x, q.ftz, b))))


@pure("div.approx{.ftz}.f32", d="f32", a="f32", b="f32", section=_SECTION)
def div_approx(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    """a/b; 2 ulp for 2**-126 <= abs(b) <= 2**126; for larger b the quotient is zero, or NaN for an infinite a."""
    a, b = flush(x, q.ftz, a), flush(x, q.ftz, b)
    quotient = x.fdiv(a, b)
    large = x.and_(x.flt(x.const(2.0**126, "f32"), x.fabs(b)), x.flt(x.fabs(b), x.bits(0x7F800000, "f32")))
    quotient = x.select(large, x.fmul(quotient, x.const(0.0, "f32")), quotient)
    return canonical(x, flush(x, q.ftz, quotient))


def _high_word(x: Vocabulary, a: Value) -> Value:
    return x.bitcast(x.and_(x.bitcast(a, "i64"), x.const(-1 << 32, "i64")), "f64")


def _flush64(x: Vocabulary, a: Value) -> Value:
    subnormal = x.flt(x.fabs(a), x.const(2.0**-1022, "f64"))
    zero = x.bitcast(x.and_(x.bitcast(a, "i64"), x.const(1 << 63, "i64")), "f64")
    return x.select(subnormal, zero, a)


_NAN64 = 0x7FFFFFFF00000000
"""The NaN of an H200 of rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64."""


@pure("rcp|rsqrt.approx.ftz.f64", d="f64", a="f64", section=_SECTION + ".approx.ftz.f64")
def rcp_approx_f64(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """1/a or 1/sqrt(a) from the high word of a; the low word of the result is zero."""
    number = _flush64(x, _high_word(x, a))
    result = x.fdiv(x.const(1.0, "f64"), number if q.base == "rcp" else x.fsqrt(number))
    return x.select(x.isnan(result), x.bits(_NAN64, "f64"), _high_word(x, _flush64(x, result)))


def _root_of_reciprocal(x: Vocabulary, a: Value) -> Value:
    """1/sqrt(a) with one step of refinement, which leaves an error far below half an ulp before the last rounding."""
    one = x.const(1.0, "f64")
    small, large = x.flt(a, x.const(2.0**-900, "f64")), x.flt(x.const(2.0**900, "f64"), a)

    def power(exponent: int) -> Value:
        return x.select(small, x.const(2.0**exponent, "f64"), x.select(large, x.const(2.0**-exponent, "f64"), one))

    scaled = x.fmul(a, power(128))
    root = x.fdiv(one, x.fsqrt(scaled))
    square = x.fmul(root, root)
    rest = x.fma(root, root, x.fneg(square))
    negated = x.fneg(scaled)
    error = x.fma(negated, rest, x.fma(negated, square, one))
    refined = x.fmul(x.fma(x.fmul(root, x.const(0.5, "f64")), error, root), power(64))
    ordinary = x.and_(x.flt(x.const(0.0, "f64"), a), x.flt(a, x.bits(0x7FF0000000000000, "f64")))
    return x.select(ordinary, refined, root)


@pure("rsqrt.approx.f64", d="f64", a="f64", section=_SECTION)
def rsqrt_f64(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """1/sqrt(a), correctly rounded, as the assembler's code for it is on an H200."""
    return quiet(x, x.call(_root_of_reciprocal, a), a)
