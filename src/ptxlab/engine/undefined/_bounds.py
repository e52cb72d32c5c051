"""A value with its undefined bits, and the smallest and largest values that it may have."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from ptxlab._records import dataclass

__all__ = ["INTEGER", "Range", "Shadowed", "UndefinedBounds", "Value", "Vocabulary"]

Value: TypeAlias = Any
Vocabulary: TypeAlias = Any
"""`LlvmVocabulary` or `NumpyVocabulary`."""
Range: TypeAlias = Callable[[], tuple[Value, Value]]
"""Finds the smallest and the largest signed number that an integer may be. Most are never asked for, and cost nothing then."""

INTEGER = {"f32": "i32", "f64": "i64"}


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A value and the mask of its undefined bits: an integer of the same width, or None where all bits are defined.

    ``range`` is what is known besides the mask. Where a sum may be 7 or 8, the mask says that it is any number from 0 to 15.
    """

    value: Value
    undefined: Value | None
    range: Range | None = None


class UndefinedBounds:
    """What the rules for undefined bits have in common; ``x`` is the vocabulary of values and masks."""

    def __init__(self, x: Vocabulary) -> None:
        self.x = x

    def zeros(self, type: str) -> Value:
        """The mask of a value all of whose bits are defined."""
        return self.x.const(0, INTEGER.get(type, type))

    def ones(self, type: str) -> Value:
        """The mask of a value all of whose bits are undefined."""
        return self.x.not_(self.zeros(type))

    def mask(self, a: Shadowed) -> Value:
        """The mask of undefined bits, as a value."""
        return self.zeros(self.x.type(a.value)) if a.undefined is None else a.undefined

    def _integer(self, a: Shadowed) -> Value:
        """The bits of a value."""
        type = self.x.type(a.value)
        return self.x.bitcast(a.value, INTEGER[type]) if type in INTEGER else a.value

    def _any(self, *values: Shadowed) -> Value | None:
        """The lanes in which some bit is undefined; None for no lane."""
        x = self.x
        found = None
        for each in values:
            if each.undefined is not None:
                some = each.undefined if x.type(each.undefined) == "i1" else x.ne(each.undefined, self.zeros(x.type(each.undefined)))
                found = some if found is None else x.or_(found, some)
        return found

    def _all_or_nothing(self, result: Value, *values: Shadowed) -> Shadowed:
        """A result all of whose bits depend on all bits of the operands."""
        some = self._any(*values)
        if some is None:
            return Shadowed(result, None)
        type = self.x.type(result)
        return Shadowed(result, some if type == "i1" else self.x.select(some, self.ones(type), self.zeros(type)))

    def _whole(self, name: str, *given: Any) -> Shadowed:
        """A function of values all of whose bits depend on all bits of the operands; what follows the operands is passed on."""
        operands = [each for each in given if isinstance(each, Shadowed)]
        result = getattr(self.x, name)(*(each.value if isinstance(each, Shadowed) else each for each in given))
        return self._all_or_nothing(result, *operands)

    def _union(self, a: Shadowed, b: Shadowed) -> Value | None:
        if a.undefined is None or b.undefined is None:
            return b.undefined if a.undefined is None else a.undefined
        return self.x.or_(a.undefined, b.undefined)

    def _bounds(self, a: Shadowed) -> tuple[Value, Value]:
        """The smallest and the largest unsigned number that an integer may be."""
        if a.undefined is None:
            return a.value, a.value
        return self.x.and_(a.value, self.x.not_(a.undefined)), self.x.or_(a.value, a.undefined)

    def _upward(self, undefined: Value) -> Value:
        """The lowest bit of a mask and all bits above it."""
        return self.x.or_(undefined, self.x.neg(undefined))

    def _lowest(self, a: Value) -> Value:
        """The lowest bit that is 1, alone."""
        return self.x.and_(a, self.x.neg(a))

    def _between(self, result: Value, low: Value, high: Value) -> Shadowed:
        """A result that may be any number between two."""
        x = self.x
        differ = x.xor(low, high)
        return Shadowed(result, x.lshr(self.ones(x.type(result)), x.clz(differ)))

    def _signed_bounds(self, a: Shadowed) -> tuple[Value, Value]:
        """The smallest and the largest signed number that an integer may be."""
        if a.undefined is None:
            return a.value, a.value
        x, type = self.x, self.x.type(a.value)
        low, high = self._bounds(a)
        sign = x.and_(a.undefined, x.const(1 << int(type[1:]) - 1, type))
        return x.or_(low, sign), x.and_(high, x.not_(sign))

    def _signed_range(self, a: Shadowed) -> tuple[Value, Value]:
        """The same, by the range too."""
        low, high = self._signed_bounds(a)
        if a.undefined is None or a.range is None:
            return low, high
        least, most = a.range()
        return self._larger(low, least), self._smaller(high, most)

    def _unsigned_range(self, a: Shadowed) -> tuple[Value, Value]:
        """The smallest and the largest unsigned number that an integer may be, by the range too, if all numbers in it have one sign."""
        low, high = self._bounds(a)
        if a.undefined is None or a.range is None:
            return low, high
        least, most = self._signed_range(a)
        one_sign = self._is_positive(self.x.xor(least, most))
        return self.x.select(one_sign, least, low), self.x.select(one_sign, most, high)

    def _smaller(self, a: Value, b: Value) -> Value:
        return self.x.select(self.x.slt(a, b), a, b)

    def _larger(self, a: Value, b: Value) -> Value:
        return self.x.select(self.x.slt(a, b), b, a)

    def _is_positive(self, a: Value) -> Value:
        return self.x.sle(self.zeros(self.x.type(a)), a)

    def _within(self, holds: Value, low: Value, high: Value, otherwise: Shadowed) -> tuple[Value, Value]:
        """A range where a condition holds; elsewhere the range that the mask gives."""
        least, most = self._signed_bounds(otherwise)
        return self.x.select(holds, low, least), self.x.select(holds, high, most)

    def _sum_range(self, a: Shadowed, b: Shadowed, total: Shadowed) -> Range:
        """The range of a sum, unless it wraps."""

        @cache
        def find() -> tuple[Value, Value]:
            x = self.x
            (low_a, high_a), (low_b, high_b) = self._signed_range(a), self._signed_range(b)
            low, high = x.add(low_a, low_b), x.add(high_a, high_b)
            wraps = (x.and_(x.xor(p, s), x.xor(q, s)) for p, q, s in ((low_a, low_b, low), (high_a, high_b, high)))
            return self._within(self._is_positive(x.or_(*wraps)), low, high, total)

        return find

    def _difference_range(self, a: Shadowed, b: Shadowed, difference: Shadowed) -> Range:
        """The range of a difference, unless it wraps."""

        @cache
        def find() -> tuple[Value, Value]:
            x = self.x
            (low_a, high_a), (low_b, high_b) = self._signed_range(a), self._signed_range(b)
            low, high = x.sub(low_a, high_b), x.sub(high_a, low_b)
            wraps = (x.and_(x.xor(p, q), x.xor(p, s)) for p, q, s in ((low_a, high_b, low), (high_a, low_b, high)))
            return self._within(self._is_positive(x.or_(*wraps)), low, high, difference)

        return find

    def _product_range(self, a: Shadowed, b: Shadowed, product: Shadowed) -> Range | None:
        """The range of a product of numbers that are not negative, unless it is too wide."""
        if a.range is None and b.range is None:
            return None

        @cache
        def find() -> tuple[Value, Value]:
            x, type = self.x, self.x.type(product.value)
            (low_a, high_a), (low_b, high_b) = self._signed_range(a), self._signed_range(b)
            fits = x.ult(x.const(int(type[1:]), type), x.add(x.clz(high_a), x.clz(high_b)))
            holds = x.and_(fits, x.and_(self._is_positive(low_a), self._is_positive(low_b)))
            return self._within(holds, x.mul(low_a, low_b), x.mul(high_a, high_b), product)

        return find

    def _chosen_range(self, condition: Shadowed, a: Shadowed, b: Shadowed) -> Range | None:
        """The range of one of two integers."""
        if self.x.type(a.value)[0] != "i" or self.x.type(a.value) == "i1":
            return None

        @cache
        def find() -> tuple[Value, Value]:
            x = self.x
            (low_a, high_a), (low_b, high_b) = self._signed_range(a), self._signed_range(b)
            low, high = x.select(condition.value, low_a, low_b), x.select(condition.value, high_a, high_b)
            if condition.undefined is not None:
                low = x.select(condition.undefined, self._smaller(low_a, low_b), low)
                high = x.select(condition.undefined, self._larger(high_a, high_b), high)
            return low, high

        return find

    def _moved_range(
        self, a: Shadowed, result: Shadowed, move: Callable[[Value], Value], holds: Callable[[Value, Value], Value] | None = None
    ) -> Range | None:
        """The range of a result that keeps the order of numbers; ``holds`` says for which smallest and largest number it does."""
        if a.range is None:
            return None

        @cache
        def find() -> tuple[Value, Value]:
            least, most = self._signed_range(a)
            low, high = move(least), move(most)
            return (low, high) if holds is None else self._within(holds(least, most), low, high, result)

        return find

    def _masked_range(self, a: Shadowed, mask: Value, result: Shadowed) -> Range | None:
        """The range of the low bits of a number that has no others."""
        x, type = self.x, self.x.type(a.value)
        number = x.known(mask)
        mask = mask if number is None else x.const(number, type)

        def inside(least: Value, most: Value) -> Value:
            low_bits = x.eq(x.and_(mask, x.add(mask, x.const(1, type))), self.zeros(type))
            return x.and_(x.and_(low_bits, self._is_positive(least)), x.sle(most, mask))

        return self._moved_range(a, result, lambda each: each, inside)
