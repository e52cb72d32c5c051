"""What lanes load from global memory and store to shared memory as it is: the addresses, noted for an observer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import HALVES_SHIFT, MOST_HALVES, NO_SOURCE, Word
from ptxlab.engine.reference._host_memory import bytes_at
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.isa.operands import Op

if TYPE_CHECKING:
    from ptxlab.engine.program import LoadedWord
    from ptxlab.engine.reference.interpreter import Warp

__all__ = ["note_columns", "note_load", "note_rows", "note_store"]


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


def note_store(warp: Warp, op: Op, hosts: Mapping[int, NDArray[np.uint8]]) -> None:
    """Note from where the words come that lanes store, for each word of shared memory."""
    for lane, data in hosts.items():
        for number, word in enumerate(warp.program.loaded.stores[op.index]):
            _note(warp, int(data.ctypes.data) + 4 * number, word, lane)


def note_columns(warp: Warp, op: Op, hosts: Mapping[int, NDArray[np.uint8]]) -> None:
    """The same for a transposed stmatrix: the elements of a word are the upper or the lower halves of registers of two lanes."""
    for number, word in enumerate(warp.program.loaded.stores[op.index]):
        for row in range(8):
            for at in range(4):
                low, high = (_source(warp, word, 8 * at + row // 2 + more) for more in (0, 4))
                _put(warp, int(hosts[8 * number + row].ctypes.data) + 4 * at, _of_halves(low, high, row % 2))


def _of_halves(low: int, high: int, upper: int) -> int:
    """From where a word comes whose elements are the upper or lower halves of what comes from ``low`` and from ``high``."""
    if low == high == NO_SOURCE:
        return NO_SOURCE
    apart = (high - low) // 2 - 1
    known = low > NO_SOURCE and high > NO_SOURCE and 0 <= apart < MOST_HALVES
    return low + 2 * upper + (apart << HALVES_SHIFT) if known else 0


def note_rows(warp: Warp, op: Op, hosts: Mapping[int, NDArray[np.uint8]]) -> None:
    """Note from where the words come that stmatrix stores: a lane has a word of one of the eight rows of each register."""
    for number, word in enumerate(warp.program.loaded.stores[op.index]):
        for lane in range(32):
            _note(warp, int(hosts[8 * number + lane // 4].ctypes.data) + 4 * (lane % 4), word, lane)


def _note(warp: Warp, host: int, word: LoadedWord | None, lane: int) -> None:
    """Note from where the word at a host address comes that a lane stores."""
    _put(warp, host, _source(warp, word, lane))


def _source(warp: Warp, word: LoadedWord | None, lane: int) -> int:
    """From where a lane has loaded a word; 0 if it is computed."""
    address = 0 if word is None else int(_row(warp, warp.program.loaded.rows[word.load])[lane])
    return address + word.byte if word is not None and address > NO_SOURCE else address


def _put(warp: Warp, host: int, source: int) -> None:
    """Note from where the word at a host address comes, if it is in the shared memory of the cluster."""
    own, stride = warp.word(Word.SHARED_RANK) >> SHARED_RANK_SHIFT, -(-warp.word(Word.SHARED_SIZE) // 4) * 8
    table = bytes_at(warp.word(Word.CLUSTER), 16 * warp.word(Word.CLUSTER_SIZE)).view(np.uint64).reshape(-1, 2)
    for rank, (base, size) in enumerate(table.tolist()):
        if base <= host < base + size:
            place = warp.word(Word.COPIED) + (rank - own) * stride + (host - base) // 4 * 8
            bytes_at(place, 8).view(np.uint64)[0] = source


def _row(warp: Warp, offset: int) -> NDArray[np.uint64]:
    return warp.frame[offset : offset + 256].view(np.uint64)
