"""Floats of at most 8 bits: their codes from and to f32, with the roundings that the ISA has for them, and arithmetic on four of them.

A format is described as the sections "Alternate Floating-Point Data Formats" and "Fixed-point Data format" do. Codes travel as ``i32``.
add, sub, mul and fma are exact, then rounded once: section "Alternate Floating Point Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ptxlab._records import dataclass
from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.requirements import needs
from ptxlab.isa.scalar.float_helpers import narrow_odd, operation

__all__ = ["FORMATS", "decoder", "encoder", "scale_value", "stochastic"]


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


_SECTION = "Alternate Floating Point Instructions: {base}"
_SOURCES = "e5m2x4|e4m3x4|e3m2x4|e2m3x4|e2m1x4|e2m1p4x4|ue8m0x4"
_WORDS = {source: "b16" if source == "e2m1x4" else "b32" for source in _SOURCES.split("|")}
_TO = "{.rnd=rn}{.satfinite}.(to=e5m2x4|e4m3x4)"


def _values(x: Vocabulary, type: str, word: Value) -> list[Value]:
    """The four elements as f64, the lowest first."""
    decode = decoder(type.removesuffix("x4").removesuffix("p4"))
    bits = 4 if type == "e2m1x4" else 8
    wide, mask = x.zext(word, "i32") if bits == 4 else word, x.const((1 << bits) - 1, "i32")
    return [x.fext(x.call(decode, x.and_(x.lshr(wide, x.const(bits * i, "i32")), mask))) for i in range(4)]


def _rounded(x: Vocabulary, q: Qualifiers, values: list[Value]) -> Value:
    """f64 results, packed.

    An f64 holds every product, and every sum in which both terms count. Rounded to odd, an f32 says all that the last rounding needs.
    """
    encode = encoder(q.to.removesuffix("x4"), bool(q.satfinite))
    word = None
    for i, value in enumerate(values):
        code = x.shl(x.call(encode, x.call(narrow_odd, value)), x.const(8 * i, "i32"))
        word = code if word is None else x.or_(word, code)
    return word


_NEEDS = needs("9.4", "sm_100a sm_103a")


_BOTH = {"word": ("source", _WORDS), "second": ("other", _WORDS)}
_PRODUCT = f"{_TO}.(source={_SOURCES}).(other={_SOURCES})"


@pure(
    f"add|sub{_TO}.(source={_SOURCES})",
    d="b32",
    a="word",
    c="b32",
    derived={"word": ("source", _WORDS)},
    requires=_NEEDS,
    section=_SECTION,
)
@pure("mul" + _PRODUCT, d="b32", a="word", c="second", derived=_BOTH, requires=_NEEDS, section=_SECTION)
def arithmetic_small(x: Vocabulary, q: Qualifiers, a: Value, c: Value) -> Value:
    pairs = zip(_values(x, q.source, a), _values(x, q.get("other") or q.to, c), strict=True)
    return _rounded(x, q, [operation(x, q.base)(m, n) for m, n in pairs])


@pure("fma" + _PRODUCT, d="b32", a="word", b="second", c="b32", derived=_BOTH, requires=_NEEDS, section=_SECTION)
def fma_small(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    terms = zip(_values(x, q.source, a), _values(x, q.other, b), _values(x, q.to, c), strict=True)
    return _rounded(x, q, [x.fadd(x.fmul(m, n), addend) for m, n, addend in terms])
