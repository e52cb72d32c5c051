"""Bodies of functions of the vocabulary that stand once in a module, out of line: high products, divisions, and conversions of halves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxlab.native.builder import Value

if TYPE_CHECKING:
    from ptxlab.engine.llvm.vocabulary import LlvmVocabulary

__all__ = ["bits_of", "f32_to_half", "half_to_f32", "sdiv", "smulhi", "srem", "udiv", "umulhi", "urem"]


def bits_of(name: str) -> int:
    """The bits of an integer type."""
    return int(name[1:])


def umulhi(x: LlvmVocabulary, a: Value, b: Value) -> Value:
    """The high half of an unsigned product."""
    type = x.type(a)
    bits = bits_of(type)
    wide = f"i{2 * bits}"
    return x.trunc(x.lshr(x.mul(x.zext(a, wide), x.zext(b, wide)), x.const(bits, wide)), type)


def smulhi(x: LlvmVocabulary, a: Value, b: Value) -> Value:
    """The high half of a signed product."""
    type = x.type(a)
    bits = bits_of(type)
    wide = f"i{2 * bits}"
    return x.trunc(x.lshr(x.mul(x.sext(a, wide), x.sext(b, wide)), x.const(bits, wide)), type)


def udiv(x: LlvmVocabulary, a: Value, b: Value) -> Value:
    """An unsigned quotient; all ones where the divisor is zero."""
    type = x.type(a)
    zero = x.eq(b, x.const(0, type))
    safe = x.select(zero, x.const(1, type), b)
    if type == "i64":
        quotient = a.operation("udiv", safe)
    else:  # a float64 quotient of integers below 2**32 never rounds up to the next integer
        quotient = x.fdiv(x.uitof(a, "f64"), x.uitof(safe, "f64")).convert("fptoui", x.vectors[type])
    return x.select(zero, x.const(-1, type), quotient)


def urem(x: LlvmVocabulary, a: Value, b: Value) -> Value:
    """An unsigned remainder; the dividend where the divisor is zero."""
    quotient = x.udiv(a, b)  # all ones where b is zero: times zero leaves a
    return x.sub(a, x.mul(quotient, b))


def sdiv(x: LlvmVocabulary, a: Value, b: Value) -> Value:
    """A signed quotient, rounded toward zero; all ones where the divisor is zero."""
    type = x.type(a)
    sign = x.ashr(x.xor(a, b), x.const(bits_of(type) - 1, type))
    quotient = x.udiv(_magnitude(x, a), _magnitude(x, b))
    signed = x.sub(x.xor(quotient, sign), sign)
    return x.select(x.eq(b, x.const(0, type)), x.const(-1, type), signed)


def srem(x: LlvmVocabulary, a: Value, b: Value) -> Value:
    """A signed remainder; the dividend where the divisor is zero."""
    return x.sub(a, x.mul(x.sdiv(a, b), b))


def _magnitude(x: LlvmVocabulary, a: Value) -> Value:
    type = x.type(a)
    sign = x.ashr(a, x.const(bits_of(type) - 1, type))
    return x.sub(x.xor(a, sign), sign)


def half_to_f32(x: LlvmVocabulary, a: Value) -> Value:
    """For processors without conversions of 16-bit floats: the exponent is moved by an exact multiplication."""
    wide = x.zext(a, "i32")
    magnitude = x.and_(wide, x.const(0x7FFF, "i32"))
    shifted = x.shl(magnitude, x.const(13, "i32"))
    finite = x.bitcast(x.fmul(x.bitcast(shifted, "f32"), x.const(2.0**112, "f32")), "i32")
    special = x.or_(shifted, x.const(0x7F800000, "i32"))
    bits = x.select(x.ult(magnitude, x.const(0x7C00, "i32")), finite, special)
    sign = x.shl(x.and_(wide, x.const(0x8000, "i32")), x.const(16, "i32"))
    return x.bitcast(x.or_(bits, sign), "f32")


def f32_to_half(x: LlvmVocabulary, a: Value) -> Value:
    """For processors without conversions of 16-bit floats; adding 0.5 rounds to the subnormals' unit, 2**-24."""
    bits = x.bitcast(a, "i32")
    magnitude = x.and_(bits, x.const(0x7FFFFFFF, "i32"))
    half = x.const(0x3F000000, "i32")
    small = x.sub(x.bitcast(x.fadd(x.bitcast(magnitude, "f32"), x.bitcast(half, "f32")), "i32"), half)
    odd = x.and_(x.lshr(magnitude, x.const(13, "i32")), x.const(1, "i32"))
    normal = x.lshr(x.add(x.add(magnitude, odd), x.const(0xC8000FFF, "i32")), x.const(13, "i32"))
    result = x.select(x.ult(magnitude, x.const(0x38800000, "i32")), small, normal)
    infinity = x.const(0x7F800000, "i32")
    large = x.select(x.ult(infinity, magnitude), x.const(0x7E00, "i32"), x.const(0x7C00, "i32"))
    result = x.select(x.ult(magnitude, x.const(0x47800000, "i32")), result, large)
    sign = x.and_(x.lshr(bits, x.const(16, "i32")), x.const(0x8000, "i32"))
    return x.trunc(x.or_(result, sign), "i16")
