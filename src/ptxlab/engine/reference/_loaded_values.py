"""From where values come that lanes load, and store to shared memory as they are: the addresses, noted for an observer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Word
from ptxlab.engine.listed_words import source_maker
from ptxlab.engine.program import SOURCE_ROW, Chosen, Joined
from ptxlab.engine.reference._host_memory import bytes_at
from ptxlab.engine.word_sources import IN_BYTES, NO_SOURCE, part_source, word_source
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.isa.native_ops import MatrixAccess
from ptxlab.isa.operands import Op
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.engine.program import LoadedWord, NotedTree
    from ptxlab.engine.reference.warp import Warp

__all__ = [
    "note_cell",
    "note_columns",
    "note_elements",
    "note_load",
    "note_matrix",
    "note_moves",
    "note_rows",
    "note_store",
    "note_words",
]


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


def note_words(warp: Warp, op: Op, hosts: Mapping[int, NDArray[np.uint8]], mask: int) -> None:
    """Note from where the words come that lanes load from shared memory, in a row for each word."""
    if warp.word(Word.COPIED):
        words = {lane: [_noted(warp, address_of(data) + at) for at in range(0, len(data), 4)] for lane, data in hosts.items()}
        _note_loaded(warp, op, words, mask)


def note_elements(warp: Warp, op: Op, hosts: Mapping[int, NDArray[np.uint8]], size: int, mask: int) -> None:
    """The same for elements of fewer bytes."""
    if warp.word(Word.COPIED):
        places = {lane: [address_of(data) + at for at in range(0, len(data), size)] for lane, data in hosts.items()}
        noted = {lane: [part_source(_noted(warp, place), place % 4, size) for place in found] for lane, found in places.items()}
        _note_loaded(warp, op, noted, mask)


def note_moves(warp: Warp, op: Op, mask: int) -> None:
    """Note what an op has moved to registers with rows of their own."""
    notes = warp.program.loaded.moves.get(op.index, ())
    made = [_moved(warp, note.source, note.unit) for note in notes]
    for note, sources in zip(notes, made, strict=True):
        row = _row(warp, note.row)
        for lane in range(32):
            if mask >> lane & 1:
                row[lane] = sources[lane]


def _moved(warp: Warp, source: NotedTree, unit: int) -> list[int]:
    """From where what is moved comes in each lane."""
    match source:
        case None:
            return [0] * 32
        case Chosen(predicate, a, b):
            sides = zip(warp.bits(predicate, 1), _moved(warp, a, unit), _moved(warp, b, unit), strict=True)
            return [one if chosen else other for chosen, one, other in sides]
        case Joined(a, b):
            pairs = zip(_moved(warp, a, unit), _moved(warp, b, unit), strict=True)
            return [other if one == NO_SOURCE else one if other == NO_SOURCE else 0 for one, other in pairs]
    if source.row < 0:
        return [NO_SOURCE] * 32
    return [part_source(_behind(address, source.added), source.byte, unit) for address in _row(warp, source.row).tolist()]


def note_matrix(warp: Warp, op: Op, native: MatrixAccess, hosts: Mapping[int, NDArray[np.uint8]], mask: int) -> None:
    """The same for ldmatrix, whose ``hosts`` have the rows of the matrices, eight for each register."""

    def source(register: int, row: int, word: int) -> int:
        return _noted(warp, address_of(hosts[8 * register + row]) + 4 * word)

    def loaded(register: int, lane: int) -> int:
        line, within = divmod(lane, 4)
        if not native.transposed:
            return source(register, line, within)
        return _word(warp, [part_source(source(register, 2 * within + more, line // 2), line % 2 * 2, 2) for more in (0, 1)])

    if warp.word(Word.COPIED):
        words = {lane: [loaded(register, lane) for register in range(native.registers)] for lane in range(32) if mask >> lane & 1}
        _note_loaded(warp, op, words, mask)


def note_cell(warp: Warp, op: Op, column: int, at: int, register: int, lane: int) -> None:
    """Note from where the word comes that tcgen05.st stores in a column and lane ``at`` of tensor memory; register -1 is not known."""
    words = warp.program.loaded.cells.get(op.index)
    if words is not None and warp.word(Word.TENSOR_SOURCES):
        cells = bytes_at(warp.word(Word.TENSOR_SOURCES), 8 * 512 * 128).view(np.uint64)
        cells[128 * column + at] = 0 if register < 0 else _source(warp, words[register], lane)


def _note_loaded(warp: Warp, op: Op, words: Mapping[int, Sequence[int]], mask: int) -> None:
    """Note the words that lanes have loaded, and zeros for the lanes that are skipped."""
    loaded, running = warp.program.loaded, warp.word(Word.MASK)
    for number in range(max(map(len, words.values()), default=0)):
        row = _row(warp, loaded.rows[op.index] + SOURCE_ROW * number)
        for lane in range(32):
            if mask >> lane & 1:
                row[lane] = words[lane][number]
            elif op.index in loaded.zeros and running >> lane & 1:
                row[lane] = NO_SOURCE


def note_store(warp: Warp, op: Op, hosts: Mapping[int, NDArray[np.uint8]], size: int) -> None:
    """Note from where the words come that lanes store, or elements of fewer bytes, for each word of shared memory."""
    for lane, data in hosts.items():
        for number, word in enumerate(warp.program.loaded.stores[op.index]):
            host = address_of(data) + size * number
            if size < 4:
                _put_element(warp, host, _element(warp, word, lane, size))
            else:
                _note(warp, host, word, lane)


def _put_element(warp: Warp, host: int, sources: Sequence[int]) -> None:
    """Note from where the bytes of an element come that is smaller than a word, beside what is noted of the other bytes of the word."""
    place = _place(warp, host)
    if place:
        held, every = bytes_at(place, 8).view(np.uint64), _bytes_of(warp, place)
        word = held.item()
        if word != IN_BYTES and not (word and word == word_source(every.tolist())):
            every[:] = [part_source(word, byte, 1) for byte in range(4)]
        every[host % 4 : host % 4 + len(sources)] = sources
        held[0] = word_source(every.tolist()) or (IN_BYTES if every.any() else 0)


def _bytes_of(warp: Warp, place: int) -> NDArray[np.uint64]:
    """The sources of the bytes of the word whose own one is noted at a place."""
    return bytes_at(warp.word(Word.COPIED_BYTES) + 4 * (place - warp.word(Word.COPIED)), 4 * 8).view(np.uint64)


def note_columns(warp: Warp, op: Op, hosts: Mapping[int, NDArray[np.uint8]]) -> None:
    """The same for a transposed stmatrix: the elements of a word are the upper or the lower halves of registers of two lanes."""
    for number, word in enumerate(warp.program.loaded.stores[op.index]):
        for row in range(8):
            for at in range(4):
                halves = [part_source(_source(warp, word, 8 * at + row // 2 + more), row % 2 * 2, 2) for more in (0, 4)]
                _put(warp, address_of(hosts[8 * number + row]) + 4 * at, _word(warp, halves))


def note_rows(warp: Warp, op: Op, hosts: Mapping[int, NDArray[np.uint8]]) -> None:
    """Note from where the words come that stmatrix stores: a lane has a word of one of the eight rows of each register."""
    for number, word in enumerate(warp.program.loaded.stores[op.index]):
        for lane in range(32):
            _note(warp, address_of(hosts[8 * number + lane // 4]) + 4 * (lane % 4), word, lane)


def _note(warp: Warp, host: int, word: LoadedWord | None, lane: int) -> None:
    """Note from where the word at a host address comes that a lane stores."""
    _put(warp, host, _source(warp, word, lane))


def _source(warp: Warp, word: LoadedWord | None, lane: int) -> int:
    """From where a lane has loaded a word; 0 if it is computed."""
    return 0 if word is None else _word(warp, _parts(warp, word, lane, 4))


def _element(warp: Warp, word: LoadedWord | None, lane: int, size: int) -> list[int]:
    """From where a lane has loaded each byte of an element that is smaller than a word; 0 if it is computed."""
    if word is None:
        return [0] * size
    parts = _parts(warp, word, lane, size)
    return [part_source(part, byte, 1) for part in parts for byte in range(size // len(parts))]


def _parts(warp: Warp, word: LoadedWord, lane: int, size: int) -> list[int]:
    """From where a lane has loaded a word, or fewer bytes, in equal parts."""
    parts = warp.program.loaded.noted(word, size)
    return [part_source(_at(warp, part.row, part.added, lane), part.byte, size // len(parts)) for part in parts]


def _word(warp: Warp, parts: Sequence[int]) -> int:
    """From where a word comes that consists of parts; 0 if one of them is not known."""
    return source_maker(warp.word(Word.LISTED_WORDS))(parts)


def _at(warp: Warp, row: int, byte: int, lane: int) -> int:
    """What a row says of a lane, and what is added to addresses."""
    return _behind(int(_row(warp, row)[lane]), byte)


def _behind(source: int, byte: int) -> int:
    """A source with what is added to addresses."""
    return source + byte if source > NO_SOURCE else source


def _put(warp: Warp, host: int, source: int) -> None:
    """Note from where the word at a host address comes, if it is in the shared memory of the cluster."""
    place = _place(warp, host)
    if place:
        bytes_at(place, 8).view(np.uint64)[0] = source


def _noted(warp: Warp, host: int) -> int:
    """From where the word at a host address comes; 0 if it is not known."""
    place = _place(warp, host)
    found = int(bytes_at(place, 8).view(np.uint64)[0]) if place else 0
    return _word(warp, _bytes_of(warp, place).tolist()) if found == IN_BYTES else found


def _place(warp: Warp, host: int) -> int:
    """Where the source of the word at a host address is noted; 0 outside the shared memories of the cluster."""
    own, stride = warp.word(Word.SHARED_RANK) >> SHARED_RANK_SHIFT, -(-warp.word(Word.SHARED_SIZE) // 4) * 8
    table = bytes_at(warp.word(Word.CLUSTER), 16 * warp.word(Word.CLUSTER_SIZE)).view(np.uint64).reshape(-1, 2)
    for rank, (base, size) in enumerate(table.tolist()):
        if base <= host < base + size:
            return warp.word(Word.COPIED) + (rank - own) * stride + (host - base) // 4 * 8
    return 0


def _row(warp: Warp, offset: int) -> NDArray[np.uint64]:
    return warp.frame[offset : offset + SOURCE_ROW].view(np.uint64)
