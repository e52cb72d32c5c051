"""What one process has read and written in device memory, byte by byte, and whether several processes have accessed the same bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.support.access_maps import GROUP_BITMAP_BYTES, GROUP_BYTES
from ptxlab.engine.support.compiled import address_of as function_address
from ptxlab.isa.context import AsyncOperation, MemoryAccess
from ptxlab.isa.effects import Asynchronous, Unit
from ptxlab.isa.operands import Op
from ptxlab.machine.memory.global_memory import Allocation, aligned_bytes
from ptxlab.machine.observe.observer import Observer
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.machine.warp.warp import Warp

__all__ = ["AccessMaps", "AccessObserver", "Groups", "Written", "conflict"]

_WORDS = GROUP_BITMAP_BYTES // 8


class Groups(NamedTuple):
    """Bytes of an allocation: the numbers of the groups of `GROUP_BYTES` in which some are, and a bit for each byte of these."""

    numbers: NDArray[np.int64]
    bits: NDArray[np.uint64]


_NOTHING = Groups(np.zeros(0, np.int64), np.zeros((0, _WORDS), np.uint64))


class Written(NamedTuple):
    """The bytes of an allocation that a process has written, and what its groups hold."""

    groups: Groups
    data: NDArray[np.uint8]

    def put(self, allocation: Allocation) -> None:
        """Write the bytes into an allocation of this process."""
        numbers, bits = self.groups
        mask = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little").astype(bool)
        data = allocation.data
        whole = len(data) // GROUP_BYTES
        inner = int(np.searchsorted(numbers, whole))
        into = data[: whole * GROUP_BYTES].reshape(whole, GROUP_BYTES)
        into[numbers[:inner]] = np.where(mask[:inner], self.data[:inner], into[numbers[:inner]])
        if inner < len(numbers):
            rest = data[whole * GROUP_BYTES :]
            np.copyto(rest, self.data[inner, : len(rest)], where=mask[inner, : len(rest)])
        if allocation.mirror is not None:
            every = np.zeros((whole + 1, GROUP_BYTES), np.bool_)
            every[numbers] = mask
            allocation.define(every.reshape(-1)[: len(data)])


class AccessMaps:
    """The access maps of some allocations (`ptxlab.engine.support.access_maps`).

    Attributes
    ----------
    rows : the table of the allocations for compiled code, with the maps
    """

    def __init__(self, allocations: Sequence[Allocation], rows: NDArray[np.uint64]) -> None:
        self._allocations = allocations
        sizes = [-(-a.size // GROUP_BYTES) * GROUP_BITMAP_BYTES for a in allocations]
        self._bitmaps = [aligned_bytes(2 * size, 64) for size in sizes]
        flags = {a.base: address_of(bitmap) for a, bitmap in zip(allocations, self._bitmaps, strict=True)}
        self.rows = rows.copy()
        self.rows[:, 3] |= np.array([flags[base] for base in rows[:, 0].tolist()], np.uint64)
        self._table = np.ascontiguousarray(self.rows[np.argsort(self.rows[:, 2])][:, [2, 1, 3]])

    def mark(self, accesses: Iterable[MemoryAccess]) -> None:
        """Mark accesses to these allocations; those to other memory are left out."""
        mark, table, count = _mark_ranges(), address_of(self._table), len(self._table)
        for access in accesses:
            mark(table, count, *access.where, access.write)

    def _groups(self, at: int, written: bool) -> Groups:
        bits = np.split(self._bitmaps[at].view(np.uint64), 2)[written].reshape(-1, _WORDS)
        numbers = np.flatnonzero(bits.any(axis=1))
        return Groups(numbers, bits[numbers])

    def written(self) -> dict[int, Written]:
        """By the number of an allocation what has been written to it."""
        found = {at: self._groups(at, True) for at, allocation in enumerate(self._allocations) if allocation.writable}
        return {
            at: Written(groups, _contents(self._allocations[at].data, groups.numbers)) for at, groups in found.items() if len(groups[0])
        }

    def read(self, numbers: Iterable[int]) -> dict[int, Groups]:
        """What has been read of the allocations with these numbers."""
        return {at: self._groups(at, False) for at in numbers}


def _contents(data: NDArray[np.uint8], numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The bytes of groups; what is behind the end is zero."""
    found = np.zeros((len(numbers), GROUP_BYTES), np.uint8)
    whole = len(data) // GROUP_BYTES
    inner = int(np.searchsorted(numbers, whole))
    found[:inner] = data[: whole * GROUP_BYTES].reshape(whole, GROUP_BYTES)[numbers[:inner]]
    if inner < len(numbers):
        found[inner, : len(data) - whole * GROUP_BYTES] = data[whole * GROUP_BYTES :]
    return found


@cache
def _mark_ranges() -> Any:
    number = ctypes.c_int64
    return ctypes.PYFUNCTYPE(None, *(number,) * 6, ctypes.c_int32)(function_address("markranges"))


def conflict(written: Sequence[dict[int, Written]], read: Sequence[dict[int, Groups]]) -> int | None:
    """The number of an allocation of which a process has accessed bytes that another one has written; None if there is none."""
    for at in sorted(set().union(*written)):
        pairs = [(own[at].groups if at in own else _NOTHING, others[at]) for own, others in zip(written, read, strict=True)]
        last = max(int(groups.numbers[-1]) for pair in pairs for groups in pair if len(groups.numbers))
        writes, reads = np.zeros((2, last + 1, _WORDS), np.uint64)
        for own, seen in pairs:
            if (writes[seen.numbers] & seen.bits).any() or ((writes | reads)[own.numbers] & own.bits).any():
                return at
            writes[own.numbers] |= own.bits
            reads[seen.numbers] |= seen.bits
    return None


_UNITS = (Unit.TMA, Unit.STORE)
"""What performs asynchronous operations on device memory; compiled code itself marks what cp.async reads."""


class AccessObserver(Observer):
    """Marks the accesses that no compiled code makes.

    Attributes
    ----------
    maps : of this process, None while nothing is to be marked
    clipped : whether an operation has written bytes that it does not declare: a store of a tensor map up to the end of an allocation
    """

    def __init__(self) -> None:
        self.maps: AccessMaps | None = None
        self.clipped = False

    def retire_hook(self, op: Op) -> None:
        """No instruction is of interest when it completes."""

    def issued(self, operation: AsyncOperation) -> None:
        if self.maps is not None and operation.accesses is not None:
            effects = operation.op.effects
            if isinstance(effects, Asynchronous) and effects.unit in _UNITS:
                self.maps.mark(operation.accesses())

    def accessed(self, warp: Warp, accesses: Iterable[MemoryAccess]) -> None:
        if self.maps is not None:
            self.maps.mark(accesses)
