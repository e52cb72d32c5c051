"""What lanes load from global memory and store to shared memory as it is: the addresses, noted for an observer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import NO_SOURCE, Word
from ptxlab.isa.operands import Op

if TYPE_CHECKING:
    from ptxlab.engine.reference.interpreter import Warp

__all__ = ["note_load", "note_store"]


def note_load(warp: Warp, op: Op, addresses: Sequence[int], mask: int) -> None:
    """Note the addresses of a load in its row, and zeros for the lanes that are skipped."""
    loaded = warp.program.loaded
    if op.index in loaded.rows and warp.word(Word.COPIED):
        row = _row(warp, loaded.rows[op.index])
        running = warp.word(Word.MASK)
        for lane in range(32):
            if mask >> lane & 1:
                row[lane] = addresses[lane]
            elif op.index in loaded.zeros and running >> lane & 1:
                row[lane] = NO_SOURCE


def note_store(warp: Warp, op: Op, hosts: Mapping[int, NDArray[np.uint8]], noted: NDArray[np.uint64]) -> None:
    """Note from where the words come that lanes store, for each word of shared memory."""
    words = warp.program.loaded.stores[op.index]
    for lane, data in hosts.items():
        inside = int(data.ctypes.data) - warp.word(Word.SHARED)
        if 0 <= inside < warp.word(Word.SHARED_SIZE):
            for number, word in enumerate(words, inside // 4):
                address = 0 if word is None else int(_row(warp, warp.program.loaded.rows[word.load])[lane])
                noted[number] = address + word.byte if word is not None and address > NO_SOURCE else address


def _row(warp: Warp, offset: int) -> NDArray[np.uint64]:
    return warp.frame[offset : offset + 256].view(np.uint64)
