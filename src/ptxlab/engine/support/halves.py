"""From where halves of words come, and words that are made of them (`ptxlab.engine.context.HALVES_SHIFT`), in one lane or many."""

from __future__ import annotations

from ptxlab.engine.context import HALVES_SHIFT, MOST_HALVES, NO_SOURCE, half_distance
from ptxlab.native.builder import Value

__all__ = ["lower_half", "of_halves", "upper_half"]

_HALF = 2
"""Bytes."""
_FIELD = 2 * MOST_HALVES - 1


def lower_half(source: Value) -> Value:
    """From where the lower half of a word comes; `NO_SOURCE` and 0 as they are."""
    return source & (1 << HALVES_SHIFT) - 1


def upper_half(source: Value) -> Value:
    """From where the upper half of a word comes; `NO_SOURCE` and 0 as they are."""
    return source.ugt(NO_SOURCE).select(lower_half(source) + half_distance(source), source)


def of_halves(low: Value, high: Value) -> Value:
    """From where a word comes whose halves come from ``low`` and ``high``; 0 if it cannot be said."""
    apart = (high - low - _HALF).operation("ashr", 1)
    known = low.ugt(NO_SOURCE) & high.ugt(NO_SOURCE) & (apart + MOST_HALVES).ult(2 * MOST_HALVES)
    zeros = low.eq(NO_SOURCE) & high.eq(NO_SOURCE)
    return known.select(low + ((apart & _FIELD) << HALVES_SHIFT), zeros.select(low.constant(NO_SOURCE), 0))
