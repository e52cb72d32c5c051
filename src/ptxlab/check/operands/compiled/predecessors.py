"""The products after which an instruction may come: compiled code looks for the one before among several.

A loop has more than one where another instruction takes the first k of a tile, so that a pipeline stage follows either of the two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ptxlab import native

__all__ = ["MOST_PREDECESSORS", "Predecessors", "is_known", "words_of_predecessors"]

MOST_PREDECESSORS = 16
"""Of one instruction. If there are more, each new one takes the place of the oldest."""


def words_of_predecessors(width: int) -> int:
    """How many words a table of predecessors takes: how many there are, and ``width`` words of each."""
    return 1 + MOST_PREDECESSORS * width


class Predecessors:
    """Of each product that may come before its number, and what else must be the same.

    Parameters
    ----------
    words : the table that compiled code reads (`words_of_predecessors`), with zeros
    width : words of a predecessor
    """

    __slots__ = ("_added", "_known", "_width", "_words")

    def __init__(self, words: NDArray[np.int64], width: int) -> None:
        self._words, self._width, self._added = words.data, width, 0
        self._known: list[tuple[int, ...]] = []

    def add(self, *words: int) -> None:
        """The instruction may come after such a product."""
        if words in self._known:
            return
        place = self._added % MOST_PREDECESSORS
        self._added += 1
        self._known[place : place + 1] = [words]
        for index, word in enumerate(words, 1 + place * self._width):
            self._words[index] = word
        self._words[0] = len(self._known)


def is_known(code: native.Function, table: native.Value, words: Sequence[native.Value]) -> native.Value:
    """Whether the product before is one of a table."""
    found = code.variable("i1", 0)
    with code.loop(table.word(0)) as i:
        known = table.at((i * len(words)) << 3)
        same = known.word(1).eq(words[0])
        for index, word in enumerate(words[1:], 2):
            same = same & known.word(index).eq(word)
        found.set(found.get() | same)
    return found.get()
