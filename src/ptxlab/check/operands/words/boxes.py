"""Where the words under a box come from that a tensor copy has placed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.native import BoundedCache

__all__ = ["PADDING", "relative_words"]

PADDING = -2
_WORD = 4
"""Bytes."""
_WORDS = CHUNK // _WORD
_KNOWN: BoundedCache[tuple[int, int, int, int], tuple[Any, ...]] = BoundedCache(256)


def relative_words(chunks: NDArray[np.intp], places: NDArray[np.int64], data: int, count: int) -> tuple[NDArray[np.int64], bool]:
    """Where the words under a box come from, in bytes from its first chunk: -1 for none, `PADDING` behind ``data`` bytes of a chunk.

    The second result says whether all have a source. Boxes of one kind share the arrays, and so they are kept by identity.
    """
    key = id(chunks), id(places), data, count
    known = _KNOWN.get(key)
    if known is None or known[0] is not chunks or known[1] is not places:
        found = np.full((-(-count // _WORDS), _WORDS), -1, np.int64)
        words = places[:, None] + np.arange(0, CHUNK, _WORD)
        words[:, data // _WORD :] = PADDING
        found[chunks] = words
        relative = found.reshape(-1)[:count]
        known = _KNOWN[key] = chunks, places, relative, bool((relative >= 0).all())
    return known[2], known[3]
