"""Undefined bits through the semantics of instructions: a vocabulary whose values carry which of their bits are undefined.

The meaning of an instruction is written once, over the vocabulary of `ptxlab.isa._vocabulary`. `ShadowVocabulary` wraps another vocabulary
and evaluates the same function on pairs: a value, and a mask in which 1 stands for an undefined bit. A bit that it calls defined has the
same value whatever stands in the undefined bits of the operands. The rules are those of memcheck: exact for moves, logic, shifts,
selections, conversions of width, and comparisons that defined bits decide; additions by the smallest and largest values that the operands
may have, and so high products, minima and maxima; between the lowest and the highest bit that may change for other products; all bits for
division; for floating point all bits but signs that those of the operands decide, and NaNs (`UndefinedFloats`). Integers that are computed
from such bits have a range besides (`Range`), by which comparisons are decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeVar

from ptxlab.engine.undefined._bounds import INTEGER, Range, Shadowed, Value, Vocabulary
from ptxlab.engine.undefined._floats import UndefinedFloats
from ptxlab.engine.undefined._integers import UndefinedIntegers

__all__ = ["Range", "ShadowVocabulary", "Shadowed", "operands_once"]

F = TypeVar("F", bound=Callable[..., Any])


class ShadowVocabulary(UndefinedIntegers, UndefinedFloats):
    """The vocabulary over `Shadowed` values; ``x`` is the vocabulary of their parts."""

    def subnormal_or_nan(self, a: Shadowed) -> Shadowed:
        size = self.fabs(a)
        nonzero = self.ne(self.bitcast(size, "i32"), self.const(0, "i32"))
        subnormal = self.and_(self.flt(size, self.const(2.0**-126, "f32")), nonzero)
        return Shadowed(self.x.subnormal_or_nan(a.value), self.or_(self.isnan(a), subnormal).undefined)

    def low_half(self, a: Shadowed) -> Shadowed:
        return self._half(self.x.low_half, a)

    def high_half(self, a: Shadowed) -> Shadowed:
        return self._half(self.x.high_half, a)

    def _half(self, half: Callable[[Value], Value], a: Shadowed) -> Shadowed:
        return Shadowed(half(a.value), None if a.undefined is None else half(a.undefined))

    def with_halves(self, low: Shadowed, high: Shadowed) -> Shadowed:
        undefined = None if self._union(low, high) is None else self.x.with_halves(self.mask(low), self.mask(high))
        return Shadowed(self.x.with_halves(low.value, high.value), undefined)

    def with_low_half(self, low: Shadowed) -> Shadowed:
        undefined = None if low.undefined is None else self.x.with_low_half(low.undefined)
        return Shadowed(self.x.with_low_half(low.value), undefined)

    def table(self, a: Shadowed, first: int, table: tuple[int, ...]) -> tuple[Shadowed, Shadowed]:
        selecting = self._selecting(a, first, table)
        low, high = self.x.table(a.value, first, table)
        return self._all_or_nothing(low, selecting), self._all_or_nothing(high, selecting)

    def table_halves(self, a: Shadowed, first: int, table: tuple[int, ...]) -> tuple[Shadowed, Shadowed]:
        undefined = self.low_half(self._all_or_nothing(a.value, self._selecting(a, first, table))).undefined
        low, high = self.x.table_halves(a.value, first, table)
        return Shadowed(low, undefined), Shadowed(high, undefined)

    def _selecting(self, a: Shadowed, first: int, table: tuple[int, ...]) -> Shadowed:
        """The bits that select an entry of a table."""
        return self.and_(a, self.const((1 << (len(table) - 1).bit_length()) - 1 << first, "i32"))

    def rarely(
        self,
        some: Callable[..., Shadowed],
        rare: Callable[..., Shadowed],
        function: Callable[..., Shadowed],
        usual: Shadowed,
        *args: Shadowed,
    ) -> Shadowed:
        return self.select(rare(self, usual, *args), self.call(function, *args), usual)

    def each(self, function: Callable[..., Shadowed], type: str, *packed: Shadowed) -> Shadowed:
        given = [p.value for p in packed] + [p.undefined for p in packed if p.undefined is not None]

        def evaluate(x: Vocabulary, *parts: Value) -> tuple[ShadowVocabulary, Shadowed]:
            masks = iter(parts[len(packed) :])
            integer = INTEGER.get(type, type)
            elements = (
                Shadowed(part, None if whole.undefined is None else _as(x, next(masks), integer))
                for part, whole in zip(parts[: len(packed)], packed, strict=False)
            )
            inner = ShadowVocabulary(x)
            return inner, function(inner, *elements)

        def value(x: Vocabulary, *parts: Value) -> Value:
            return evaluate(x, *parts)[1].value

        def undefined(x: Vocabulary, *parts: Value) -> Value:
            inner, result = evaluate(x, *parts)
            return inner.mask(result)

        if len(given) == len(packed):
            return Shadowed(self.x.each(value, type, *given), None)
        return Shadowed(self.x.each(value, type, *given), self.x.each(undefined, type, *given))

    def call(self, function: F, *args: Shadowed) -> Any:
        partly = tuple(each.undefined is not None for each in args)
        values, masks = [each.value for each in args], [each.undefined for each in args if each.undefined is not None]
        result = self.x.call(function, *values)
        if not masks:
            return _paired(result, None)
        return _paired(result, self.x.call(_shadow_of(function, partly), *values, *masks))


def operands_once(operands: Iterable[Any], types: Iterable[str], given: Iterable[Any]) -> list[Any]:
    """The same value for operands that name the same register as the same type: of a square and of a difference more is known."""
    seen: dict[Any, Any] = {}
    return [
        seen.setdefault((operand, type), value) if isinstance(value, Shadowed) else value
        for operand, type, value in zip(operands, types, given, strict=True)
    ]


def _as(x: Vocabulary, a: Value, type: str) -> Value:
    """An integer mask that has been given the type of the elements."""
    return a if x.type(a) == type else x.bitcast(a, type)


def _paired(result: Any, undefined: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(_paired(each, None if undefined is None else undefined[i]) for i, each in enumerate(result))
    return Shadowed(result, undefined)


@lru_cache(maxsize=4096)
def _shadow_of(function: Callable[..., Any], partly: tuple[bool, ...]) -> Callable[..., Any]:
    """The masks of what a function gives, as a function of its arguments and of the masks of those that are partly undefined."""

    def shadow(x: Vocabulary, *given: Value) -> Any:
        masks = iter(given[len(partly) :])
        inner = ShadowVocabulary(x)
        result = function(inner, *(Shadowed(value, next(masks) if part else None) for value, part in zip(given, partly, strict=False)))
        return tuple(map(inner.mask, result)) if isinstance(result, tuple) else inner.mask(result)

    shadow.__name__ = f"shadow_{function.__name__}"
    return shadow


def _everything(name: str) -> Callable[..., Shadowed]:
    """A function of values all of whose bits depend on all bits of the operands; what follows the operands is passed on."""

    def evaluate(self: ShadowVocabulary, *given: Any) -> Shadowed:
        return self._whole(name, *given)

    return evaluate


for _name in ("dot", "reciprocal_toward_zero", "udiv", "urem", "sdiv", "srem", "sitof", "uitof", "ftosi", "ftoui"):
    setattr(ShadowVocabulary, _name, _everything(_name))
