"""What the floating-point families share: NaN, subnormals, saturation, packed pairs, 16-bit formats, and rounding.

NaN results, as recorded on silicon: f32, f16 and bf16 arithmetic gives one canonical NaN; f64 arithmetic hands on the last
NaN operand, quieted.

Directed rounding and exact single rounding are made of operations that round to nearest. The idea throughout: round to nearest, find the
sign of what was lost, and step to the neighbour where the mode wants the other side. A result that is to be rounded again is first rounded
*to odd*: the last bit of an inexact value is set, so that no later rounding takes it for exact or for a tie.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ptxlab.isa._vocabulary import Value, Vocabulary

__all__ = [
    "NAN16",
    "NAN32",
    "NAN64",
    "canonical",
    "directed_div64",
    "directed_fma64",
    "directed_sqrt64",
    "flush",
    "flush_half",
    "half_kind",
    "join",
    "narrow_directed",
    "narrow_half",
    "narrow_odd",
    "narrow_saturated",
    "operation",
    "quiet",
    "saturate",
    "split",
    "step",
    "sum_odd",
    "widen_half",
    "zero_sign",
]

NAN16 = 0x7FFF
NAN32 = 0x7FFFFFFF
NAN64 = 0xFFF8000000000000


def operation(x: Vocabulary, name: str) -> Callable[..., Value]:
    """The operation of an instruction's name, rounded to nearest even."""
    functions: dict[str, Callable[..., Value]] = {"add": x.fadd, "sub": x.fsub, "mul": x.fmul, "fma": x.fma, "mad": x.fma}
    return functions[name]


def canonical(x: Vocabulary, a: Value) -> Value:
    """An f32 with every NaN replaced by the canonical one."""
    return x.select(x.isnan(a), x.bits(NAN32, "f32"), a)


def quiet(x: Vocabulary, result: Value, *operands: Value) -> Value:
    """An f64 result whose NaN is the last NaN among the operands, quieted; the default NaN if there is none."""
    settled: Value = x.call(_quiet, result, *operands)
    return settled


def _quiet(x: Vocabulary, result: Value, *operands: Value) -> Value:
    nan = x.bits(NAN64, "f64")
    for operand in operands:
        quieted = x.bitcast(x.or_(x.bitcast(operand, "i64"), x.const(1 << 51, "i64")), "f64")
        nan = x.select(x.isnan(operand), quieted, nan)
    return x.select(x.isnan(result), nan, result)


def flush(x: Vocabulary, on: bool | None, a: Value) -> Value:
    """``.ftz``: an f32 with subnormals replaced by zero of the same sign."""
    if not on:
        return a
    subnormal = x.flt(x.fabs(a), x.const(2.0**-126, "f32"))
    return x.fmul(a, x.select(subnormal, x.const(0.0, "f32"), x.const(1.0, "f32")))


def saturate(x: Vocabulary, on: bool | None, a: Value) -> Value:
    """``.sat``: clamp to [0, 1]; NaN and -0 give +0."""
    if not on:
        return a
    type = x.type(a)
    zero, one, integer = x.const(0.0, type), x.const(1.0, type), f"i{type[1:]}"
    clamped = x.select(x.flt(zero, a), x.select(x.flt(a, one), a, one), zero)
    # The two highest bits are 0, and defined.
    return x.bitcast(x.and_(x.bitcast(clamped, integer), x.const((1 << int(type[1:]) - 2) - 1, integer)), type)


# ------------------------------------------------------------------------------------------------ packed pairs


def split(x: Vocabulary, a: Value) -> tuple[Value, Value]:
    """The low and the high half of an integer."""
    bits = int(x.type(a)[1:]) // 2
    half = f"i{bits}"
    return x.trunc(a, half), x.trunc(x.lshr(a, x.const(bits, x.type(a))), half)


def join(x: Vocabulary, low: Value, high: Value) -> Value:
    """The integer of twice the width with these halves."""
    bits = int(x.type(low)[1:])
    wide = f"i{2 * bits}"
    return x.or_(x.zext(low, wide), x.shl(x.zext(high, wide), x.const(bits, wide)))


# ------------------------------------------------------------------------------------------------ f16 and bf16


def half_kind(type: str) -> str:
    """f16 or bf16, for a type that may be packed (``bf16x2``)."""
    return type.removesuffix("x2")


def widen_half(x: Vocabulary, kind: str, a: Value) -> Value:
    """f16 or bf16 (in i16) to f32; NaN stays some NaN."""
    if kind == "f16":
        return x.half_to_f32(a)
    return x.bitcast(x.shl(x.zext(a, "i32"), x.const(16, "i32")), "f32")


def narrow_half(x: Vocabulary, kind: str, a: Value) -> Value:
    """f32 to f16 or bf16, to nearest even, canonical NaN."""
    if kind == "f16":
        rounded = x.f32_to_half(a)
    else:
        word = x.bitcast(a, "i32")
        even = x.and_(x.lshr(word, x.const(16, "i32")), x.const(1, "i32"))
        sum = x.signed_as(x.add(word, x.add(even, x.const(0x7FFF, "i32"))), word)
        rounded = x.trunc(x.lshr(sum, x.const(16, "i32")), "i16")
    return x.select(x.isnan(a), x.const(NAN16, "i16"), rounded)


def narrow_saturated(x: Vocabulary, on: bool | None, kind: str, a: Value) -> Value:
    """The same; with ``.sat`` clamped to [0, 1], whose numbers have two highest bits of 0."""
    result = narrow_half(x, kind, saturate(x, on, a))
    return x.and_(result, x.const(0x3FFF, "i16")) if on else result


def flush_half(x: Vocabulary, on: bool | None, a: Value) -> Value:
    """``.ftz`` for f16: subnormals become zero of the same sign."""
    if not on:
        return a
    normal = x.ne(x.and_(a, x.const(0x7C00, "i16")), x.const(0, "i16"))
    return x.select(normal, a, x.and_(a, x.const(0x8000, "i16")))


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
    moved = x.signed_as(x.select(grows, x.add(word, one), x.sub(word, one)), word)
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
