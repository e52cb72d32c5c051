"""Elements of 4 or 6 bits of which 16 stand together: packed in a slot of shared memory, before padding, or each in a byte of four cells.

Packed elements come from neighbouring bytes of global memory. Of a slot it is enough to know where the first one comes from.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.formats import pack, unpack
from ptxlab.layout import decompression
from ptxlab.tables import DECOMPRESSIONS

__all__ = ["CELLS", "SLOT", "expanded_addresses", "format_of_cells", "packed_bytes", "slots_of_cells", "slots_of_words", "words_of_slot"]

SLOT = 16
"""Elements of a slot, and its bytes."""
CELLS = 4
"""Cells of tensor memory, or words of shared memory, in which a slot stands."""
_WORD = 4
"""Bytes."""

Addresses = NDArray[np.int64]


def words_of_slot(bits: int) -> int:
    """The words of a slot in shared memory that hold elements.

    >>> words_of_slot(4), words_of_slot(6)
    (2, 3)
    """
    return SLOT * bits // (8 * _WORD)


def slots_of_words(words: Addresses) -> Addresses:
    """From where slots in shared memory come, ``[..., slot]``; ``words`` are those that hold elements, ``[..., slot, word]``."""
    return _first_of(words, _WORD)


def expanded_addresses(words: Addresses, bits: int) -> Addresses:
    """From where the first element of each cell comes, ``[..., 4]``, if tcgen05.cp expands slots of the words ``[..., 4]``.

    >>> expanded_addresses(np.array([[4096, 4100, 0, 0], [4096, 4112, 0, 0]]), 4).tolist()
    [[4096, 4098, 4100, 4102], [0, 0, 0, 0]]
    """
    first = slots_of_words(words[..., : words_of_slot(bits)])[..., None]
    return np.where(first > NO_SOURCE, first + np.arange(CELLS) * (bits // 2), first)


def slots_of_cells(cells: Addresses, bits: int) -> Addresses | None:
    """From where slots come that tcgen05.cp has expanded, ``[..., slot]``; ``cells`` is ``[..., slot, 4]``.

    None if none of them has been expanded, 0 for each if not all have been.

    >>> slots_of_cells(np.array([[[4096, 4098, 4100, 4102]]]), 4), slots_of_cells(np.array([[[4096, 4100, 4104, 4108]]]), 4)
    (array([[4096]]), None)
    """
    found = _first_of(cells, bits // 2)
    if not (found > NO_SOURCE).any():
        return None
    return found if found.all() else np.zeros_like(found)


def format_of_cells(cells: Addresses) -> str:
    """The format in which tcgen05.cp has expanded cells ``[..., slot, 4]``; "" if not all of them have been."""
    return next((name for name in DECOMPRESSIONS if (_first_of(cells, decompression(name).bits // 2) > NO_SOURCE).all()), "")


def _first_of(words: Addresses, apart: int) -> Addresses:
    """The first of neighbours that are so many bytes apart: `NO_SOURCE` if all of them are zeros, 0 if they are not such neighbours."""
    first = words[..., 0]
    follow = (words - first[..., None] == np.arange(words.shape[-1]) * apart).all(axis=-1) & (first > NO_SOURCE)
    zeros = (words == NO_SOURCE).all(axis=-1)
    return np.where(follow, first, np.where(zeros, NO_SOURCE, 0))


def packed_bytes(held: NDArray[np.uint8], element: str, bits: int, expanded: bool) -> NDArray[np.uint8]:
    """The packed elements of slots ``[row, slot, byte]``; ``held`` is ``[row, byte]``, each element in a byte if ``expanded``."""
    if expanded:
        return pack(unpack(held, element, "bytes"), element).reshape(len(held), -1, SLOT * bits // 8)
    return held.reshape(len(held), -1, SLOT)[..., : SLOT * bits // 8]
