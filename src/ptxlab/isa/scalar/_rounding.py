"""Directed rounding and exact single rounding, made of operations that round to nearest.

The idea throughout: round to nearest, find the sign of what was lost, and step to the neighbour where the mode wants the other side. A
result that is to be rounded again is first rounded *to odd*: the last bit of an inexact value is set, so that no later rounding takes it
for exact or for a tie.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ptxlab.isa._vocabulary import Value, Vocabulary

__all__ = ["directed_div64", "directed_fma64", "directed_sqrt64", "narrow_directed", "narrow_odd", "step", "sum_odd", "zero_sign"]


def step(x: Vocabulary, mode: str, value: Value, lost: Value) -> Value:
    """``value``, rounded to nearest, corrected for a mode rz, rm or rp; ``lost`` has the sign of (exact - value), 0 if exact."""
    type = x.type(value)
    integer, zero = f"i{type[1:]}", x.const(0.0, type)
    word = x.bitcast(value, integer)
    negative = x.slt(word, x.const(0, integer))
    one = x.const(1, integer)
    outward, inward = x.add(word, one), x.sub(word, one)
    if mode == "rz":  # the value went beyond: what was lost points back to zero
        beyond = x.select(negative, x.flt(zero, lost), x.flt(lost, zero))
        return x.bitcast(x.select(beyond, inward, word), type)
    moves = x.flt(lost, zero) if mode == "rm" else x.flt(zero, lost)
    grows = negative if mode == "rm" else x.not_(negative)
    return x.bitcast(x.select(moves, x.select(grows, outward, inward), word), type)


def narrow_directed(x: Vocabulary, mode: str, a: Value) -> Value:
    """f64 to f32 in any mode."""
    nearest = x.fnarrow(a)
    if mode == "rn":
        return nearest
    wide = x.fext(nearest)
    up, down = x.flt(wide, a), x.flt(a, wide)
    lost = x.select(up, x.const(1.0, "f32"), x.select(down, x.const(-1.0, "f32"), x.const(0.0, "f32")))
    return step(x, mode, nearest, lost)


def two_sum(x: Vocabulary, a: Value, b: Value) -> tuple[Value, Value]:
    """The rounded sum and its exact error (a theorem of Knuth)."""
    s = x.fadd(a, b)
    t = x.fsub(s, a)
    return s, x.fadd(x.fsub(a, x.fsub(s, t)), x.fsub(b, t))


def _odd(x: Vocabulary, value: Value, up: Value, down: Value) -> Value:
    """A rounded value made odd where the exact one lies above or below it."""
    type = x.type(value)
    integer = f"i{type[1:]}"
    word = x.bitcast(value, integer)
    one, zero = x.const(1, integer), x.const(0, integer)
    grows = x.select(x.slt(word, zero), down, up)
    moved = x.select(grows, x.add(word, one), x.sub(word, one))
    even = x.eq(x.and_(word, one), zero)
    return x.bitcast(x.select(x.and_(even, x.or_(up, down)), moved, word), type)


def sum_odd(x: Vocabulary, a: Value, b: Value) -> Value:
    """The f64 sum rounded to odd."""
    s, error = two_sum(x, a, b)
    zero = x.const(0.0, "f64")
    return _odd(x, s, x.flt(zero, error), x.flt(error, zero))


def narrow_odd(x: Vocabulary, a: Value) -> Value:
    """f64 to f32, rounded to odd."""
    nearest = x.fnarrow(a)
    wide = x.fext(nearest)
    return _odd(x, nearest, x.flt(wide, a), x.flt(a, wide))


def zero_sign(x: Vocabulary, mode: str, result: Value, a: Value, b: Value) -> Value:
    """Under ``.rm`` the exact sum zero of a and b is -0 unless both are +0."""
    if mode != "rm":
        return result
    type = x.type(result)
    integer = f"i{type[1:]}"
    signs = x.or_(x.bitcast(a, integer), x.bitcast(b, integer))
    sign = x.and_(signs, x.const(1 << int(type[1:]) - 1, integer))
    return x.select(x.feq(result, x.const(0.0, type)), x.bitcast(sign, type), result)


# ------------------------------------------------------------------------------------------------ f64


def _normalise(x: Vocabulary, a: Value) -> tuple[Value, Value]:
    """Mantissa in [1, 2) with the sign, and exponent (i64), of a finite non-zero f64."""
    subnormal = x.flt(x.fabs(a), x.const(2.0**-1022, "f64"))
    scaled = x.select(subnormal, x.fmul(a, x.const(2.0**64, "f64")), a)
    word = x.bitcast(scaled, "i64")
    field = x.and_(x.lshr(word, x.const(52, "i64")), x.const(0x7FF, "i64"))
    exponent = x.sub(field, x.select(subnormal, x.const(1023 + 64, "i64"), x.const(1023, "i64")))
    mantissa = x.or_(x.and_(word, x.const(0x800FFFFFFFFFFFFF, "i64")), x.const(1023 << 52, "i64"))
    return x.bitcast(mantissa, "f64"), exponent


def _power(x: Vocabulary, exponent: Value) -> Value:
    """2**exponent for -1022 <= exponent <= 1023."""
    return x.bitcast(x.shl(x.add(exponent, x.const(1023, "i64")), x.const(52, "i64")), "f64")


def _clamp(x: Vocabulary, a: Value, low: int, high: int) -> Value:
    least, most = x.const(low, "i64"), x.const(high, "i64")
    return x.select(x.slt(a, least), least, x.select(x.slt(most, a), most, a))


def _scale(x: Vocabulary, mode: str, a: Value, exponent: Value) -> Value:
    """The product a * 2**exponent with one directed rounding, for 2**-200 < abs(a) < 2**115 or a zero."""
    first = _clamp(x, exponent, -800, 900)
    second = _clamp(x, x.sub(exponent, first), -1000, 1000)
    middle = x.fmul(a, _power(x, first))
    result = x.fmul(middle, _power(x, second))
    back = x.fmul(result, _power(x, x.neg(second)))
    return step(x, mode, result, x.fsub(middle, back))


def _not_finite(x: Vocabulary, a: Value) -> Value:
    return x.not_(x.flt(x.fabs(a), x.bits(0x7FF0000000000000, "f64")))


def _special(x: Vocabulary, *values: Value) -> Value:
    """Whether any of the values is zero, infinite or NaN."""
    found = x.const(0, "i1")
    for value in values:
        found = x.or_(found, x.or_(x.feq(value, x.const(0.0, "f64")), _not_finite(x, value)))
    return found


@cache
def directed_fma64(mode: str) -> Any:
    """For a * b + c in f64 with a directed rounding; NaN as the hardware of the host gives it."""

    def fma64(x: Vocabulary, a: Value, b: Value, c: Value) -> Value:
        product, zero = x.fmul(a, b), x.const(0.0, "f64")
        ma, ea = _normalise(x, a)
        mb, eb = _normalise(x, b)
        mc, ec = _normalise(x, c)
        base = x.add(ea, eb)
        apart = x.sub(ec, base)
        # Operands far apart: the smaller one only says on which side of the larger one the result lies.
        near = _clamp(x, apart, -170, 110)
        base = x.select(x.slt(x.const(110, "i64"), apart), x.sub(ec, x.const(110, "i64")), base)
        mc = x.select(x.feq(c, zero), zero, x.fmul(mc, _power(x, near)))
        high = x.fmul(ma, mb)
        low = x.fma(ma, mb, x.fneg(high))
        t, tl = two_sum(x, mc, low)
        v, vl = two_sum(x, high, t)
        rest = sum_odd(x, tl, vl)
        s, lost = two_sum(x, v, rest)
        s = zero_sign(x, mode, step(x, mode, s, lost), high, c)
        result = _scale(x, mode, s, base)
        special = _special(x, a, b)
        plain = x.select(special, zero_sign(x, mode, x.fadd(product, c), product, c), c)
        return x.select(x.or_(special, _not_finite(x, c)), plain, result)

    return fma64


@cache
def directed_div64(mode: str) -> Any:
    """For a / b in f64 with a directed rounding."""

    def div64(x: Vocabulary, a: Value, b: Value) -> Value:
        ma, ea = _normalise(x, a)
        mb, eb = _normalise(x, b)
        quotient = x.fdiv(ma, mb)
        rest = x.fma(x.fneg(quotient), mb, ma)
        negative = x.flt(mb, x.const(0.0, "f64"))
        quotient = step(x, mode, quotient, x.select(negative, x.fneg(rest), rest))
        return x.select(_special(x, a, b), x.fdiv(a, b), _scale(x, mode, quotient, x.sub(ea, eb)))

    return div64


@cache
def directed_sqrt64(mode: str) -> Any:
    """For sqrt(a) in f64 with a directed rounding."""

    def sqrt64(x: Vocabulary, a: Value) -> Value:
        mantissa, exponent = _normalise(x, a)
        odd = x.and_(exponent, x.const(1, "i64"))
        mantissa = x.fmul(mantissa, _power(x, odd))
        root = x.fsqrt(mantissa)
        root = step(x, mode, root, x.fma(x.fneg(root), root, mantissa))
        root = x.fmul(root, _power(x, x.ashr(x.sub(exponent, odd), x.const(1, "i64"))))
        return x.select(_special(x, a), x.fsqrt(a), root)

    return sqrt64
