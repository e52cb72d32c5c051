"""Random numbers of a queue, in memory that compiled code shares (`ptxlab.engine.turns.next_turn`)."""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.turns.words import NUMBERS, QueueWord
from ptxlab.native import address_of

__all__ = ["Draws"]

_DRAWN = int(QueueWord.DRAWN)


class Draws:
    """The numbers that `random.Random` gives for a seed.

    Parameters
    ----------
    words : those of `QueueWord`

    Examples
    --------
    >>> draws, same = Draws("seed", memoryview(bytearray(8 * QueueWord.END)).cast("q")), random.Random("seed")
    >>> [draws.randrange(10) for _ in range(5)] == [same.randrange(10) for _ in range(5)]
    True
    """

    __slots__ = ("_numbers", "_random", "_words")

    def __init__(self, seed: int | str, words: memoryview) -> None:
        self._random = random.Random(seed)
        numbers: NDArray[np.uint32] = np.zeros(NUMBERS, np.uint32)
        self._numbers, self._words = numbers.data, words
        words[QueueWord.NUMBERS], words[_DRAWN] = address_of(numbers), NUMBERS

    def _number(self) -> int:
        """A number of 32 bits."""
        words = self._words
        at = words[_DRAWN]
        if at == NUMBERS:
            at = 0
            self._numbers.cast("B")[:] = self._random.getrandbits(32 * NUMBERS).to_bytes(4 * NUMBERS, "little")
        words[_DRAWN] = at + 1
        found: int = self._numbers[at]
        return found

    def randrange(self, count: int) -> int:
        """A number below a count."""
        words, numbers = self._words, self._numbers
        unused = 32 - count.bit_length()
        for at in range(words[_DRAWN], NUMBERS):
            found: int = numbers[at] >> unused
            if found < count:
                words[_DRAWN] = at + 1
                return found
        words[_DRAWN] = NUMBERS
        found = self._number() >> unused
        return found if found < count else self.randrange(count)

    def below(self, bound: int) -> bool:
        """Whether a number of 53 bits is below a bound."""
        high = self._number() >> 5
        return high << 26 | self._number() >> 6 < bound
