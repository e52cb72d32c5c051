"""The words of a CTA by which compiled code knows what its products take."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Word
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.native import Function, Value

__all__ = [
    "MOST_ACCUMULATORS",
    "MOST_TILES",
    "CtaTaken",
    "CtaWord",
    "MatricesWord",
    "PlacedWord",
    "TakenWord",
    "base_of",
    "has_tile_between",
    "matrices_at",
    "placed_at",
    "taken_at",
    "words_of_cta",
    "words_of_pair",
]


class TakenWord(IntEnum):
    """The words of `LastTaken`: the number of the instruction, 0 if it is not repeated, and its bases; then those of the one before.

    ``COLUMN`` is 1 more than the first column of the last A in tensor memory, 0 if there was none. ``COLUMNS`` is the largest number of
    columns of D. ``IMAGES`` is the number of the images that the last instruction took from tiles, 0 if it took none; ``TILED`` is 1 if
    compiled code has entered them. ``FIRST_TILE`` and ``LAST_TILE`` are the numbers of the tiles of A and B. ``FOUND`` is 1 if the last
    instruction took an operand that threads have copied, and is not repeated. ``OPERANDS`` is the number of its operands if it has taken
    operands that have one (`ptxlab.check.operands.compiled.mixed`), else 0.
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
    FOUND = 12
    OPERANDS = 13
    END = 14


class CtaWord(IntEnum):
    """The words of a CTA (`ptxlab.engine.context.Word.OPERANDS_TAKEN`), before those of its accumulators (`TakenWord`).

    Those of the tiles at the places follow (`PlacedWord`), and those of matrices in registers and in tensor memory (`MatricesWord`).

    ``OTHERWISE`` is 1 if bulk or tensor copies have written its shared memory and words are followed. ``CELLS`` is 1 if something has been
    copied to its tensor memory and the sources of cells are in no table that compiled code reads.
    From ``TILES`` on is the number of the tile at each place, by the numbers of the places; 0 if there is none. ``BEYOND`` is 1 if there
    has been a tile at a place that has no such number. ``CHANGES`` is how often tiles have changed, ``COPIES`` the number of the last copy;
    ``COPIED`` is 1 if compiled code has copied since Python has asked. ``BOXED`` is the address of a byte for each chunk, 1 if a tensor
    copy has brought it, and ``PREPARED`` that of one for each word, 1 if a bulk copy has (`ptxlab.check.operands.words.check.Words`).
    ``WORD_SOURCES`` and ``CELL_SOURCES`` are the addresses of the sources of words and cells, and ``BYTE_SOURCES`` that of the sources of
    the bytes of words; 0 where they are not followed. ``CELL_CODES`` and ``CELL_VALUES`` are those of what
    `ptxlab.check.operands.scales.sources.TensorSources` has of cells, and ``SCALES`` that of its tables
    (`ptxlab.check.operands.compiled.scale_tables.ScaleTables`).
    """

    OTHERWISE = 0
    BEYOND = 1
    CHANGES = 2
    COPIES = 3
    COPIED = 4
    BOXED = 5
    CELLS = 6
    WORD_SOURCES = 7
    BYTE_SOURCES = 8
    PREPARED = 9
    CELL_SOURCES = 10
    CELL_CODES = 11
    CELL_VALUES = 12
    SCALES = 13
    TILES = 14
    ACCUMULATORS = 78


MOST_TILES = CtaWord.ACCUMULATORS - CtaWord.TILES
"""Places of tiles of which compiled code knows."""
MOST_ACCUMULATORS = 64
"""Accumulators of a CTA of which compiled code knows."""


_PLACED = CtaWord.ACCUMULATORS + MOST_ACCUMULATORS * TakenWord.END


class PlacedWord(IntEnum):
    """The words of the tile at a place: its first byte, and its end, 0 if there is no tile; the number of its array.

    Its number and its coordinates are behind all others. If compiled code has copied it, ``SOURCE`` says from where
    (`CompiledCopies.tile`).
    """

    START = 0
    STOP = 1
    ARRAY = 2
    SOURCE = 3
    NUMBER = 4
    COORDINATES = 5
    """of pixels in im2col mode also their offsets"""
    END = 13


class MatricesWord(IntEnum):
    """The words of a product that has a matrix in registers or in tensor memory, the last one of an accumulator.

    They are the number of its matrices (`ptxlab.check.operands.compiled.matrices`), 0 if there are none, -1 if compiled code does not know
    them; and the bases of A and of B.
    """

    NUMBER = 0
    FIRST = 1
    LAST = 2
    END = 3


_MATRICES = _PLACED + MOST_TILES * PlacedWord.END
_END = _MATRICES + MOST_ACCUMULATORS * MatricesWord.END


def words_of_cta(context: Value, rank: Value) -> Value:
    """Where the words of a CTA of the cluster are, by its rank: those of all CTAs are neighbours."""
    own = context.word(Word.SHARED_RANK) >> SHARED_RANK_SHIFT
    return context.pointer(Word.OPERANDS_TAKEN).at((rank - own) * (8 * _END))


def words_of_pair(context: Value, number: Value) -> Value:
    """The same of the CTA with a number in its pair; of the one that executes the instruction, if it is -1."""
    own = context.word(Word.SHARED_RANK) >> SHARED_RANK_SHIFT
    return words_of_cta(context, number.lt(0).select(own, (own & ~1) | number))


def base_of(context: Value, number: Value) -> Value:
    """The memory with a number among those of the CTA group that executes the instruction."""
    return context.pointer(Word.REPEATED_IN).pointer(1).load("ptr", number)


def taken_at(cta: Value, accumulator: Value) -> Value:
    """Where the words of an accumulator are, by its number."""
    return cta.at(accumulator * (8 * TakenWord.END) + 8 * CtaWord.ACCUMULATORS)


def placed_at(cta: Value, place: Value) -> Value:
    """Where the words of the tile at a place are."""
    return cta.at(place * (8 * PlacedWord.END) + 8 * _PLACED)


def has_tile_between(code: Function, cta: Value, start: Value, stop: Value) -> Value:
    """Whether a tile may lie between these bytes: that is what `CtaTaken.overlaps` says in Python."""
    found = code.variable("i1", cta.word(CtaWord.BEYOND).ne(0))
    with code.loop(MOST_TILES, entered=True) as i:
        tile = placed_at(cta, i)
        found.set(found.get() | (tile.word(PlacedWord.START).ult(stop) & tile.word(PlacedWord.STOP).ugt(start)))
    return found.get()


def matrices_at(cta: Value, accumulator: Value) -> Value:
    """Where the words of the last product with a matrix elsewhere are, by the number of the accumulator."""
    return cta.at(accumulator * (8 * MatricesWord.END) + 8 * _MATRICES)


class CtaTaken:
    """The words of a CTA by which compiled code knows what products take.

    Attributes
    ----------
    address : the host address
    """

    __slots__ = ("_words", "address")

    def __init__(self, words: NDArray[np.int64]) -> None:
        self._words, self.address = words, address_of(words)

    @classmethod
    def of_cluster(cls, ctas: int) -> list[CtaTaken]:
        """The words of the CTAs of a cluster that starts (`words_of_cta`)."""
        return [cls(words) for words in np.zeros((ctas, _END), np.int64)]

    def brought_otherwise(self) -> None:
        """Bulk or tensor copies have brought something, and words are followed."""
        self._words[CtaWord.OTHERWISE] = 1

    @property
    def otherwise(self) -> bool:
        """Whether they have."""
        return bool(self._words.item(CtaWord.OTHERWISE))

    def copied_to_cells(self) -> None:
        """Something has been copied to tensor memory, and compiled code has no table of the sources of cells."""
        self._words[CtaWord.CELLS] = 1

    def follow_words(self, sources: int, of_bytes: int, boxed: int, prepared: int) -> None:
        """The sources of words are followed: the addresses of those, of those of bytes, and of what says which copies have brought them."""
        self._words[CtaWord.WORD_SOURCES : CtaWord.CELL_SOURCES] = sources, of_bytes, prepared
        self._words[CtaWord.BOXED] = boxed

    def follow_cells(self, sources: int, codes: int, values: int, tables: int) -> None:
        """The cells of tensor memory are followed: the addresses of what is known of them, and of what products have taken there."""
        self._words[CtaWord.CELL_SOURCES : CtaWord.TILES] = sources, codes, values, tables

    def count_copy(self) -> int:
        """The number of the next copy."""
        self._words[CtaWord.COPIES] += 1
        return self._words.item(CtaWord.COPIES)

    def set_tile(self, place: int, start: int, stop: int, array: int, number: int = 0, coordinates: Sequence[int] = ()) -> None:
        """There is another tile at a place, from one offset to another, of an array and at coordinates; none if it stops at 0.

        It is the copy with this ``number``.
        """
        self._words[CtaWord.CHANGES] += 1
        if place < MOST_TILES:
            self._words[CtaWord.TILES + place] = self._words[CtaWord.CHANGES] if stop else 0
            words = self._placed(place)
            words[: PlacedWord.SOURCE], words[PlacedWord.NUMBER] = (start, stop, array), number
            words[PlacedWord.COORDINATES : PlacedWord.COORDINATES + len(coordinates)] = coordinates
        else:
            self._words[CtaWord.BEYOND] = 1

    def _placed(self, place: int) -> NDArray[np.int64]:
        first = _PLACED + place * PlacedWord.END
        return self._words[first : first + PlacedWord.END]

    def was_copied(self) -> bool:
        """Whether compiled code has copied since this has been asked."""
        if not self._words.item(CtaWord.COPIED):
            return False
        self._words[CtaWord.COPIED] = 0
        return True

    def placed(self, places: int) -> list[list[int]]:
        """The words of the tiles (`PlacedWord`) at the first places, by their numbers."""
        end = _PLACED + min(places, MOST_TILES) * PlacedWord.END
        words: list[list[int]] = self._words[_PLACED:end].reshape(-1, PlacedWord.END).tolist()
        return words

    def end_at(self, place: int) -> int:
        """The end of the tile at a place; 0 if there is none of which compiled code knows."""
        return self._placed(place).item(PlacedWord.STOP) if place < MOST_TILES else 0

    def overlaps(self, start: int, end: int) -> bool:
        """Whether a tile may lie between these bytes."""
        words = self._words[_PLACED:_MATRICES].reshape(MOST_TILES, PlacedWord.END)
        between = (words[:, PlacedWord.START] < end) & (words[:, PlacedWord.STOP] > start)
        return bool(self._words.item(CtaWord.BEYOND) or between.any())

    def tile(self, place: int) -> int:
        """The number of the tile at a place; 0 if there is none of which compiled code knows."""
        return self._words.item(CtaWord.TILES + place) if place < MOST_TILES else 0

    def of(self, number: int) -> NDArray[np.int64]:
        """The words of the accumulator with a number."""
        if number >= MOST_ACCUMULATORS:
            return np.zeros(TakenWord.END, np.int64)
        first = CtaWord.ACCUMULATORS + number * TakenWord.END
        return self._words[first : first + TakenWord.END]

    def matrices(self, number: int) -> NDArray[np.int64] | None:
        """The words of the last product of an accumulator with a number (`MatricesWord`); None if compiled code has none of it."""
        first = _MATRICES + number * MatricesWord.END
        return self._words[first : first + MatricesWord.END] if number < MOST_ACCUMULATORS else None
