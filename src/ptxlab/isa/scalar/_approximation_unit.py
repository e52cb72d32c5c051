"""The unit of the GPU that computes the approximate functions.

It takes a row of a table for the interval of the operand, ``value + slope * rest + curvature * square``, where ``rest`` are the 17 bits
below those that select the interval and ``square`` is a truncated square of them, and truncates the sum to a significand. All of it is
integer arithmetic of at most 46 bits. `excess` does it in 32 bits, for functions whose results have one exponent for all intervals;
`interpolated` does it in f64, which holds such integers exactly. `with_last_bit` does it in 16 bits, for a function whose result is the
exact one truncated, which the processor computes, or the next number.
"""

from __future__ import annotations

from ptxlab._records import dataclass
from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.scalar.approximation_tables import Rows
from ptxlab.isa.scalar.float_helpers import NAN32

__all__ = [
    "Binade",
    "Binades",
    "LastBits",
    "binade",
    "binades",
    "excess",
    "interpolated",
    "last_bits",
    "masked",
    "scaled",
    "settled",
    "subnormal",
    "with_last_bit",
]


@dataclass(frozen=True)
class Binade:
    """A function whose results lie in one binade: ``entries`` as `excess` reads them."""

    entries: tuple[int, ...]
    scale: int
    offset: int


def binade(coefficients: Rows, scale: int, offset: int, linear: int, curvature: int, more: int = 0, odd: bool = False) -> Binade:
    """The sum is ``(value << scale) + offset + slope * rest + 2 * curvature * square``; ``2**scale`` is a quarter of a result's last bit.

    So that 32 bits hold every sum, an entry counts the rest from the middle of its interval and lacks ``linear`` times the place in all
    intervals; ``more`` is added to it. From the lowest bit on it has 32 bits of the value, 16 of the curvature and 16 of the slope. The
    rows begin with even exponents; with ``odd``, the entries begin with odd ones.
    """

    def entry(number: int, value: int, slope: int, second: int) -> int:
        slope -= linear << scale
        value += (slope << 16 >> scale) - (linear * number << 17) + (offset >> scale) + more
        return value & 0xFFFFFFFF | (second * curvature & 0xFFFF | (slope & 0xFFFF) << 16) << 32

    entries = tuple(entry(number, *row) for number, row in enumerate(coefficients))
    if odd:
        entries = entries[len(entries) // 2 :] + entries[: len(entries) // 2]
    return Binade(entries, scale, offset & (1 << scale) - 1)


@dataclass(frozen=True)
class LastBits:
    """The last bits of the results of a function: ``entries`` as `with_last_bit` reads them."""

    entries: tuple[int, ...]
    offset: int


def last_bits(coefficients: Rows, offset: int) -> LastBits:
    """The sum is ``(value << 14) + offset + slope * rest + 2 * curvature * square``; ``2**16`` is a result's last bit.

    The lowest bit of every rest is 0, so that half the sum is exact. Of that the low 16 bits are needed, which the low 16 of the slope and
    the low three of the value decide. From the lowest bit on an entry has 16 bits of the slope, 13 of the curvature and three of the value.
    """
    high, low = divmod(offset >> 1, 1 << 13)
    entries = tuple(slope & 0xFFFF | curvature << 16 | (value + high & 7) << 29 for value, slope, curvature in coefficients)
    return LastBits(entries, low)


@dataclass(frozen=True)
class Binades:
    """A function whose results lie in many binades: ``entries`` as `interpolated` reads them."""

    entries: tuple[int, ...]
    scale: int
    offset: int


def binades(coefficients: Rows, scale: int, offset: int, curvature: int = 1) -> Binades:
    """The sum as in `binade`. From the lowest bit on: 26 bits of the value, 19 of the size of the curvature, 19 of the slope."""
    entries = tuple(value | -second * curvature << 26 | slope << 45 for value, slope, second in coefficients)
    return Binades(entries, scale, offset)


def _square(x: Vocabulary, rest: Value) -> Value:
    """In an i16 ``rest * rest >> 19`` without the products of two different bits that lie below bit 18 of the square.

    ``rest`` is an i16 without the lowest of the 17 bits, which has no influence.
    """

    def bits(mask: int) -> Value:
        return x.and_(rest, x.const(mask, "i16"))

    # Those of the four highest bits with the low ones, two high bits at a time: of each product the lowest bit is left out.
    found = x.add(x.umulhi(bits(0xC000), bits(0x007E)), x.umulhi(bits(0x3000), bits(0x0078)))
    # The products of the seven high bits with each other and with the next two, and those of the next two high bits with the low ones.
    found = x.add(found, x.umulhi(bits(0xFE00), _mean(x, bits(0xFF81), bits(0x0180))))
    return x.add(found, x.umulhi(bits(0x0C00), bits(0x0061)))


def _mean(x: Vocabulary, a: Value, b: Value) -> Value:
    """Half the sum of two i16 without sign, rounded up: one instruction of many processors."""
    one = x.const(1, "i32")
    return x.trunc(x.lshr(x.add(x.add(x.zext(a, "i32"), x.zext(b, "i32")), one), one), "i16")


def excess(x: Vocabulary, of: Binade, place: Value, first: int) -> Value:
    """The sum without ``linear`` times the place and with ``more``, truncated to a quarter of the last bit of the results.

    The bits of ``place`` from ``first`` on select the interval; those below are the rest, without the lowest of its 17 bits if ``even``.
    """
    value, factors = x.table(place, first, of.entries)
    # All of the rest but the lowest of its 17 bits.
    rest = x.low_half(x.lshr(place, x.const(first - 16, "i32")) if first > 16 else x.shl(place, x.const(16 - first, "i32")))
    # Half of the sum, with the rest counted from the middle of its interval: half of the whole is truncated as the whole is.
    square_and_rest = x.with_halves(_square(x, rest), x.xor(rest, x.const(0x8000, "i16")))
    half = x.dot(x.const(of.offset >> 1, "i32"), factors, square_and_rest)
    if first > 16:
        odd = x.ne(masked(x, place, 1), x.const(0, "i32"))
        slope = x.ashr(x.add(factors, x.const((of.offset & 1) << 16, "i32")), x.const(17, "i32"))
        half = x.add(half, x.select(odd, slope, x.const(0, "i32")))
    return x.add(value, x.ashr(half, x.const(of.scale - 1, "i32")))


def with_last_bit(x: Vocabulary, of: LastBits, place: Value, truncated: Value) -> Value:
    """The bits of the result, of which is known that it is ``truncated`` or the next number: its last bit tells which.

    The low 16 bits of ``place`` are the rest without the lowest of its 17 bits, those above select the interval.
    """
    slope, others = x.table_halves(place, 16, of.entries)
    rest = x.low_half(place)
    start = x.or_(x.and_(others, x.const(0xE000, "i16")), x.const(of.offset, "i16"))
    sum = x.add(x.add(start, x.mul(slope, rest)), x.mul(x.and_(others, x.const(0x1FFF, "i16")), _square(x, rest)))
    # The highest of the 16 bits is the last bit of the result.
    differs = masked(x, x.xor(truncated, x.lshr(x.with_low_half(sum), x.const(15, "i32"))), 1)
    return x.add(truncated, differs)


def interpolated(x: Vocabulary, of: Binades, place: Value) -> Value:
    """The sum in f64, for a place in an i32: its low 17 bits are the rest, the others select the interval."""
    low, high = x.table(place, 17, of.entries)
    rest = masked(x, place, 0x1FFFF)
    square = x.with_halves(_square(x, x.low_half(x.lshr(place, x.const(1, "i32")))), x.const(0, "i16"))
    value, slope = masked(x, low, (1 << 26) - 1), x.lshr(high, x.const(13, "i32"))
    curvature = x.or_(x.lshr(low, x.const(26, "i32")), x.shl(masked(x, high, 0x1FFF), x.const(6, "i32")))
    value, slope, curvature, rest, square = (x.sitof(part, "f64") for part in (value, slope, curvature, rest, square))
    sum = x.fmul(value, x.const(2.0**of.scale, "f64"))
    if of.offset:
        sum = x.fadd(sum, x.const(float(of.offset), "f64"))
    return x.fsub(x.fadd(sum, x.fmul(slope, rest)), x.fmul(curvature, square))


def masked(x: Vocabulary, a: Value, mask: int) -> Value:
    """The bits of an i32 that a constant has."""
    return x.and_(a, x.const(mask, "i32"))


def settled(x: Vocabulary, a: Value, result: Value) -> Value:
    """The f32 with these bits; the canonical NaN where the operand is a NaN."""
    return x.select(x.isnan(a), x.bits(NAN32, "f32"), x.bitcast(result, "f32"))


def scaled(x: Vocabulary, a: Value, small: Value, factor: float) -> Value:
    """An f32, times ``factor`` where ``small`` holds."""
    return x.fmul(a, x.select(small, x.const(factor, "f32"), x.const(1.0, "f32")))


def subnormal(x: Vocabulary, a: Value) -> Value:
    """Whether an f32 is subnormal or zero."""
    return x.flt(x.fabs(a), x.const(2.0**-126, "f32"))
