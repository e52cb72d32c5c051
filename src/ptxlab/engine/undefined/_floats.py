"""Undefined bits of floats: comparisons, and the signs and the NaNs of results."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from ptxlab.engine.undefined._bounds import Shadowed, UndefinedBounds, Value

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

    def _sign_bit(self, a: Value) -> Value:
        """The lanes in which the highest bit of an integer is 1."""
        return self.x.slt(a, self.zeros(self.x.type(a)))

    def _open_sign(self, *operands: Shadowed) -> Value:
        """The lanes in which the sign of some operand is undefined."""
        return reduce(self.x.or_, (self._sign_bit(self.mask(each)) for each in operands))

    def _is_minus_zero(self, a: Shadowed) -> Value:
        type = self.x.type(self._integer(a))
        minus_zero = self.x.const(1 << int(type[1:]) - 1, type)
        return self.x.and_(self.x.eq(self._integer(a), minus_zero), self.x.eq(self.mask(a), self.zeros(type)))

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


def _product_sign(self: UndefinedFloats, a: Shadowed, b: Shadowed) -> Value:
    """That of a square is 0."""
    return self.x.const(0, "i1") if a is b else self._open_sign(a, b)


def _sum_sign(self: UndefinedFloats, a: Shadowed, b: Shadowed) -> Value:
    """Signs that are not equal, or not defined; -0 changes no sign."""
    x = self.x
    open_ = x.or_(self._open_sign(a, b), self._sign_bit(x.xor(self._integer(a), self._integer(b))))
    for each, other in ((a, b), (b, a)):
        open_ = x.and_(open_, x.or_(x.not_(self._is_minus_zero(each)), self._open_sign(other)))
    return open_


def _difference_sign(self: UndefinedFloats, a: Shadowed, b: Shadowed) -> Value:
    return _sum_sign(self, a, self.fneg(b))


def _fused_sign(self: UndefinedFloats, a: Shadowed, b: Shadowed, c: Shadowed) -> Value:
    """Those of a sum; the product need not be computed for its sign."""
    x = self.x
    bits, one = x.xor(self._integer(a), self._integer(b)), x.const(1, x.type(self._integer(a)))
    return _sum_sign(self, Shadowed(x.or_(bits, one), None if a is b else self._union(a, b)), c)


def _root_sign(self: UndefinedFloats, a: Shadowed) -> Value:
    return self.x.or_(self._open_sign(a), self._sign_bit(self._integer(a)))


def _of_floats(name: str, open_sign: Callable[..., Value], makes_nan: bool) -> Callable[..., Shadowed]:
    """A function of floats all of whose bits depend on all bits of the operands, with two exceptions.

    The sign is undefined where ``open_sign`` says so. If ``makes_nan``, the result of a NaN is a quiet NaN.
    """

    def evaluate(self: UndefinedFloats, *given: Any) -> Shadowed:
        x, result = self.x, self._whole(name, *given)
        if result.undefined is None:
            return result
        type = x.type(result.undefined)
        ones, sign = self.ones(type), x.const(1 << int(type[1:]) - 1, type)
        operands = [each for each in given if isinstance(each, Shadowed)]
        open_ = open_sign(self, *operands)
        if makes_nan:  # the processor's NaN may have a sign, which the callers replace
            open_ = x.or_(open_, x.isnan(result.value))
        undefined = x.and_(result.undefined, x.select(open_, ones, x.not_(sign)))
        if makes_nan:
            quiet = x.const({"i32": 0x7FC00000, "i64": 0x7FF8 << 48}[type], type)
            undefined = x.and_(undefined, x.select(self._always_nan(*operands), x.not_(quiet), ones))
        return Shadowed(result.value, undefined)

    return evaluate


_SIGNS: dict[str, Callable[..., Value]] = {
    "fadd": _sum_sign,
    "fsub": _difference_sign,
    "fmul": _product_sign,
    "fdiv": UndefinedFloats._open_sign,
    "fma": _fused_sign,
    "fsqrt": _root_sign,
    "fext": UndefinedFloats._open_sign,
    "fnarrow": UndefinedFloats._open_sign,
}
for _name, _function in _SIGNS.items():
    setattr(UndefinedFloats, _name, _of_floats(_name, _function, True))
for _name in ("fround", "half_to_f32", "f32_to_half"):  # some processors hand on a NaN as it is
    setattr(UndefinedFloats, _name, _of_floats(_name, UndefinedFloats._open_sign, False))
