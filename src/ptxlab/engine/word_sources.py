"""From where the words come that are copied as they are: an address in global memory for each word, with what says of its other bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "BYTES_APART",
    "FIRST_CELL",
    "GLOBAL_BIT",
    "HALVES_SHIFT",
    "IN_BYTES",
    "LISTED",
    "LOADED_BYTE_SHIFT",
    "MOST_HALVES",
    "NO_SOURCE",
    "NUMBER_BITS",
    "address_in",
    "are_bytes_apart",
    "byte_distance",
    "byte_source",
    "distance_bits",
    "half_distance",
    "half_source",
    "part_source",
    "word_source",
]

NO_SOURCE = 1
"""In place of an address where zeros have been written for what was not read."""
FIRST_CELL = NO_SOURCE + 1
"""What is added to addresses of tensor memory that are noted, so that the first ones are not taken for zeros."""
LOADED_BYTE_SHIFT = 32
"""Above this bit stands which byte of what tcgen05.ld has loaded from such an address a register holds."""
HALVES_SHIFT = 48
"""Above this bit of an address in global memory, 15 bits say from where the other parts of the word come.

They are half the distance of the upper half from the lower half, less one, a signed number: 0 where the halves are neighbours, as in all
words but those that have been transposed or exchanged. A half may have them too, if it has `BYTES_APART`.
"""
MOST_HALVES = 1 << 14
"""That number is less than this, and at least the negative of it."""
_APART_SHIFT = 46
BYTES_APART = 1 << _APART_SHIFT
"""Set if the bytes of a half are as far apart as those of the word: half the distance of the halves.

No address in global memory has this bit and the one above it.
"""
GLOBAL_BIT = 2 * BYTES_APART
"""An address without this bit cannot say that bytes are apart."""
_ADDRESS = (1 << HALVES_SHIFT) - 1
NUMBER_BITS = 61
LISTED = 1 << 63
"""Set if the bytes come from any places: the lower `NUMBER_BITS` say which word of a list it is (`ptxlab.engine.listed_words`).

The two bits above these say which of its bytes is the first one, of a part of a word.
"""
IN_BYTES = (1 << 64) - 1
"""In place of the source of a word of shared memory if the sources of its bytes say it (`ptxlab.engine.context.Word.COPIED_BYTES`)."""


def are_bytes_apart(source: Any) -> Any:
    """1 if the bytes of a half are apart, else 0; of numbers, arrays, and values of compiled code."""
    return _apart_bit(source) >> _APART_SHIFT


def address_in(source: Any) -> Any:
    """The global address of the first byte; of numbers, arrays, and values of compiled code."""
    return (source & _ADDRESS) ^ _apart_bit(source)


def _apart_bit(source: Any) -> Any:
    return source & (source >> 1) & BYTES_APART


def half_distance(source: Any) -> Any:
    """Bytes in global memory from the lower to the upper half of a word; of numbers, arrays, and values of compiled code.

    >>> address = 0x801000000000
    >>> half_distance(address), half_distance(address | 127 << HALVES_SHIFT), half_distance(address | 0x7FFE << HALVES_SHIFT)
    (2, 256, -2)
    """
    return (((source >> HALVES_SHIFT) ^ MOST_HALVES) - (MOST_HALVES - 1)) * 2


def distance_bits(apart: Any) -> Any:
    """The bits above an address for a distance of halves: half of it, less one; of numbers, and values of compiled code."""
    return (apart & 2 * MOST_HALVES - 1) << HALVES_SHIFT


def byte_distance(source: Any) -> Any:
    """Bytes in global memory from the first to the second byte of a half; of numbers, arrays, and values of compiled code."""
    return are_bytes_apart(source) * ((source >> HALVES_SHIFT ^ MOST_HALVES) - MOST_HALVES) + 1


def byte_source(source: Any, byte: Any) -> Any:
    """From where a byte of a word or a half comes; of numbers, arrays, and values of compiled code, but not of `NO_SOURCE` and 0."""
    apart = _apart_bit(source)
    distance = (source >> HALVES_SHIFT ^ MOST_HALVES) - MOST_HALVES
    first = (source & _ADDRESS) ^ apart
    return first + (byte >> 1) * ((distance + 1) * 2) + (byte & 1) * ((apart >> _APART_SHIFT) * distance + 1)


def part_source(source: int, byte: int, size: int) -> int:
    """From where so many bytes of a word come, from an even one on if they are two; `NO_SOURCE` and 0 as they are."""
    if source & LISTED:
        return source + (byte << NUMBER_BITS)
    if size > 2 or source <= NO_SOURCE:
        return source
    if size == 2 and are_bytes_apart(source):
        return source + (byte >> 1) * int(half_distance(source))
    return int(byte_source(source, byte))


def word_source(parts: Sequence[int]) -> int:
    """From where a word comes that consists of one, two or four parts, which come from there; 0 if an address and distances cannot say it.

    >>> address = 0x801000000000
    >>> for distances in [0, 1, 256, 257], [0, 64, 128, 192], [3, 2, 1, 0], [0, 64, 65, 128]:
    ...     word = word_source([address + distance for distance in distances])
    ...     print(bool(word) and [byte_source(word, byte) - address for byte in range(4)])
    [0, 1, 256, 257]
    [0, 64, 128, 192]
    [3, 2, 1, 0]
    False
    """
    if len(parts) == 1:
        return parts[0]
    if len(parts) == 2:
        return _word_of_halves(*parts)
    return _word_of_halves(*(half_source(*parts[i : i + 2]) for i in (0, 2)))


def half_source(low: int, high: int) -> int:
    """From where a half comes whose bytes come from there; 0 if an address and a distance cannot say it."""
    apart = high - low - 1
    if (low | high) & LISTED:
        return 0
    if low <= NO_SOURCE or high <= NO_SOURCE:
        return low if low == high else 0
    if not apart:
        return low
    return low + BYTES_APART + distance_bits(apart) if low & GLOBAL_BIT and -MOST_HALVES <= apart < MOST_HALVES else 0


def _word_of_halves(low: int, high: int) -> int:
    if (low | high) & LISTED:
        return 0
    if low <= NO_SOURCE or high <= NO_SOURCE:
        return low if low == high else 0
    if are_bytes_apart(low) or are_bytes_apart(high):
        return low if high == low + int(half_distance(low)) else 0
    apart = (high - low) // 2 - 1
    return low + distance_bits(apart) if (high - low) % 2 == 0 and -MOST_HALVES <= apart < MOST_HALVES else 0
