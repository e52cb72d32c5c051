"""What the last product of an accumulator has taken from registers or memory; compiled code may have entered it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.check.operands.compiled.cta_words import MatricesWord
from ptxlab.check.operands.compiled.matrices import RepeatedMatrices
from ptxlab.check.operands.elements._images import RegisterImage
from ptxlab.isa.operations.matrices import MatrixOperand

__all__ = ["Judged", "KnownMatrices", "LastMatrices"]

_PAIR = 2
_IN_PYTHON = -1


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The images of the matrices of an instruction; None for one that is not known."""

    images: tuple[RegisterImage | None, ...]

    @property
    def both(self) -> bool:
        """Whether those of A and of B are known."""
        return len(self.images) == _PAIR and None not in self.images


class KnownMatrices(NamedTuple):
    """The matrices of a product: what is known of them, and of each how it is read from shared memory, if it is there.

    ``repeated`` is the same for compiled code; None if that does not know them.
    """

    judged: Judged
    operands: tuple[MatrixOperand | None, ...]
    repeated: RepeatedMatrices | None


class LastMatrices:
    """The matrices of the product that has computed an accumulator, to which another one may add.

    Parameters
    ----------
    words : those that compiled code has, too (`MatricesWord`), if it has some
    known : repeated matrices by their numbers
    """

    __slots__ = ("_found", "_keep", "_known", "_words")

    def __init__(self, words: NDArray[np.int64] | None, known: Mapping[int, KnownMatrices]) -> None:
        self._keep = np.zeros(MatricesWord.END, np.int64) if words is None else words
        self._words, self._known = self._keep.data, known
        self._found: KnownMatrices | None = None

    def take(self) -> tuple[KnownMatrices, tuple[int, ...]] | None:
        """The matrices and their bases, which are forgotten; None if there are none."""
        words, number = self._words, self._words[MatricesWord.NUMBER]
        words[MatricesWord.NUMBER] = 0
        found = self._found if number == _IN_PYTHON else self._known.get(number)
        return None if found is None else (found, (words[MatricesWord.FIRST], words[MatricesWord.LAST]))

    def enter(self, found: KnownMatrices, bases: tuple[int, ...]) -> None:
        """A product takes them."""
        words, number = self._words, _IN_PYTHON if found.repeated is None else found.repeated.number
        self._found = found
        words[MatricesWord.NUMBER], (words[MatricesWord.FIRST], words[MatricesWord.LAST]) = number, bases
