"""What compiled code has of a warp, which the next warp of the program uses again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Context, Word
from ptxlab.machine.memory.global_memory import aligned_bytes
from ptxlab.native import address_of

__all__ = ["Frame"]

_FRAME = int(Word.FRAME)


class Frame:
    """The registers and the context of a warp.

    Attributes
    ----------
    data : uint8[bytes], the registers
    arrays : the same as unsigned numbers of 8, 16, 32 and 64 bits
    rows : uint32[rows, 32], the same by 32-bit register and lane
    views : as ``arrays``, for single numbers
    context, words : the context, and its words as signed numbers
    address : of the registers
    """

    __slots__ = ("address", "arrays", "context", "data", "rows", "views", "words")

    def __init__(self, size: int) -> None:
        data = self.data = aligned_bytes(size, 64)
        words: NDArray[np.uint32] = data.view(np.uint32)
        self.arrays = (data, data.view(np.uint16), words, data.view(np.uint64))
        self.rows = words[: len(words) & ~31].reshape(-1, 32)
        raw = data.data
        self.views = (raw, raw.cast("H"), raw.cast("I"), raw.cast("Q"))
        self.context = Context()
        self.words = self.context.words.data.cast("B").cast("q")
        self.address = address_of(data)

    def begin(self, template: memoryview, words: memoryview) -> None:
        """Let a warp begin: with the registers of a template, and the words that it shares with its CTA."""
        self.views[0][:] = template
        self.words[:] = words
        self.words[_FRAME] = self.address
