"""The words of a CTA by which compiled code knows what its products take."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ptxlab.native import address_of

__all__ = ["MOST_ACCUMULATORS", "MOST_TILES", "CtaTaken", "CtaWord", "TakenWord"]


class TakenWord(IntEnum):
    """The words of `LastTaken`: the number of the instruction, 0 if it is not repeated, and its bases; then those of the one before.

    ``COLUMN`` is 1 more than the first column of the last A in tensor memory, 0 if there was none. ``COLUMNS`` is the largest number of
    columns of D. ``IMAGES`` is the number of the images that the last instruction took from tiles, 0 if it took none; ``TILED`` is 1 if
    compiled code has entered them. ``FIRST_TILE`` and ``LAST_TILE`` are the numbers of the tiles of A and B.
    """

    NUMBER = 0
    FIRST = 1
    LAST = 2
    BEFORE = 3
    COLUMN = 6
    COLUMNS = 7
    IMAGES = 8
    TILED = 9
    FIRST_TILE = 10
    LAST_TILE = 11
    END = 12


class CtaWord(IntEnum):
    """The words of a CTA (`ptxlab.engine.context.Word.OPERANDS_TAKEN`), before those of its accumulators (`TakenWord`).

    ``OTHERWISE`` is 1 if a copy has written its shared memory and the sources of the bytes are in no table that compiled code reads.
    ``ARRAYS`` is 1 more than `SharedTiles.arrays`. From ``TILES`` on is the number of the tile at each place, by the numbers of the places;
    0 if there is none.
    """

    OTHERWISE = 0
    ARRAYS = 1
    TILES = 8
    ACCUMULATORS = 40


MOST_TILES = CtaWord.ACCUMULATORS - CtaWord.TILES
"""Places of tiles of which compiled code knows."""
MOST_ACCUMULATORS = 64
"""Accumulators of a CTA of which compiled code knows."""


class CtaTaken:
    """The words of a CTA by which compiled code knows what products take.

    Attributes
    ----------
    address : the host address
    """

    __slots__ = ("_words", "address")

    def __init__(self) -> None:
        self._words: NDArray[np.int64] = np.zeros(CtaWord.ACCUMULATORS + MOST_ACCUMULATORS * TakenWord.END, np.int64)
        self.address = address_of(self._words)

    def brought_otherwise(self) -> None:
        """A copy has written shared memory, and compiled code has no table of the sources."""
        self._words[CtaWord.OTHERWISE] = 1

    def arranged(self, arrays: int) -> None:
        """Tiles are at other places, or come from other arrays."""
        self._words[CtaWord.ARRAYS] = arrays + 1

    def set_tile(self, place: int, number: int) -> None:
        """There is another tile at a place, with this number, or none."""
        if place < MOST_TILES:
            self._words[CtaWord.TILES + place] = number

    def tile(self, place: int) -> int:
        """The number of the tile at a place; 0 if there is none of which compiled code knows."""
        return self._words.item(CtaWord.TILES + place) if place < MOST_TILES else 0

    def of(self, number: int) -> NDArray[np.int64]:
        """The words of the accumulator with a number."""
        if number >= MOST_ACCUMULATORS:
            return np.zeros(TakenWord.END, np.int64)
        first = CtaWord.ACCUMULATORS + number * TakenWord.END
        return self._words[first : first + TakenWord.END]
