"""Floats of at most 8 bits: their codes from and to f32, with the roundings that the ISA has for them.

A format is described as the sections "Alternate Floating-Point Data Formats" and "Fixed-point Data format" do. Codes travel as ``i32``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from ptxlab.isa._vocabulary import Value, Vocabulary

__all__ = ["FORMATS", "Format", "decoder", "encoder", "scale_value", "stochastic"]


@dataclass(frozen=True)
class Format:
    """A float format by codes without sign: ``largest`` finite, ``nan`` and ``infinity`` where it has them; ``sign`` is a bit's place."""

    mantissa: int
    least: int
    """The least normal exponent."""
    largest: int
    sign: int
    nan: int | None = None
    infinity: int | None = None

    @property
    def not_a_number(self) -> int:
        """What a NaN becomes."""
        return self.largest if self.nan is None else self.nan

    def beyond(self, saturate: bool) -> int:
        """What a number above the largest becomes."""
        return self.largest if saturate else self.not_a_number if self.infinity is None else self.infinity


FORMATS = {
    "f16": Format(10, -14, 0x7BFF, 15, nan=0x7FFF, infinity=0x7C00),
    "bf16": Format(7, -126, 0x7F7F, 15, nan=0x7FFF, infinity=0x7F80),
    "e4m3": Format(3, -6, 0x7E, 7, nan=0x7F),
    "e5m2": Format(2, -14, 0x7B, 7, nan=0x7F, infinity=0x7C),
    "e2m3": Format(3, 0, 0x1F, 5),
    "e3m2": Format(2, -2, 0x1F, 5),
    "e2m1": Format(1, 0, 0x7, 3),
}


def _finish(x: Vocabulary, f: Format, saturate: bool, a: Value, code: Value) -> Value:
    """The code of a magnitude with its limit, the sign of ``a``, and NaN."""
    largest = x.const(f.largest, "i32")
    code = x.select(x.ult(largest, code), x.const(f.beyond(saturate), "i32"), code)
    sign = x.lshr(x.bitcast(a, "i32"), x.const(31, "i32"))
    signed = x.or_(code, x.shl(sign, x.const(f.sign, "i32")))
    return x.select(x.isnan(a), x.const(f.not_a_number, "i32"), signed)


@cache
def encoder(kind: str, saturate: bool = True) -> Callable[..., Value]:
    """For f32 to the nearest code, ties to even."""
    f = FORMATS[kind]
    bound = 2.0 ** ((f.largest >> f.mantissa) + f.least)  # a power of two above the largest

    def encode(x: Vocabulary, a: Value) -> Value:
        size, top = x.fabs(a), x.const(bound, "f32")
        size = x.select(x.flt(size, top), size, top)
        # Adding and subtracting 2**(exponent + 23 - mantissa bits) rounds to the last mantissa bit kept.
        exponent = x.and_(x.bitcast(size, "i32"), x.const(0x7F800000, "i32"))
        least = x.const((f.least + 127) << 23, "i32")
        exponent = x.select(x.ult(exponent, least), least, exponent)
        large = x.bitcast(x.add(exponent, x.const((23 - f.mantissa) << 23, "i32")), "f32")
        size = x.fsub(x.fadd(size, large), large)
        # Scaled so that its subnormals are those of f32, the code stands in the high bits.
        scaled = x.fmul(size, x.const(2.0 ** (-126 - f.least), "f32"))
        code = x.lshr(x.bitcast(scaled, "i32"), x.const(23 - f.mantissa, "i32"))
        return _finish(x, f, saturate, a, code)

    encode.__name__ = f"encode_{kind}"
    return encode


@cache
def stochastic(kind: str, bits: int, saturate: bool = True) -> Callable[..., Value]:
    """For f32 to a code by ``.rs``: random bits are added to the highest of those that are cut off, and a carry rounds away from zero."""
    f = FORMATS[kind]

    def encode(x: Vocabulary, a: Value, random: Value) -> Value:
        zero, one = x.const(0, "i32"), x.const(1, "i32")
        word = x.and_(x.bitcast(a, "i32"), x.const(0x7FFFFFFF, "i32"))
        field = x.lshr(word, x.const(23, "i32"))
        subnormal = x.eq(field, zero)
        field = x.select(subnormal, one, field)
        mantissa = x.or_(x.and_(word, x.const(0x7FFFFF, "i32")), x.select(subnormal, zero, x.const(0x800000, "i32")))
        least = x.const(f.least + 127, "i32")
        low, high = x.sub(least, field), x.sub(field, least)
        low, high = x.select(x.slt(low, zero), zero, low), x.select(x.slt(high, zero), zero, high)
        cut = x.add(low, x.const(23 - f.mantissa, "i32"))
        mask = x.const((1 << bits) - 1, "i32")
        rest = x.and_(x.lshr(mantissa, x.sub(cut, x.const(bits, "i32"))), mask)
        carry = x.lshr(x.add(rest, x.and_(random, mask)), x.const(bits, "i32"))
        whole = x.add(x.lshr(mantissa, cut), carry)
        code = x.add(x.shl(high, x.const(f.mantissa, "i32")), whole)
        return _finish(x, f, saturate, a, code)

    encode.__name__ = f"stochastic_{kind}"
    return encode


@cache
def decoder(kind: str) -> Callable[..., Value]:
    """For a code to f32, exactly; also ``ue8m0``."""
    if kind == "ue8m0":
        return scale_value
    f = FORMATS[kind]

    def decode(x: Vocabulary, code: Value) -> Value:
        size = x.and_(code, x.const((1 << f.sign) - 1, "i32"))
        value = x.fmul(x.bitcast(x.shl(size, x.const(23 - f.mantissa, "i32")), "f32"), x.const(2.0 ** (126 + f.least), "f32"))
        word = x.bitcast(value, "i32")
        if f.infinity is not None:
            word = x.select(x.eq(size, x.const(f.infinity, "i32")), x.const(0x7F800000, "i32"), word)
        if f.nan is not None:
            least_nan = f.nan if f.infinity is None else f.infinity + 1
            word = x.select(x.ule(x.const(least_nan, "i32"), size), x.const(0x7FFFFFFF, "i32"), word)
        sign = x.and_(x.shl(code, x.const(31 - f.sign, "i32")), x.const(1 << 31, "i32"))
        return x.bitcast(x.or_(word, sign), "f32")

    decode.__name__ = f"decode_{kind}"
    return decode


def scale_value(x: Vocabulary, code: Value) -> Value:
    """A ue8m0 code as f32: a power of two; code 0 is the subnormal 2**-127, code 255 is NaN."""
    code = x.and_(code, x.const(0xFF, "i32"))
    normal = x.shl(code, x.const(23, "i32"))
    word = x.select(x.eq(code, x.const(0, "i32")), x.const(0x400000, "i32"), normal)
    return x.bitcast(x.select(x.eq(code, x.const(0xFF, "i32")), x.const(0x7FFFFFFF, "i32"), word), "f32")
