"""The unit of the GPU that computes the approximate functions.

It takes a row of a table for the interval of the operand, ``value + slope * rest + curvature * square``, where ``rest`` are the 17 bits
below those that select the interval and ``square`` is a truncated square of them, and truncates the sum to a significand. All of it is
integer arithmetic of at most 46 bits. `significand` does it in 32 bits, for functions whose results have one exponent for all intervals;
`interpolated` does it in f64, which holds such integers exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.scalar.approximation_tables import Rows

__all__ = ["Binade", "Binades", "binade", "binades", "interpolated", "masked", "significand"]


@dataclass(frozen=True)
class Binade:
    """A function whose results lie in one binade: ``entries`` as `significand` reads them."""

    entries: tuple[int, ...]
    scale: int
    offset: int
    linear: int
    falls: bool


def binade(coefficients: Rows, scale: int, offset: int, linear: int, curvature: int) -> Binade:
    """The sum is ``(value << scale) + offset + slope * rest + curvature * square``; ``2**scale`` is a quarter of a result's last bit.

    So that 32 bits hold every sum, an entry counts the rest from the middle of its interval, and has the slope without ``linear << scale``,
    which is multiplied with the place in all intervals. From the lowest bit on it has 32 bits of the value, 16 of the size of the curvature
    and 16 of the slope.
    """

    def entry(number: int, value: int, slope: int, second: int) -> int:
        slope -= linear << scale
        value += (slope << 16 >> scale) - (linear * number << 17)
        return value | (abs(second * curvature) | (slope & 0xFFFF) << 16) << 32

    entries = tuple(entry(number, *row) for number, row in enumerate(coefficients))
    return Binade(entries, scale, offset, linear, coefficients[0][2] < 0)


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
    """``rest * rest >> 19`` of 17 bits, without the products of two different bits that lie below bit 18 of the square."""
    high = x.lshr(rest, x.const(10, "i32"))
    # The products of the seven high bits with each other and with the next two.
    exact = x.mul(high, x.sub(x.lshr(rest, x.const(8, "i32")), x.add(high, high)))
    # Those of the six highest bits with the low ones, two high bits at a time: of each product the lowest bit is left out.
    found = None
    for bit, low in ((11, 0xC0), (13, 0xF0), (15, 0xFC)):
        product = masked(x, x.mul(masked(x, rest, 3 << bit), masked(x, rest, low)), -1 << 18)
        found = product if found is None else x.add(found, product)
    return x.add(exact, x.lshr(found, x.const(18, "i32")))


def _row(x: Vocabulary, entries: tuple[int, ...], place: Value) -> tuple[Value, Value, Value]:
    """Both words of the entry, and the rest, for a place, an i32: its low 17 bits are the rest, the others select the interval."""
    return *x.table(x.lshr(place, x.const(17, "i32")), entries), masked(x, place, 0x1FFFF)


def significand(x: Vocabulary, of: Binade, place: Value) -> Value:
    """The sum as an i32 of 24 bits, truncated; the largest is 2**24."""
    value, factors, rest = _row(x, of.entries, place)
    first = x.mul(x.ashr(factors, x.const(16, "i32")), x.sub(rest, x.const(1 << 16, "i32")))
    second = x.mul(masked(x, factors, 0xFFFF), _square(x, rest))
    sum = x.add((x.sub if of.falls else x.add)(first, second), x.const(of.offset, "i32"))
    linear = x.shl(place, x.const(abs(of.linear).bit_length() - 1, "i32"))
    value = (x.add if of.linear > 0 else x.sub)(value, linear)
    return x.lshr(x.add(value, x.ashr(sum, x.const(of.scale, "i32"))), x.const(2, "i32"))


def interpolated(x: Vocabulary, of: Binades, place: Value) -> Value:
    """The sum in f64."""
    low, high, rest = _row(x, of.entries, place)
    value, slope = masked(x, low, (1 << 26) - 1), x.lshr(high, x.const(13, "i32"))
    curvature = x.or_(x.lshr(low, x.const(26, "i32")), x.shl(masked(x, high, 0x1FFF), x.const(6, "i32")))
    value, slope, curvature, rest, square = (x.sitof(part, "f64") for part in (value, slope, curvature, rest, _square(x, rest)))
    sum = x.fmul(value, x.const(2.0**of.scale, "f64"))
    if of.offset:
        sum = x.fadd(sum, x.const(float(of.offset), "f64"))
    return x.fsub(x.fadd(sum, x.fmul(slope, rest)), x.fmul(curvature, square))


def masked(x: Vocabulary, a: Value, mask: int) -> Value:
    """The bits of an i32 that a constant has."""
    return x.and_(a, x.const(mask, "i32"))
