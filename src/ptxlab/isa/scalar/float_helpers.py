"""What the floating-point families share: NaN, subnormals, saturation, packed pairs, and 16-bit formats.

NaN results, as recorded on silicon: f32, f16 and bf16 arithmetic gives one canonical NaN; f64 arithmetic hands on the last
NaN operand, quieted.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxlab.isa._vocabulary import Value, Vocabulary

__all__ = [
    "NAN16",
    "NAN32",
    "NAN64",
    "canonical",
    "flush",
    "flush_half",
    "half_kind",
    "join",
    "narrow_half",
    "operation",
    "quiet",
    "saturate",
    "split",
    "widen_half",
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
    zero, one = x.const(0.0, type), x.const(1.0, type)
    return x.select(x.flt(zero, a), x.select(x.flt(a, one), a, one), zero)


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
        rounded = x.trunc(x.lshr(x.add(word, x.add(even, x.const(0x7FFF, "i32"))), x.const(16, "i32")), "i16")
    return x.select(x.isnan(a), x.const(NAN16, "i16"), rounded)


def flush_half(x: Vocabulary, on: bool | None, a: Value) -> Value:
    """``.ftz`` for f16: subnormals become zero of the same sign."""
    if not on:
        return a
    normal = x.ne(x.and_(a, x.const(0x7C00, "i16")), x.const(0, "i16"))
    return x.select(normal, a, x.and_(a, x.const(0x8000, "i16")))
