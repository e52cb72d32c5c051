"""From where parts of words come, and words that are made of them (`ptxlab.engine.word_sources.HALVES_SHIFT`), in one lane or many."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from ptxlab.engine.context import Word
from ptxlab.engine.word_sources import (
    BYTES_APART,
    GLOBAL_BIT,
    HALVES_SHIFT,
    LISTED,
    MOST_HALVES,
    NO_SOURCE,
    NUMBER_BITS,
    address_in,
    are_bytes_apart,
    byte_distance,
    distance_bits,
    half_distance,
)
from ptxlab.native.builder import Module, Value

__all__ = ["all_known", "byte_of", "define_listed", "half_of", "joined", "of_parts", "part_at", "part_of", "regular_of_parts"]

_BYTE, _HALF, _WORD = 1, 2, 4
"""Bytes."""


def define_listed(module: Module) -> None:
    """Define ``listed``: from where a word comes whose bytes come from four places, which it lists if it must; 0 if one is not known."""
    c, (context, *places) = module.define("i64 listed(ptr context, i64 a, i64 b, i64 c, i64 d)", internal=True)
    words = context.pointer(Word.LISTED_WORDS)
    with c.when(words.eq(0)):
        c.ret(0)
    count, last = words.load("i64", 0), words.load("i64", 1)
    every = []
    for place in places:
        byte = c.variable("i64", place)
        with c.when(place.lt(0)):
            number = place & (1 << NUMBER_BITS) - 1
            first = (place >> NUMBER_BITS) & (_WORD - 1)
            byte.set((count - number).ugt(last + 1).select(0, words.load("i64", ((number & last) + 1) * _WORD + first)))
        every.append(byte.get())
    with c.when(~all_known(every)):
        c.ret(0)
    regular = regular_of_parts(every)
    with c.when(regular.ne(0)):
        c.ret(regular)
    for i, source in enumerate(every):
        words.store(source, ((count & last) + 1) * _WORD + i)
    words.store(count + 1, 0)
    c.ret(count | LISTED)


def part_at(source: Value, byte: int, size: int) -> Value:
    """From where a part of a word comes that begins at a byte, an even one if it is a half; `NO_SOURCE` and 0 as they are."""
    if size == _WORD:
        return source
    if size == _HALF:
        return _upper_half(source) if byte >= _HALF else _lower_half(source)
    found: Value = address_in(source)
    if byte >= _HALF:
        found = found + half_distance(source)
    if byte % _HALF:
        found = found + byte_distance(source)
    return _of_listed(source, byte, source.ugt(NO_SOURCE).select(found, source) if byte else found)


def part_of(source: Value, number: Value, size: int) -> Value:
    """The same for a part that begins at a byte of which the number is known later."""
    return byte_of(source, number) if size == _BYTE else half_of(source, number & _HALF) if size == _HALF else source


def half_of(source: Value, upper: Value) -> Value:
    """From where the lower or the upper half of a word comes, as a bit says."""
    return upper.ne(0).select(_upper_half(source), _lower_half(source))


def byte_of(source: Value, number: Value) -> Value:
    """From where a byte of a word comes."""
    half = (number & _HALF).ne(0).select(address_in(source) + half_distance(source), address_in(source))
    byte = source.ugt(NO_SOURCE).select(half + (number & 1) * byte_distance(source), source)
    return _of_listed(source, number & (_WORD - 1), byte)


def _of_listed(source: Value, byte: Value | int, regular: Value) -> Value:
    """From where the part of a word comes that begins at a byte; ``regular`` is that of a word that is not listed."""
    return source.lt(0).select(source + (byte << NUMBER_BITS), regular)


def _lower_half(source: Value) -> Value:
    """From where the lower half of a word comes; `NO_SOURCE` and 0 as they are."""
    apart: Value = are_bytes_apart(source)
    return (apart.ne(0) | source.lt(0)).select(source, source & (1 << HALVES_SHIFT) - 1)


def _upper_half(source: Value) -> Value:
    """From where the upper half of a word comes; `NO_SOURCE` and 0 as they are."""
    return _of_listed(source, _HALF, source.ugt(NO_SOURCE).select(_lower_half(source) + half_distance(source), source))


def joined(a: Value, b: Value) -> Value:
    """From where a part comes that is the one of two that is not zero; 0 if it cannot be said."""
    return a.eq(NO_SOURCE).select(b, b.eq(NO_SOURCE).select(a, 0))


def of_parts(context: Value, parts: Sequence[Value]) -> Value:
    """From where a word comes that consists of one, two or four parts; 0 if one of them is not known.

    The module must have ``listed`` (`define_listed`) if there are several.
    """
    if len(parts) == 1:
        return parts[0]
    c, regular = context.function, regular_of_parts(parts)
    found = c.variable("i64", regular)
    with c.when(regular.eq(0) & all_known(parts)):
        every = parts if len(parts) == _WORD else [part_at(part, byte, _BYTE) for part in parts for byte in range(_HALF)]
        found.set(c.call("listed", "i64", context, *every))
    return found.get()


def all_known(parts: Sequence[Value]) -> Value:
    """Whether it is known from where all parts come."""
    return reduce(and_, (part.ne(0) for part in parts))


def regular_of_parts(parts: Sequence[Value]) -> Value:
    """The same as an address and distances; 0 if they cannot say it."""
    if len(parts) == _HALF:
        return _of_halves(*parts)
    return _of_halves(*(_of_bytes(parts[i], parts[i + 1]) for i in (0, _HALF)))


def _of_bytes(low: Value, high: Value) -> Value:
    """From where a half comes; 0 if an address and a distance cannot say it."""
    apart = high - low - 1
    known = low.gt(NO_SOURCE) & high.gt(NO_SOURCE) & (apart + MOST_HALVES).ult(2 * MOST_HALVES)
    bytes_apart = known & (low & GLOBAL_BIT).ne(0) & apart.ne(0)
    together = (known & apart.eq(0)) | (low.eq(NO_SOURCE) & high.eq(NO_SOURCE))
    return bytes_apart.select(low + BYTES_APART + distance_bits(apart), together.select(low, 0))


def _of_halves(low: Value, high: Value) -> Value:
    """From where a word comes whose halves come from ``low`` and ``high``; 0 if an address and distances cannot say it."""
    apart: Value = (high - low - _HALF).operation("ashr", 1)
    known = low.gt(NO_SOURCE) & high.gt(NO_SOURCE)
    even = known & ((high - low) & 1).eq(0) & (apart + MOST_HALVES).ult(2 * MOST_HALVES)
    bytes_apart: Value = are_bytes_apart(low) | are_bytes_apart(high)
    # Halves whose bytes are apart, and zeros, make a word only if the bytes go on in the same steps.
    together = (known & high.eq(low + half_distance(low))) | (low.eq(NO_SOURCE) & high.eq(NO_SOURCE))
    return (even & bytes_apart.eq(0)).select(low + distance_bits(apart), together.select(low, 0))
