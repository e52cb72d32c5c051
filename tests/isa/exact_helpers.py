"""Floating point by the book: exact fractions, rounded once. Shares nothing with the code under test."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

INF, NAN = "inf", "nan"


@dataclass(frozen=True)
class Format:
    mantissa: int
    exponent: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def sign(self) -> int:
        return 1 << (self.mantissa + self.exponent)

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa


FORMATS = {"f16": Format(10, 5), "bf16": Format(7, 8), "f32": Format(23, 8), "f64": Format(52, 11), "tf32": Format(10, 8)}


def is_nan(bits: int, f: Format) -> bool:
    return bits & (f.sign - 1) > f.infinity


def is_infinite(bits: int, f: Format) -> bool:
    return bits & (f.sign - 1) == f.infinity


def value(bits: int, f: Format) -> Fraction:
    """The value of finite bits."""
    size = bits & (f.sign - 1)
    exponent, fraction = size >> f.mantissa, size & ((1 << f.mantissa) - 1)
    if exponent:
        fraction |= 1 << f.mantissa
    else:
        exponent = 1
    exact = Fraction(fraction) * Fraction(2) ** (exponent - f.bias - f.mantissa)
    return -exact if bits & f.sign else exact


def to_integer(exact: Fraction, mode: str) -> int:
    """Round to an integer: rn (ties to even), rna, rz, rm, rp."""
    floor = exact.numerator // exact.denominator
    rest = exact - floor
    if mode == "rz":
        return floor + (rest > 0 and exact < 0)
    if mode in ("rm", "rp"):
        return floor + (mode == "rp" and rest > 0)
    if rest == Fraction(1, 2):
        return floor + (floor & 1 if mode == "rn" else exact > 0)
    return floor + (rest > Fraction(1, 2))


def rounded(exact: Fraction, f: Format, mode: str, negative_zero: bool = False) -> int:
    """Bits of the number nearest by the mode; ``negative_zero`` is the sign of an exact zero."""
    if exact == 0:
        return f.sign if negative_zero else 0
    sign = f.sign if exact < 0 else 0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    while Fraction(2) ** exponent > size:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    quantum = max(exponent, 1 - f.bias) - f.mantissa
    whole = abs(to_integer(exact / Fraction(2) ** quantum, mode))
    size = whole * Fraction(2) ** quantum
    limit = Fraction(2) ** (f.bias + 1)
    if size >= limit:
        inward = mode == "rz" or (mode == "rm" and not sign) or (mode == "rp" and bool(sign))
        return sign | (f.infinity - inward)
    if whole < 1 << f.mantissa:
        return sign | whole
    while whole >= 2 << f.mantissa:
        whole //= 2
        quantum += 1
    return sign | ((quantum + f.mantissa + f.bias) << f.mantissa) + whole - (1 << f.mantissa)


def square_root(exact: Fraction, f: Format, mode: str) -> int:
    """A rounded root: of a scaled integer, with a sticky bit far below the last one kept."""
    shift = 800
    scaled = exact.numerator * 4**shift // exact.denominator
    root = isqrt(scaled)
    inexact = root * root != scaled or scaled * exact.denominator != exact.numerator * 4**shift
    return rounded(Fraction(2 * root + inexact, 2 * 2**shift), f, mode)
