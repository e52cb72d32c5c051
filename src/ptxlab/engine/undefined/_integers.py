"""Undefined bits of integers: constants, widths, arithmetic, logic, shifts, comparisons and selections."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from typing import Any

from ptxlab.engine.undefined._bounds import Range, Shadowed, UndefinedBounds, Value

__all__ = ["UndefinedIntegers"]


class UndefinedIntegers(UndefinedBounds):
    """The rules of a vocabulary of `Shadowed` values for integers."""

    # ---------------------------------------------------------------------------------------------------- constants, types

    def const(self, value: int | float, type: str) -> Shadowed:
        return Shadowed(self.x.const(value, type), None)

    def bits(self, pattern: int, type: str) -> Shadowed:
        return Shadowed(self.x.bits(pattern, type), None)

    def type(self, a: Shadowed) -> str:
        return str(self.x.type(a.value))

    def known(self, a: Shadowed) -> int | None:
        return None if a.undefined is not None else self.x.known(a.value)

    # --------------------------------------------------------------------------------------------------------------- width

    def bitcast(self, a: Shadowed, type: str) -> Shadowed:
        return Shadowed(self.x.bitcast(a.value, type), a.undefined)

    def _resized(self, name: str, a: Shadowed, type: str) -> Shadowed:
        resize = getattr(self.x, name)
        return Shadowed(resize(a.value, type), None if a.undefined is None else resize(a.undefined, type))

    def zext(self, a: Shadowed, type: str) -> Shadowed:
        result = self._resized("zext", a, type)
        return self._ranged(result, self._moved_range(a, result, lambda each: self.x.zext(each, type), self._from_zero))

    def sext(self, a: Shadowed, type: str) -> Shadowed:
        result = self._resized("sext", a, type)
        return self._ranged(result, self._moved_range(a, result, lambda each: self.x.sext(each, type)))

    def trunc(self, a: Shadowed, type: str) -> Shadowed:
        x, wide = self.x, self.x.type(a.value)

        def fit(least: Value, most: Value) -> Value:
            return x.and_(*(x.eq(x.sext(x.trunc(each, type), wide), each) for each in (least, most)))

        result = self._resized("trunc", a, type)
        return self._ranged(result, None if type == "i1" else self._moved_range(a, result, lambda each: x.trunc(each, type), fit))

    def _from_zero(self, least: Value, most: Value) -> Value:
        """Whether no number of a range is negative."""
        return self._is_positive(least)

    def _ranged(self, result: Shadowed, range: Range | None) -> Shadowed:
        return result if range is None or result.undefined is None else Shadowed(result.value, result.undefined, range)

    # ------------------------------------------------------------------------------------------------------------ integers

    def add(self, a: Shadowed, b: Shadowed) -> Shadowed:
        x, either = self.x, self._union(a, b)
        total = x.add(a.value, b.value)
        if either is None:
            return Shadowed(total, None)
        (low_a, high_a), (low_b, high_b) = self._bounds(a), self._bounds(b)
        result = Shadowed(total, x.or_(either, x.xor(x.add(low_a, low_b), x.add(high_a, high_b))))
        return self._ranged(result, self._sum_range(a, b, result))

    def sub(self, a: Shadowed, b: Shadowed) -> Shadowed:
        x, either = self.x, self._union(a, b)
        difference = x.sub(a.value, b.value)
        if either is None or a is b:
            return Shadowed(difference, None)
        (low_a, high_a), (low_b, high_b) = self._bounds(a), self._bounds(b)
        result = Shadowed(difference, x.or_(either, x.xor(x.sub(low_a, high_b), x.sub(high_a, low_b))))
        return self._ranged(result, self._difference_range(a, b, result))

    def mul(self, a: Shadowed, b: Shadowed) -> Shadowed:
        """Two bounds. The lowest bit that may change is that of one operand times the lowest bit that may be 1 of the other; the highest
        is that in which the smallest and the largest product differ, if none is too wide. By a power of two it is a shift. It is exact for
        one undefined bit, too.
        """
        x, result = self.x, self.x.mul(a.value, b.value)
        pairs = [(each, other) for each, other in ((a, b), (b, a)) if each.undefined is not None]
        if not pairs:
            return Shadowed(result, None)
        changes = [x.mul(self._lowest(each.undefined), self._lowest(self._bounds(other)[1])) for each, other in pairs]
        undefined = self._upward(reduce(x.or_, changes))
        type = x.type(result)
        (low_a, high_a), (low_b, high_b) = self._bounds(a), self._bounds(b)
        fits = x.ule(x.const(int(type[1:]), type), x.add(x.clz(high_a), x.clz(high_b)))
        between = self._between(result, x.mul(low_a, low_b), x.mul(high_a, high_b))
        undefined = x.and_(undefined, x.select(fits, self.mask(between), self.ones(type)))
        for each, other in pairs:
            many = x.and_(other.value, x.sub(other.value, x.const(1, type)))
            exact = x.eq(many if other.undefined is None else x.or_(many, other.undefined), self.zeros(type))
            undefined = x.select(exact, x.mul(each.undefined, other.value), undefined)
            if other.undefined is None:  # of one undefined bit there are two products
                rest = x.and_(each.undefined, x.sub(each.undefined, x.const(1, type)))
                two = x.xor(*(x.mul(bound, other.value) for bound in self._bounds(each)))
                undefined = x.select(x.eq(rest, self.zeros(type)), two, undefined)
        product = Shadowed(result, undefined)
        return self._ranged(product, self._product_range(a, b, product))

    def umulhi(self, a: Shadowed, b: Shadowed) -> Shadowed:
        """It grows with both operands."""
        result = self.x.umulhi(a.value, b.value)
        if a.undefined is None and b.undefined is None:
            return Shadowed(result, None)
        (low_a, high_a), (low_b, high_b) = self._bounds(a), self._bounds(b)
        return self._between(result, self.x.umulhi(low_a, low_b), self.x.umulhi(high_a, high_b))

    def smulhi(self, a: Shadowed, b: Shadowed) -> Shadowed:
        """Its extremes are among those of the extremes of both operands."""
        x, result = self.x, self.x.smulhi(a.value, b.value)
        if a.undefined is None and b.undefined is None:
            return Shadowed(result, None)
        rows, columns = (self._signed_bounds(each)[: 1 + (each.undefined is not None)] for each in (a, b))
        first, *others = (x.smulhi(row, column) for row in rows for column in columns)
        return self._between(result, first, x.xor(first, reduce(x.or_, (x.xor(first, each) for each in others))))

    def _extreme(self, name: str, a: Shadowed, b: Shadowed) -> Shadowed:
        """It grows with both operands, and has the bits in which they agree."""
        x, choose = self.x, getattr(self.x, name)
        result, either = choose(a.value, b.value), self._union(a, b)
        if either is None:
            return Shadowed(result, None)
        (low_a, high_a), (low_b, high_b) = (self._signed_range(e) if name[0] == "s" else self._unsigned_range(e) for e in (a, b))
        low, high = choose(low_a, low_b), choose(high_a, high_b)
        differ = x.or_(either, x.xor(a.value, b.value))
        extreme = Shadowed(result, x.and_(differ, self._between(result, low, high).undefined))
        if name[0] == "s":
            return self._ranged(extreme, lambda: (low, high))
        return self._ranged(extreme, cache(lambda: self._within(self._is_positive(x.xor(low, high)), low, high, extreme)))

    def smin(self, a: Shadowed, b: Shadowed) -> Shadowed:
        return self._extreme("smin", a, b)

    def smax(self, a: Shadowed, b: Shadowed) -> Shadowed:
        return self._extreme("smax", a, b)

    def umin(self, a: Shadowed, b: Shadowed) -> Shadowed:
        return self._extreme("umin", a, b)

    def umax(self, a: Shadowed, b: Shadowed) -> Shadowed:
        return self._extreme("umax", a, b)

    def neg(self, a: Shadowed) -> Shadowed:
        difference = self.sub(self.const(0, self.type(a)), a)
        return Shadowed(self.x.neg(a.value), difference.undefined, difference.range)

    def and_(self, a: Shadowed, b: Shadowed) -> Shadowed:
        """A defined 0 decides a bit."""
        x, either = self.x, self._union(a, b)
        if either is not None:
            for each in (a, b):
                either = x.and_(either, self._bounds(each)[1])
        result = Shadowed(x.and_(a.value, b.value), either)
        for each, mask in ((a, b), (b, a)):
            if each.range is not None and mask.undefined is None:
                result = self._ranged(result, self._masked_range(each, mask.value, result))
        return result

    def or_(self, a: Shadowed, b: Shadowed) -> Shadowed:
        """A defined 1 decides a bit."""
        x, either = self.x, self._union(a, b)
        if either is not None:
            for each in (a, b):
                either = x.and_(either, x.not_(self._bounds(each)[0]))
        return Shadowed(x.or_(a.value, b.value), either)

    def xor(self, a: Shadowed, b: Shadowed) -> Shadowed:
        return Shadowed(self.x.xor(a.value, b.value), None if a is b else self._union(a, b))

    def signed_as(self, a: Shadowed, b: Shadowed) -> Shadowed:
        if a.undefined is None:
            return a
        x, type = self.x, self.x.type(a.value)
        sign = x.const(1 << int(type[1:]) - 1, type)
        others = x.not_(sign)
        value = x.or_(x.and_(a.value, others), x.and_(b.value, sign))  # it differs from a only where it is not used
        return Shadowed(value, x.and_(a.undefined, x.or_(others, self.mask(b))))

    def not_(self, a: Shadowed) -> Shadowed:
        return Shadowed(self.x.not_(a.value), a.undefined)

    def _shifted(self, name: str, a: Shadowed, amount: Shadowed) -> Shadowed:
        """By one bit of the amount after the other, each of which selects; what lies above them shifts everything out."""
        x, shift = self.x, getattr(self.x, name)
        if amount.undefined is None:
            result = Shadowed(shift(a.value, amount.value), None if a.undefined is None else shift(a.undefined, amount.value))
            if name == "shl":
                return result
            holds = self._from_zero if name == "lshr" else None
            return self._ranged(result, self._moved_range(a, result, lambda each: shift(each, amount.value), holds))
        type = x.type(a.value)
        width = int(type[1:])
        moved = a
        for step in (1 << k for k in range(width.bit_length() - 1)):
            moved = self.select(self._bit(amount, step), self._shifted(name, moved, self.const(step, type)), moved)
        out = self._shifted(name, a, self.const(width, type))
        return self.select(self.ne(self.and_(amount, self.const(-width, type)), self.const(0, type)), out, moved)

    def _bit(self, a: Shadowed, bit: int) -> Shadowed:
        """Whether a bit is 1."""
        type = self.type(a)
        return self.ne(self.and_(a, self.const(bit, type)), self.const(0, type))

    def shl(self, a: Shadowed, amount: Shadowed) -> Shadowed:
        return self._shifted("shl", a, amount)

    def lshr(self, a: Shadowed, amount: Shadowed) -> Shadowed:
        return self._shifted("lshr", a, amount)

    def ashr(self, a: Shadowed, amount: Shadowed) -> Shadowed:
        return self._shifted("ashr", a, amount)

    def _counted(self, count: Callable[[Any], Any], a: Shadowed) -> Shadowed:
        """A count of bits, whose extremes are those with all undefined bits 0 and with all of them 1."""
        found = count(a.value)
        if a.undefined is None:
            return Shadowed(found, None)
        low, high = map(count, self._bounds(a))
        return self._ranged(self._between(found, low, high), cache(lambda: (self._smaller(low, high), self._larger(low, high))))

    def popc(self, a: Shadowed) -> Shadowed:
        return self._counted(self.x.popc, a)

    def clz(self, a: Shadowed) -> Shadowed:
        return self._counted(self.x.clz, a)

    def brev(self, a: Shadowed) -> Shadowed:
        return Shadowed(self.x.brev(a.value), None if a.undefined is None else self.x.brev(a.undefined))

    # ---------------------------------------------------------------------------------------------------------- comparison

    def eq(self, a: Shadowed, b: Shadowed) -> Shadowed:
        return self._equality(self.x.eq(a.value, b.value), a, b)

    def ne(self, a: Shadowed, b: Shadowed) -> Shadowed:
        return self._equality(self.x.ne(a.value, b.value), a, b)

    def _equality(self, result: Value, a: Shadowed, b: Shadowed) -> Shadowed:
        """Defined bits that differ decide it, and ranges without a common number."""
        x, either = self.x, self._union(a, b)
        if either is None:
            return Shadowed(result, None)
        differ = x.and_(x.xor(a.value, b.value), x.not_(either))
        zero = self.zeros(x.type(either))
        undecided = x.and_(x.ne(either, zero), x.eq(differ, zero))
        if a.range is not None or b.range is not None:
            (low_a, high_a), (low_b, high_b) = self._signed_range(a), self._signed_range(b)
            undecided = x.and_(undecided, x.and_(x.sle(low_a, high_b), x.sle(low_b, high_a)))
        return Shadowed(result, undecided)

    def _order(self, name: str, signed: bool, a: Shadowed, b: Shadowed) -> Shadowed:
        """The extremes that the operands may have decide it, if they agree."""
        compare, bounds = getattr(self.x, name), self._signed_range if signed else self._unsigned_range
        result = compare(a.value, b.value)
        if a.undefined is None and b.undefined is None:
            return Shadowed(result, None)
        (low_a, high_a), (low_b, high_b) = bounds(a), bounds(b)
        return Shadowed(result, self.x.xor(compare(low_a, high_b), compare(high_a, low_b)))

    def ult(self, a: Shadowed, b: Shadowed) -> Shadowed:
        return self._order("ult", False, a, b)

    def ule(self, a: Shadowed, b: Shadowed) -> Shadowed:
        return self._order("ule", False, a, b)

    def slt(self, a: Shadowed, b: Shadowed) -> Shadowed:
        return self._order("slt", True, a, b)

    def sle(self, a: Shadowed, b: Shadowed) -> Shadowed:
        return self._order("sle", True, a, b)

    def select(self, condition: Shadowed, a: Shadowed, b: Shadowed) -> Shadowed:
        """The chosen value; where the condition is undefined, the bits in which both agree are defined."""
        x = self.x
        chosen = x.select(condition.value, a.value, b.value)
        either = self._union(a, b)
        undefined = None if either is None else x.select(condition.value, self.mask(a), self.mask(b))
        if condition.undefined is not None:
            differ = x.xor(self._integer(a), self._integer(b))
            differ = differ if either is None else x.or_(differ, either)
            open_ = x.select(condition.undefined, differ, self.zeros(x.type(differ)))
            undefined = open_ if undefined is None else x.or_(undefined, open_)
        result = Shadowed(chosen, undefined)
        if a.range is None and b.range is None and condition.undefined is None:
            return result
        return self._ranged(result, self._chosen_range(condition, a, b))
