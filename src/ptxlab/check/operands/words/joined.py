"""Operands whose words threads have put together of bytes from any places, or at distances that differ from word to word.

Such an operand is not judged word by word, but element by element. Rows and k of a matrix stand apart: each k lies in one row of the array
and each row at one place of its rows, or the other way round. An operand of which this is not true is wrong if another descriptor reads
one of which it is.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab.check.operands._candidates import Candidate, search
from ptxlab.check.operands.words.images import WORD, Sources, descriptor_fields, is_rearranged
from ptxlab.engine.word_sources import NO_SOURCE, address_in
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.isa.operations.tiles import CHUNK

if TYPE_CHECKING:
    from ptxlab.check.operands.words.check import Words

__all__ = ["JoinedWords", "are_joined", "elements_of_bytes", "elements_together"]

_BYTE = 8


def elements_of_bytes(every: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """From where elements come, ``[line, element]``; ``every`` says it of bytes. 0 for an element whose bytes are not neighbours.

    Of elements of fewer than 8 bits those that share bytes count as one.
    """
    width = lcm(bits, _BYTE) // _BYTE
    grouped = every.reshape(len(every), -1, width)
    begins = grouped[..., :1]
    together = (grouped == begins + np.where(begins > NO_SOURCE, np.arange(width), 0)).all(axis=-1)
    return np.where(together, grouped[..., 0], 0)


def elements_together(bits: int) -> int:
    """How many elements count as one: those of fewer than 8 bits that share bytes.

    >>> [elements_together(bits) for bits in (4, 6, 8, 16)]
    [2, 4, 1, 1]
    """
    return lcm(bits, _BYTE) // bits


def are_joined(found: NDArray[np.int64], packed: bool = False) -> bool:
    """Whether some words have bytes from any places, or the bytes of words stand at different distances.

    If elements are ``packed``, those of a word are so too if they are no neighbours.
    """
    if found.min(initial=0) < 0:
        return True
    forms = (found - address_in(found))[found > NO_SOURCE]
    return bool((forms != (0 if packed else forms[:1])).any())


class JoinedWords:
    """From where the elements of an operand would come, whatever words they stand in; ``origin`` and ``pitch`` are those of the array."""

    def __init__(self, words: Words, origin: int, pitch: int) -> None:
        count = len(words.addresses) * WORD // CHUNK
        self._every = words.bytes_from(np.arange(count * CHUNK // WORD)).reshape(count, CHUNK)
        self._origin, self._pitch = origin, pitch

    def elements(self, operand: MatrixOperand, chunks: NDArray[np.intp]) -> Sources:
        """``[row, k]``."""
        every = self._every.take(chunks, axis=0)[..., : operand.data]
        found = elements_of_bytes(every.reshape(len(chunks), -1), operand.packed)
        return found.T if operand.major == "mn" else found

    def stand_apart(self, elements: Sources) -> bool:
        """Whether rows and k do."""
        return is_rearranged(elements, self._origin, self._pitch)

    def first_apart(self, elements: Sources) -> tuple[str, tuple[int, int], tuple[int, int]]:
        """How rows and k do not stand apart: what is wrong, the first element ``[row, k]`` of which it is true, and one to compare it with.

        One number of a place in the array must depend on k only, and the other one on the row.
        """
        rows, offsets = np.divmod(elements - self._origin, max(self._pitch, 1))
        known, found = elements > NO_SOURCE, []
        for of_k, of_row in ((rows, offsets), (offsets, rows)):
            other_k, other_row = (of_k != of_k[:1]) & known, (of_row != of_row[:, :1]) & known
            found.append((int(other_k.sum() + other_row.sum()), other_k, other_row))
        _, other_k, other_row = min(found, key=lambda each: each[0])
        row, k = np.argwhere(other_k | other_row)[0].tolist()
        if other_k[row, k]:
            return "its rows do not have the same k", (row, k), (0, k)
        return "its rows change from one k to the next", (row, k), (row, 0)

    def fitting_descriptor(self, operand: MatrixOperand) -> Candidate[int] | None:
        """A descriptor with which rows and k of an operand stand apart, and which finds no more zeros."""
        least = 1
        if operand.chunks.max() < len(self._every):
            least = int((self.elements(operand, operand.chunks) > NO_SOURCE).sum())

        def fitting(tried: MatrixOperand, chunks: NDArray[np.intp]) -> int | None:
            if chunks.min() < 0 or chunks.max() >= len(self._every) or len(distinct(chunks)) < chunks.size:
                return None
            found = self.elements(tried, chunks)
            known = found > NO_SOURCE
            if not found.all() or not known.any() or known.sum() < least or len(distinct(found[known])) < known.sum():
                return None
            return int(found[known][0]) if self.stand_apart(found) else None

        return search(operand, descriptor_fields(), fitting)
