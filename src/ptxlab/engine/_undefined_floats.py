"""Undefined bits of floats: comparisons, and the signs and the NaNs of results."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from ptxlab.engine._undefined_bounds import Shadowed, UndefinedBounds, Value

__all__ = ["UndefinedFloats"]


class UndefinedFloats(UndefinedBounds):
    """The rules of a vocabulary of `Shadowed` values for floats."""

    # ---------------------------------------------------------------------------------------------------------- comparison

    def flt(self, a: Shadowed, b: Shadowed) -> Shadowed:
        return self._float_order("flt", a, b)

    def fle(self, a: Shadowed, b: Shadowed) -> Shadowed:
        return self._float_order("fle", a, b)

    def _float_order(self, name: str, a: Shadowed, b: Shadowed) -> Shadowed:
        """Undefined where it holds for some numbers that the operands may be, and not for all; a NaN makes it false."""
        x, compare = self.x, getattr(self.x, name)
        result = compare(a.value, b.value)
        some = self._any(a, b)
        if some is None:
            return Shadowed(result, None)
        (low_a, high_a), (low_b, high_b) = self._number_bounds(a), self._number_bounds(b)
        possible = x.and_(compare(low_a, high_b), x.not_(self._always_nan(a, b)))
        fails = x.or_(self._may_be_nan(a, b), x.not_(compare(high_a, low_b)))
        return Shadowed(result, x.and_(some, x.and_(possible, fails)))

    def feq(self, a: Shadowed, b: Shadowed) -> Shadowed:
        """False where an operand is a NaN whatever its undefined bits are, or where the operands have no number in common."""
        x, either = self.x, self._union(a, b)
        result = x.feq(a.value, b.value)
        if either is None:
            return Shadowed(result, None)
        none = self.zeros(x.type(either))
        differ = x.and_(x.xor(self._integer(a), self._integer(b)), x.not_(either))
        zero = x.const(0.0, x.type(a.value))
        zeros = x.and_(*(x.feq(self._magnitudes(each)[0], zero) for each in (self.fabs(a), self.fabs(b))))
        (low_a, high_a), (low_b, high_b) = self._number_bounds(a), self._number_bounds(b)
        common = x.and_(x.or_(zeros, x.eq(differ, none)), x.and_(x.fle(low_a, high_b), x.fle(low_b, high_a)))
        return Shadowed(result, x.and_(x.ne(either, none), x.and_(common, x.not_(self._always_nan(a, b)))))

    def isnan(self, a: Shadowed) -> Shadowed:
        """The magnitude decides."""
        result = self.x.isnan(a.value)
        if a.undefined is None:
            return Shadowed(result, None)
        return Shadowed(result, self.x.xor(self._always_nan(a), self._may_be_nan(a)))

    # --------------------------------------------------------------------------------------------------------------- signs

    def fneg(self, a: Shadowed) -> Shadowed:
        return Shadowed(self.x.fneg(a.value), a.undefined)

    def fabs(self, a: Shadowed) -> Shadowed:
        if a.undefined is None:
            return Shadowed(self.x.fabs(a.value), None)
        type = self.x.type(a.undefined)
        return Shadowed(self.x.fabs(a.value), self.x.and_(a.undefined, self.x.const((1 << int(type[1:]) - 1) - 1, type)))

    def _may_be_negative(self, a: Shadowed) -> Value:
        """The lanes in which the sign bit is 1 or undefined."""
        x, bits = self.x, self._integer(a)
        type = x.type(bits)
        set_ = bits if a.undefined is None else x.or_(bits, a.undefined)
        return x.ne(x.and_(set_, x.const(1 << int(type[1:]) - 1, type)), self.zeros(type))

    def _may_be_below_zero(self, a: Shadowed) -> Value:
        """The same without those in which the float is a zero, of either sign."""
        x, (_, high) = self.x, self._bounds(Shadowed(self._integer(a), a.undefined))
        type = x.type(high)
        return x.ult(x.const(1 << int(type[1:]) - 1, type), high)

    # -------------------------------------------------------------------------------------------------------------- bounds

    def _magnitudes(self, a: Shadowed) -> tuple[Value, Value]:
        """The float of the smallest and that of the largest magnitude, with a sign of 0 and of 1 where it is undefined."""
        if a.undefined is None:
            return a.value, a.value
        type = self.x.type(a.value)
        low, high = self._bounds(Shadowed(self._integer(a), a.undefined))
        return self.x.bitcast(low, type), self.x.bitcast(high, type)

    def _float_bounds(self, a: Shadowed) -> tuple[Value, Value]:
        """The smallest and the largest float."""
        if a.undefined is None:
            return a.value, a.value
        x, type = self.x, self.x.type(a.value)
        integer = x.type(a.undefined)
        sign = x.const(1 << int(integer[1:]) - 1, integer)
        low, high = self._bounds(Shadowed(self._integer(a), a.undefined))
        zero = self.zeros(integer)
        # Of a negative float the largest magnitude is the smallest float.
        negative = x.ne(x.and_(low, sign), zero)
        smallest = x.select(x.ne(x.and_(high, sign), zero), high, low)
        largest = x.select(negative, low, x.and_(high, x.not_(sign)))
        return x.bitcast(smallest, type), x.bitcast(largest, type)

    def _number_bounds(self, a: Shadowed) -> tuple[Value, Value]:
        """The smallest and the largest number; infinities instead of NaNs."""
        if a.undefined is None:
            return a.value, a.value
        x, type = self.x, self.x.type(a.value)
        infinity = x.const(float("inf"), type)
        low, high = self._float_bounds(a)
        return x.select(x.isnan(low), x.fneg(infinity), low), x.select(x.isnan(high), infinity, high)

    def _always_nan(self, *values: Shadowed) -> Value:
        """Where some value is a NaN whatever its undefined bits are."""
        return reduce(self.x.or_, (self.x.isnan(self._magnitudes(each)[0]) for each in values))

    def _may_be_nan(self, *values: Shadowed) -> Value:
        return reduce(self.x.or_, (self.x.isnan(self._magnitudes(each)[1]) for each in values))


def _any_negative(self: UndefinedFloats, *operands: Shadowed) -> Value:
    return reduce(self.x.or_, map(self._may_be_negative, operands))


def _product_negative(self: UndefinedFloats, a: Shadowed, b: Shadowed) -> Value:
    """Where the signs of two floats may differ."""
    bits = self.x.xor(self._integer(a), self._integer(b))
    return self._may_be_negative(Shadowed(bits, self._union(a, b)))


def _sum_negative(self: UndefinedFloats, a: Shadowed, b: Shadowed) -> Value:
    """Where an operand may be below zero; or both may be -0."""
    x = self.x
    both = x.and_(self._may_be_negative(a), self._may_be_negative(b))
    return x.or_(both, x.or_(self._may_be_below_zero(a), self._may_be_below_zero(b)))


def _difference_negative(self: UndefinedFloats, a: Shadowed, b: Shadowed) -> Value:
    return _sum_negative(self, a, self.fneg(b))


def _fused_negative(self: UndefinedFloats, a: Shadowed, b: Shadowed, c: Shadowed) -> Value:
    return self.x.or_(_product_negative(self, a, b), self._may_be_below_zero(c))


def _of_floats(name: str, negative: Callable[..., Value], makes_nan: bool) -> Callable[..., Shadowed]:
    """A function of floats all of whose bits depend on all bits of the operands, with two exceptions.

    The sign is defined where ``negative`` says that no result has one. If ``makes_nan``, the result of a NaN is a quiet NaN.
    """

    def evaluate(self: UndefinedFloats, *given: Any) -> Shadowed:
        x, result = self.x, self._whole(name, *given)
        if result.undefined is None:
            return result
        type = x.type(result.undefined)
        ones, sign = self.ones(type), x.const(1 << int(type[1:]) - 1, type)
        operands = [each for each in given if isinstance(each, Shadowed)]
        may_be = negative(self, *operands)
        if makes_nan:  # the processor's NaN may have a sign, which the callers replace
            may_be = x.or_(may_be, x.isnan(result.value))
        undefined = x.and_(result.undefined, x.select(may_be, ones, x.not_(sign)))
        if makes_nan:
            quiet = x.const({"i32": 0x7FC00000, "i64": 0x7FF8 << 48}[type], type)
            undefined = x.and_(undefined, x.select(self._always_nan(*operands), x.not_(quiet), ones))
        return Shadowed(result.value, undefined)

    return evaluate


_SIGNS: dict[str, Callable[..., Value]] = {
    "fadd": _sum_negative,
    "fsub": _difference_negative,
    "fmul": _product_negative,
    "fdiv": _product_negative,
    "fma": _fused_negative,
}
for _name in (*_SIGNS, "fsqrt", "fext", "fnarrow"):
    setattr(UndefinedFloats, _name, _of_floats(_name, _SIGNS.get(_name, _any_negative), True))
for _name in ("fround", "half_to_f32", "f32_to_half"):  # some processors hand on a NaN as it is
    setattr(UndefinedFloats, _name, _of_floats(_name, _any_negative, False))
