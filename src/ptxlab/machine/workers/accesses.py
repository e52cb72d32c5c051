"""What one process has read and written in device memory, byte by byte, and whether several processes have accessed the same bytes."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.support.access_maps import GROUP_BITMAP_BYTES, GROUP_BYTES
from ptxlab.engine.support.compiled import address_of as function_address
from ptxlab.isa.operations import MemoryAccess
from ptxlab.machine.memory.global_memory import Allocation, large_page_bytes
from ptxlab.native import address_of

__all__ = ["AccessMaps", "Groups", "conflict", "mark_ranges", "put", "read_groups", "write_all", "write_groups"]

_WORDS = GROUP_BITMAP_BYTES // 8


class Groups(NamedTuple):
    """Bytes of an allocation: the numbers of the groups of `GROUP_BYTES` in which some are, and a bit for each byte of these."""

    numbers: NDArray[np.int64]
    bits: NDArray[np.uint64]


_BITS = 64
"""A word of a map is about so many bytes."""
_BLOCK = 256
"""So many groups are written at once."""
_ALL = np.uint64(2**64 - 1)
_NOTHING = Groups(np.zeros(0, np.int64), np.zeros((0, _WORDS), np.uint64))


def write_groups(file: int, allocation: Allocation, groups: Groups) -> None:
    """Append the bytes of an allocation's groups to a file, `GROUP_BYTES` for each. `OSError` if there is no memory for them."""
    whole, end, inner = _whole(allocation, groups)
    block = np.empty((_BLOCK, GROUP_BYTES), np.uint8)
    for start in range(0, inner, _BLOCK):
        numbers = groups.numbers[start : min(start + _BLOCK, inner)]
        write_all(file, np.take(whole, numbers, axis=0, out=block[: len(numbers)], mode="clip").reshape(-1).data)  # other modes copy twice
    if inner < len(groups.numbers):
        block[0, : len(end)] = end
        write_all(file, block[0].data)


def write_all(file: int, data: bytes | memoryview) -> None:
    """Append bytes to a file, in several writes where one does not take all. `OSError` if there is no memory for them."""
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def read_groups(file: int, written: dict[int, Groups]) -> Iterator[tuple[int, Groups, NDArray[np.uint8]]]:
    """For each allocation its number, its groups, and their bytes in a file to which `write_groups` has written all of them, in rows."""
    sizes = [len(groups.numbers) * GROUP_BYTES for groups in written.values()]
    if not sizes:
        return
    mapped = mmap.mmap(file, sum(sizes), flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ)
    start = 0
    for (at, groups), size in zip(written.items(), sizes, strict=True):
        yield at, groups, np.frombuffer(mapped, np.uint8, size, start).reshape(-1, GROUP_BYTES)
        start += size


def put(allocation: Allocation, groups: Groups, rows: NDArray[np.uint8]) -> None:
    """Write the bytes of rows that belong to groups into an allocation."""
    numbers, bits = groups
    whole, end, inner = _whole(allocation, groups)
    words, places = bits[:inner].reshape(-1), (numbers[:inner, None] * _WORDS + np.arange(_WORDS)).reshape(-1)
    source, target = rows[:inner].reshape(-1, _BITS), whole.reshape(-1, _BITS)
    full = np.flatnonzero(words == _ALL)
    target[places[full]] = source[full]
    partial = np.flatnonzero((words != _ALL) & (words != 0))
    into = places[partial]
    target[into] = np.where(_mask(words[partial, None]), source[partial], target[into])
    if inner < len(rows):
        np.copyto(end, rows[inner, : len(end)], where=_mask(bits[inner:])[0, : len(end)])
    if allocation.mirror is not None:
        every = np.zeros((len(whole) + 1, GROUP_BYTES), np.bool_)
        every[numbers] = _mask(bits)
        allocation.define(every.reshape(-1)[: allocation.size])


def _whole(allocation: Allocation, groups: Groups) -> tuple[NDArray[np.uint8], NDArray[np.uint8], int]:
    """The whole groups of an allocation as rows, the bytes behind them, and how many of some groups are whole ones."""
    whole, _ = divmod(allocation.size, GROUP_BYTES)
    end = whole * GROUP_BYTES
    return allocation.data[:end].reshape(whole, GROUP_BYTES), allocation.data[end:], int(np.searchsorted(groups.numbers, whole))


def _mask(bits: NDArray[np.uint64]) -> NDArray[np.bool_]:
    return np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little").view(np.bool_)


class AccessMaps:
    """The access maps of those of some allocations that can be written (`ptxlab.engine.support.access_maps`).

    Attributes
    ----------
    rows : the table of the allocations for compiled code, with the maps
    """

    def __init__(self, allocations: Sequence[Allocation], rows: NDArray[np.uint64]) -> None:
        self._allocations = allocations
        sizes = [-(-a.size // GROUP_BYTES) * GROUP_BITMAP_BYTES if a.writable else 0 for a in allocations]
        whole = large_page_bytes(2 * sum(sizes))
        self._bitmaps = np.split(whole, 2 * np.cumsum(sizes)[:-1]) if sizes else []
        self._before: list[NDArray[np.uint64]] | None = None
        self._marked: dict[int, tuple[MemoryAccess, ...]] = {}
        flags = {a.base: address_of(bitmap) if a.writable else 0 for a, bitmap in zip(allocations, self._bitmaps, strict=True)}
        maps = np.array([flags[base] for base in rows[:, 0].tolist()], np.uint64)
        self.rows = rows.copy()
        self.rows[:, 3] |= maps
        mapped = self.rows[maps != 0]
        self._table = np.ascontiguousarray(mapped[np.argsort(mapped[:, 2])][:, [2, 1, 3]])
        self._mark = partial(mark_ranges(), address_of(self._table), len(self._table))

    def mark(self, accesses: Iterable[MemoryAccess]) -> None:
        """Mark accesses to these allocations; those to other memory are left out."""
        for access in accesses:
            self._mark(*access.where, access.write)

    def mark_once(self, accesses: tuple[MemoryAccess, ...]) -> None:
        """Mark accesses that operations repeat, given as the same object each time; once until `next_cluster`."""
        if id(accesses) not in self._marked:
            self._marked[id(accesses)] = accesses
            self.mark(accesses)

    def next_cluster(self) -> bool:
        """Note that another cluster follows; return whether the last one and an earlier one conflict: one has written what both access."""
        bits = [bitmap.view(np.uint64).reshape(2, -1) for bitmap in self._bitmaps]
        if self._before is None:
            self._before = [np.zeros_like(each) for each in bits]
        for allocation, now, before in zip(self._allocations, bits, self._before, strict=True):
            if allocation.writable and ((now[1] & (before[0] | before[1])).any() or (now[0] & before[1]).any()):
                return True
            before |= now
            now[:] = 0
        self._marked.clear()
        return False

    def _groups(self, at: int, written: bool) -> Groups:
        bits = self._bitmaps[at].view(np.uint64).reshape(2, -1, _WORDS)[int(written)]
        if self._before is not None:
            bits = bits | self._before[at].reshape(2, -1, _WORDS)[int(written)]
        if not bits.size or not bits.max():
            return _NOTHING
        numbers = np.flatnonzero(reduce(np.bitwise_or, bits.T))
        return Groups(numbers, bits[numbers])

    def written(self) -> dict[int, Groups]:
        """By the number of an allocation what has been written to it."""
        found = {at: self._groups(at, True) for at, allocation in enumerate(self._allocations) if allocation.writable}
        return {at: groups for at, groups in found.items() if len(groups.numbers)}

    def read(self, numbers: Iterable[int]) -> dict[int, Groups]:
        """What has been read of the allocations with these numbers."""
        return {at: self._groups(at, False) for at in numbers}


@cache
def mark_ranges() -> Any:
    """The compiled function that marks an access. Call this before workers are forked, so that each of them need not load the code."""
    number = ctypes.c_int64
    return ctypes.PYFUNCTYPE(None, *(number,) * 6, ctypes.c_int32)(function_address("markranges"))


def conflict(written: Sequence[dict[int, Groups]], read: Sequence[dict[int, Groups]]) -> int | None:
    """The number of an allocation of which a process has accessed bytes that another one has written; None if there is none."""
    for at in sorted(set().union(*written)):
        pairs = [(own.get(at, _NOTHING), others[at]) for own, others in zip(written, read, strict=True)]
        last = max(int(groups.numbers[-1]) for pair in pairs for groups in pair if len(groups.numbers))
        writes, reads = np.zeros((2, last + 1, _WORDS), np.uint64)
        for own, seen in pairs:
            if (writes[seen.numbers] & seen.bits).any() or ((writes | reads)[own.numbers] & own.bits).any():
                return at
            writes[own.numbers] |= own.bits
            reads[seen.numbers] |= seen.bits
    return None
