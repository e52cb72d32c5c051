"""The vocabulary of lane-wise semantics as NumPy arrays: the definition that compiled code is held to.

A value is an array of bool, an unsigned integer type, float32 or float64, of shape (32,) or anything that broadcasts with
it; constants have shape (1,).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

__all__ = ["NumpyVocabulary"]

Value = Any
F = TypeVar("F", bound=Callable[..., Any])

_DTYPES: dict[str, np.dtype[Any]] = {
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.uint8),
    "i16": np.dtype(np.uint16),
    "i32": np.dtype(np.uint32),
    "i64": np.dtype(np.uint64),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_SIGNED = {np.dtype(f"u{n}"): np.dtype(f"i{n}") for n in (1, 2, 4, 8)}
_SIGN_BIT: dict[Any, Any] = {np.dtype(np.float32): np.uint32(1 << 31), np.dtype(np.float64): np.uint64(1 << 63)}
_ROUND: dict[str, Callable[[Value], Value]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_quiet = np.errstate(all="ignore")
"""Decorates functions of floats: they overflow and divide by zero without a warning."""


@lru_cache(maxsize=4096)
def _constant(pattern: int, dtype: np.dtype[Any]) -> Value:
    array = np.array([pattern], f"u{dtype.itemsize}").view(dtype)
    array.flags.writeable = False
    return array


class NumpyVocabulary:
    """Evaluate at once, over all lanes."""

    def const(self, value: int | float, type: str) -> Value:
        dtype = _DTYPES[type]
        if dtype.kind == "f":
            return np.array([value], dtype)
        if dtype.kind == "b":
            return _constant(int(value) & 1, dtype)
        return _constant(int(value) & ((1 << 8 * dtype.itemsize) - 1), dtype)

    def bits(self, pattern: int, type: str) -> Value:
        return _constant(pattern, _DTYPES[type])

    def type(self, a: Value) -> str:
        return _NAMES[a.dtype]

    def known(self, a: Value) -> int | None:
        return None

    # ------------------------------------------------------------------------------------- width

    def bitcast(self, a: Value, type: str) -> Value:
        return a.view(_DTYPES[type])

    def zext(self, a: Value, type: str) -> Value:
        return a.astype(_DTYPES[type])

    def sext(self, a: Value, type: str) -> Value:
        dtype = _DTYPES[type]
        if a.dtype.kind == "b":
            return -a.astype(_SIGNED[dtype]).view(dtype)
        return a.view(_SIGNED[a.dtype]).astype(_SIGNED[dtype]).view(dtype)

    def trunc(self, a: Value, type: str) -> Value:
        if type == "i1":
            return (a & _constant(1, a.dtype)).astype(np.bool_)
        return a.astype(_DTYPES[type])

    # ---------------------------------------------------------------------------------- integers

    add, sub, mul = staticmethod(np.add), staticmethod(np.subtract), staticmethod(np.multiply)
    and_, or_, xor = staticmethod(np.bitwise_and), staticmethod(np.bitwise_or), staticmethod(np.bitwise_xor)
    not_ = staticmethod(np.invert)
    umin, umax = staticmethod(np.minimum), staticmethod(np.maximum)

    def smin(self, a: Value, b: Value) -> Value:
        return np.minimum(a.view(_SIGNED[a.dtype]), b.view(_SIGNED[b.dtype])).view(a.dtype)

    def smax(self, a: Value, b: Value) -> Value:
        return np.maximum(a.view(_SIGNED[a.dtype]), b.view(_SIGNED[b.dtype])).view(a.dtype)

    def signed_as(self, a: Value, b: Value) -> Value:
        return a

    def umulhi(self, a: Value, b: Value) -> Value:
        bits = 8 * a.dtype.itemsize
        if bits < 64:
            return ((a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(bits)).astype(a.dtype)
        half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
        ah, al, bh, bl = a >> half, a & low, b >> half, b & low
        cross = ah * bl + (al * bl >> half)
        other = al * bh + (cross & low)
        return ah * bh + (cross >> half) + (other >> half)

    def dot(self, start: Value, a: Value, b: Value) -> Value:
        pairs = (each.view(np.int16).reshape(*each.shape, 2).astype(np.int64) for each in (a, b))
        return start + np.prod(np.stack(list(pairs)), axis=0).sum(axis=-1).astype(np.uint32)

    def smulhi(self, a: Value, b: Value) -> Value:
        zero = _constant(0, a.dtype)
        high = self.umulhi(a, b)
        return high - np.where(self.slt(a, zero), b, zero) - np.where(self.slt(b, zero), a, zero)

    def udiv(self, a: Value, b: Value) -> Value:
        zero = b == 0
        return np.where(zero, ~_constant(0, a.dtype), a // np.where(zero, _constant(1, a.dtype), b))

    def urem(self, a: Value, b: Value) -> Value:
        return a - self.udiv(a, b) * b

    def sdiv(self, a: Value, b: Value) -> Value:
        zero = _constant(0, a.dtype)
        negative_a, negative_b = self.slt(a, zero), self.slt(b, zero)
        quotient = self.udiv(np.where(negative_a, zero - a, a), np.where(negative_b, zero - b, b))
        return np.where(b == 0, ~zero, np.where(negative_a ^ negative_b, zero - quotient, quotient))

    def srem(self, a: Value, b: Value) -> Value:
        return a - self.sdiv(a, b) * b

    def neg(self, a: Value) -> Value:
        return _constant(0, a.dtype) - a

    def shl(self, a: Value, amount: Value) -> Value:
        inside, safe = _clamped(a, amount)
        return np.where(inside, a << safe, _constant(0, a.dtype))

    def lshr(self, a: Value, amount: Value) -> Value:
        inside, safe = _clamped(a, amount)
        return np.where(inside, a >> safe, _constant(0, a.dtype))

    def ashr(self, a: Value, amount: Value) -> Value:
        signed = _SIGNED[a.dtype]
        last = _constant(8 * a.dtype.itemsize - 1, a.dtype)
        return (a.view(signed) >> np.minimum(amount, last).view(signed)).view(a.dtype)

    def popc(self, a: Value) -> Value:
        return np.bitwise_count(a).astype(a.dtype)

    def clz(self, a: Value) -> Value:
        bits = 8 * a.dtype.itemsize
        shift = 1
        while shift < bits:
            a = a | a >> _constant(shift, a.dtype)
            shift *= 2
        return self.popc(~a)

    def brev(self, a: Value) -> Value:
        bits = 8 * a.dtype.itemsize
        shift, mask = bits // 2, (1 << bits) - 1
        while shift:
            mask ^= mask << shift & (1 << bits) - 1
            keep, by = _constant(mask, a.dtype), _constant(shift, a.dtype)
            a = (a >> by) & keep | (a & keep) << by
            shift //= 2
        return a

    # -------------------------------------------------------------------------------- comparison

    eq, ne, ult, ule = staticmethod(np.equal), staticmethod(np.not_equal), staticmethod(np.less), staticmethod(np.less_equal)
    select = staticmethod(np.where)

    def slt(self, a: Value, b: Value) -> Value:
        return np.less(a.view(_SIGNED[a.dtype]), b.view(_SIGNED[a.dtype]))

    def sle(self, a: Value, b: Value) -> Value:
        return np.less_equal(a.view(_SIGNED[a.dtype]), b.view(_SIGNED[a.dtype]))

    # ------------------------------------------------------------------------------------ floats

    fadd, fsub = staticmethod(_quiet(np.add)), staticmethod(_quiet(np.subtract))
    fmul, fdiv = staticmethod(_quiet(np.multiply)), staticmethod(_quiet(np.divide))
    feq, flt, fle = eq, staticmethod(_quiet(np.less)), staticmethod(_quiet(np.less_equal))
    fsqrt, isnan = staticmethod(_quiet(np.sqrt)), staticmethod(np.isnan)

    @_quiet
    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return _fma32(a, b, c) if a.dtype == np.float32 else _fma64(a, b, c)

    def fneg(self, a: Value) -> Value:
        sign = _SIGN_BIT[a.dtype]
        return (a.view(sign.dtype) ^ sign).view(a.dtype)

    def fabs(self, a: Value) -> Value:
        sign = _SIGN_BIT[a.dtype]
        return (a.view(sign.dtype) & ~sign).view(a.dtype)

    @_quiet
    @_quiet
    def reciprocal_toward_zero(self, a: Value) -> Value:
        exact = np.float64(1) / a  # no quotient of two f32 lies so near to an f32 that f64 would round to it
        return (exact.view(np.uint64) & np.uint64(0xFFFFFFFFE0000000)).view(np.float64).astype(np.float32)

    def subnormal_or_nan(self, a: Value) -> Value:
        size = np.abs(a)
        return np.isnan(a) | (size < np.float32(2.0**-126)) & (size != 0)

    def outside_positive_normals(self, a: Value) -> Value:
        return ~((np.float32(2.0**-126) <= a) & (a < np.float32(np.inf)))

    def fround(self, a: Value, mode: str) -> Value:
        return _ROUND[mode](a)

    # -------------------------------------------------------------------------------- conversion

    @_quiet
    def fext(self, a: Value) -> Value:
        return a.astype(np.float64)

    @_quiet
    def fnarrow(self, a: Value) -> Value:
        return a.astype(np.float32)

    def sitof(self, a: Value, type: str) -> Value:
        return a.view(_SIGNED[a.dtype]).astype(_DTYPES[type])

    def uitof(self, a: Value, type: str) -> Value:
        return a.astype(_DTYPES[type])

    def ftosi(self, a: Value, type: str) -> Value:
        dtype = _DTYPES[type]
        return _to_integer(a, _SIGNED[dtype]).view(dtype)

    def ftoui(self, a: Value, type: str) -> Value:
        return _to_integer(a, _DTYPES[type])

    def half_to_f32(self, a: Value) -> Value:
        return a.view(np.float16).astype(np.float32)

    @_quiet
    def f32_to_half(self, a: Value) -> Value:
        return a.astype(np.float16).view(np.uint16)

    def low_half(self, a: Value) -> Value:
        return a.astype(np.uint16)

    def high_half(self, a: Value) -> Value:
        return (a >> np.uint32(16)).astype(np.uint16)

    def with_halves(self, low: Value, high: Value) -> Value:
        return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)

    def with_low_half(self, low: Value) -> Value:
        return low.astype(np.uint32)

    def table(self, a: Value, first: int, table: tuple[int, ...]) -> tuple[Value, Value]:
        found = np.array(table, np.uint64)[_entry(a, first, table)]
        return found.astype(np.uint32), (found >> np.uint64(32)).astype(np.uint32)

    def table_halves(self, a: Value, first: int, table: tuple[int, ...]) -> tuple[Value, Value]:
        found = np.array(table, np.uint32)[_entry(a, first, table)]
        return self.low_half(found), self.high_half(found)

    def rarely(
        self, some: Callable[..., Value], rare: Callable[..., Value], function: Callable[..., Value], usual: Value, *args: Value
    ) -> Value:
        return np.where(rare(self, usual, *args), function(self, *args), usual)

    def each(self, function: Callable[..., Value], type: str, *packed: Value) -> Value:
        spread = (np.ascontiguousarray(a).view(_DTYPES[type]) for a in np.broadcast_arrays(*packed))
        return np.ascontiguousarray(function(self, *spread)).view(packed[0].dtype)

    def call(self, function: F, *args: Value) -> Any:
        return function(self, *args)


def _entry(a: Value, first: int, table: tuple[int, ...]) -> Value:
    """The number of the entry of a table that the bits from ``first`` on select."""
    return a >> np.uint32(first) & np.uint32((1 << (len(table) - 1).bit_length()) - 1)


def _clamped(a: Value, amount: Value) -> tuple[Value, Value]:
    """Whether the shift amount is below the width, and an amount that is."""
    width = _constant(8 * a.dtype.itemsize, a.dtype)
    inside = amount < width
    return inside, np.where(inside, amount, _constant(0, a.dtype))


def _to_integer(a: Value, dtype: np.dtype[Any]) -> Value:
    info = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        whole = np.trunc(np.where(np.isnan(a), a.dtype.type(0), a))
        above = whole >= a.dtype.type(2.0 ** (info.bits - (dtype.kind == "i")))
        below = whole < a.dtype.type(info.min)
        inside = np.where(above | below, a.dtype.type(0), whole).astype(dtype)
    return np.where(above, dtype.type(info.max), np.where(below, dtype.type(info.min), inside))


# ------------------------------------------------------------------------ fused multiply-add


def _two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _to_odd(s: Value, error: Value) -> Value:
    """The float64 sum ``s + error`` rounded to odd, so that a second rounding gives the correct result."""
    inexact = (error > 0) | (error < 0)
    bits = s.view(np.uint64)
    outward = (error > 0) == (s > 0)
    step = np.where(outward, bits + np.uint64(1), bits - np.uint64(1))
    return np.where(inexact & (bits & np.uint64(1) == 0), step, bits).view(np.float64)


def _fma32(a: Value, b: Value, c: Value) -> Value:
    product = a.astype(np.float64) * b.astype(np.float64)  # exact
    return _to_odd(*_two_sum(product, c.astype(np.float64))).astype(np.float32)


def _split(a: Value) -> tuple[Value, Value]:
    t = 134217729.0 * a
    high = t - (t - a)
    return high, a - high


def _fma64(a: Value, b: Value, c: Value) -> Value:
    """Boldo and Melquiond's emulation where nothing can overflow or underflow, exact fractions elsewhere."""
    a, b, c = np.broadcast_arrays(a, b, c)
    product = a * b
    plain = product + c  # right where an operand is zero or not finite
    high, low = _split(a)
    bh, bl = _split(b)
    error = ((high * bh - product) + high * bl + low * bh) + low * bl
    t, tl = _two_sum(c, error)
    v, vl = _two_sum(product, t)
    result = v + _to_odd(*_two_sum(tl, vl))
    easy = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b)
    bounds = [np.abs(w) < 2.0**900 for w in (a, b, c, product)]
    safe = bounds[0] & bounds[1] & bounds[2] & bounds[3] & (np.abs(product) > 2.0**-900)
    result = np.where(easy, plain, result)
    for i in np.flatnonzero(~(easy | safe)):
        result[i] = c[i] + 0.0 if not np.isfinite(c[i]) else _fma_exact(float(a[i]), float(b[i]), float(c[i]))
    return result


def _fma_exact(a: float, b: float, c: float) -> float:
    from fractions import Fraction

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0
    try:
        return exact.numerator / exact.denominator  # correctly rounded
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
