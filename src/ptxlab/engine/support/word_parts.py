"""From where parts of words come, and words that are made of them (`ptxlab.engine.context.HALVES_SHIFT`), in one lane or many."""

from __future__ import annotations

from collections.abc import Sequence

from ptxlab.engine.context import HALVES_SHIFT, MOST_HALVES, NO_SOURCE, half_distance
from ptxlab.native.builder import Value

__all__ = ["byte_of", "half_of", "joined", "of_parts", "part_at"]

_HALF, _WORD = 2, 4
"""Bytes."""
_FIELD = 2 * MOST_HALVES - 1


def part_at(source: Value, byte: int, size: int) -> Value:
    """From where a part of a word comes that begins at a byte; `NO_SOURCE` and 0 as they are."""
    if size == _WORD:
        return source
    half = _upper_half(source) if byte >= _HALF else _lower_half(source)
    return half.ugt(NO_SOURCE).select(half + 1, half) if byte % _HALF else half


def half_of(source: Value, upper: Value) -> Value:
    """From where the lower or the upper half of a word comes, as a bit says."""
    return upper.ne(0).select(_upper_half(source), _lower_half(source))


def byte_of(source: Value, number: Value) -> Value:
    """From where a byte of a word comes."""
    half = half_of(source, number & _HALF)
    return half.ugt(NO_SOURCE).select(half + (number & 1), half)


def _lower_half(source: Value) -> Value:
    """From where the lower half of a word comes; `NO_SOURCE` and 0 as they are."""
    return source & (1 << HALVES_SHIFT) - 1


def _upper_half(source: Value) -> Value:
    """From where the upper half of a word comes; `NO_SOURCE` and 0 as they are."""
    return source.ugt(NO_SOURCE).select(_lower_half(source) + half_distance(source), source)


def joined(a: Value, b: Value) -> Value:
    """From where a part comes that is the one of two that is not zero; 0 if it cannot be said."""
    return a.eq(NO_SOURCE).select(b, b.eq(NO_SOURCE).select(a, 0))


def of_parts(parts: Sequence[Value]) -> Value:
    """From where a word comes that consists of one, two or four parts; 0 if it cannot be said."""
    if len(parts) == 1:
        return parts[0]
    if len(parts) == _HALF:
        return _of_halves(*parts)
    return _of_halves(*(_of_bytes(parts[i], parts[i + 1]) for i in (0, _HALF)))


def _of_bytes(low: Value, high: Value) -> Value:
    """From where a half comes; 0 if its bytes are not neighbours."""
    together = low.ugt(NO_SOURCE) & high.eq(low + 1)
    return (together | (low.eq(NO_SOURCE) & high.eq(NO_SOURCE))).select(low, 0)


def _of_halves(low: Value, high: Value) -> Value:
    """From where a word comes whose halves come from ``low`` and ``high``; 0 if it cannot be said."""
    apart = (high - low - _HALF).operation("ashr", 1)
    known = low.ugt(NO_SOURCE) & high.ugt(NO_SOURCE) & (apart + MOST_HALVES).ult(2 * MOST_HALVES)
    zeros = low.eq(NO_SOURCE) & high.eq(NO_SOURCE)
    return known.select(low + ((apart & _FIELD) << HALVES_SHIFT), zeros.select(low.constant(NO_SOURCE), 0))
