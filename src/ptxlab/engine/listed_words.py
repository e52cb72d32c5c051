"""Words whose bytes come from places of which no source of a word can say, in a list that the machine and compiled code share."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.word_sources import LISTED, NO_SOURCE, NUMBER_BITS, byte_source, part_source, word_source
from ptxlab.native import address_of

__all__ = ["ListedWords", "source_maker"]

_BYTES = 4
_HEADER = 4
"""64-bit numbers before the entries: the count of all words ever listed, and the mask that makes an index of a number; two are unused."""
_CAPACITY = 1 << 20
"""Entries: more words than the shared memory of a large cluster and the registers of a CTA hold. Pages are allocated by the first write."""


class ListedWords:
    """A list that keeps the last words: from where each of the bytes of each comes; a word that is no longer kept is not known.

    >>> words = ListedWords(8)
    >>> base = 0x801000000000
    >>> source = words.source_of([base, base + 7, base + 1, base + 90])
    >>> (words.bytes_of(np.array([source, base + 16], np.uint64).view(np.int64)) - base).tolist()
    [[0, 7, 1, 90], [16, 17, 18, 19]]
    """

    __slots__ = ("_numbers", "_words")

    def __init__(self, capacity: int = _CAPACITY) -> None:
        """``capacity``, in words, is a power of two."""
        self._numbers: NDArray[np.int64] = np.zeros(_HEADER + _BYTES * capacity, np.int64)
        self._numbers[1] = capacity - 1
        self._words = self._numbers[_HEADER:].reshape(-1, _BYTES)

    @classmethod
    def at(cls, address: int) -> ListedWords:
        """The list at an address that compiled code knows."""
        head = (ctypes.c_int64 * _HEADER).from_address(address)
        found = cls.__new__(cls)
        found._numbers = np.ctypeslib.as_array((ctypes.c_int64 * (_HEADER + _BYTES * (head[1] + 1))).from_address(address))
        found._words = found._numbers[_HEADER:].reshape(-1, _BYTES)
        return found

    @property
    def address(self) -> int:
        """Where it is."""
        return address_of(self._numbers)

    @property
    def count(self) -> int:
        """How many words have been listed."""
        return self._numbers.item(0)

    def source_of(self, parts: Sequence[int]) -> int:
        """From where a word comes that consists of one, two or four parts, which come from there; 0 if one of them is not known."""
        found = word_source(parts)
        if found or not all(parts):
            return found
        size = _BYTES // len(parts)
        places = [part_source(part, i, 1) for part in parts for i in range(size)]
        every: list[int]
        if any(place & LISTED for place in places):
            every = self.bytes_of(np.array(places, np.uint64).view(np.int64))[:, 0].tolist()
        else:
            every = [byte_source(place, 0) if place > NO_SOURCE else place for place in places]
        if not all(every):
            return 0
        return word_source(every) or self._add(every)

    def _add(self, every: list[int]) -> int:
        number = self.count
        self._words[number & self._numbers.item(1)] = every
        self._numbers[0] = number + 1
        return LISTED | number

    def add_all(self, every: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sources of words of which the bytes are ``[word, byte]``; 0 where one of them is not known."""
        return np.array([self.source_of(word) for word in every.tolist()], np.uint64).view(np.int64)

    def bytes_of(self, sources: NDArray[np.int64]) -> NDArray[np.int64]:
        """From where the bytes of words come, ``[..., byte]``; `NO_SOURCE` for zeros, 0 where it is not known."""
        at = np.arange(_BYTES)
        whole = sources[..., None]
        found: NDArray[np.int64] = np.where(whole > NO_SOURCE, byte_source(whole, at), whole)
        listed = sources < 0
        if listed.any():
            noted = sources[listed]
            numbers, first = noted & (1 << NUMBER_BITS) - 1, noted >> NUMBER_BITS & _BYTES - 1
            every = np.zeros((len(noted), 2 * _BYTES), np.int64)
            kept = (numbers < self.count) & (self.count - numbers <= len(self._words))
            every[kept, :_BYTES] = self._words[numbers[kept] & self._numbers.item(1)]
            found[listed] = np.take_along_axis(every, first[:, None] + at, axis=1)
        return found


def source_maker(address: int) -> Callable[[Sequence[int]], int]:
    """What says from where a word comes that consists of parts, with the list at an address; without a list if that is 0."""
    return ListedWords.at(address).source_of if address else word_source
