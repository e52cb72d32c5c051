"""Mirrors of memory: for each byte of shared, tensor, global and local memory a byte with its undefined bits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.check.race.undefined.device_memory import ObjectOrigins
from ptxlab.engine.support.mirrors import MIRROR_ROW, NO_MIRROR_BYTES
from ptxlab.isa.operations import MemoryAccess
from ptxlab.machine.memory.global_memory import Allocation, aligned_bytes
from ptxlab.native import address_of

__all__ = ["UNDEFINED", "Mirrors", "WatchedMemory"]

UNDEFINED = 0xFF
_MOST_OBJECTS = 1 << 14


@dataclass(slots=True, eq=False)
class WatchedMemory:
    """Memory with its mirror, and the origins of undefined bits in it.

    Attributes
    ----------
    fresh : for memory that ends with the launch, the bytes in which undefined bits are what was there at first: nothing has stored any
    """

    data: NDArray[np.uint8]
    mirror: NDArray[np.uint8]
    owner: Any
    origins: ObjectOrigins = field(default_factory=ObjectOrigins)
    fresh: NDArray[np.bool_] | None = None

    @property
    def start(self) -> int:
        return address_of(self.data)

    def undefined(self, where: slice | NDArray[np.intp]) -> NDArray[np.intp]:
        """Those of some bytes that have undefined bits."""
        places: NDArray[np.intp] = np.arange(where.start, where.stop, dtype=np.intp) if isinstance(where, slice) else where
        found: NDArray[np.intp] = places[self.mirror[places] != 0]
        return found

    def stored(self, where: slice | NDArray[np.intp]) -> None:
        """Undefined bits have been stored to some bytes."""
        if self.fresh is not None:
            self.fresh[where] = False


def _watched(data: NDArray[np.uint8], owner: Any, fill: int) -> WatchedMemory:
    mirror = aligned_bytes(data.nbytes, 64)
    mirror[:] = fill
    return WatchedMemory(data, mirror, owner)


class Mirrors:
    """The mirrors of all memory that a launch reaches, and the table of them that compiled code reads."""

    def __init__(self, defined: Iterable[tuple[NDArray[np.uint8], Any]]) -> None:
        """``defined`` is memory all of whose bits are defined, each with its owner."""
        self._objects = [_watched(data, owner, 0) for data, owner in defined]
        self._table: NDArray[np.uint64] = np.zeros(1 + _MOST_OBJECTS * (MIRROR_ROW // 8), np.uint64)
        self._nowhere = np.zeros(NO_MIRROR_BYTES, np.uint8)
        self.table, self.nowhere = address_of(self._table), address_of(self._nowhere)
        self._tabulate()

    def watch(self, data: NDArray[np.uint8], owner: Any, fill: int) -> WatchedMemory:
        """Give memory a mirror, which starts with this byte everywhere."""
        made = _watched(data, owner, fill)
        made.fresh = np.ones(data.nbytes, np.bool_) if fill else None
        self._objects.append(made)
        self._tabulate()
        return made

    def forget(self, held: WatchedMemory) -> None:
        """Drop the mirror of memory."""
        self._objects.remove(held)
        self._tabulate()

    def _tabulate(self) -> None:
        self._objects.sort(key=lambda each: each.start)
        self._table[0] = len(self._objects)
        rows = [(each.start, each.data.nbytes, address_of(each.mirror)) for each in self._objects]
        self._table[1 : 1 + 3 * len(rows)] = np.array(rows, np.uint64).reshape(-1)

    def find(self, host: int) -> WatchedMemory | None:
        """The memory that holds a host address."""
        starts = self._table[1 : 1 + 3 * int(self._table[0]) : 3]
        at = int(np.searchsorted(starts, np.uint64(host), "right")) - 1
        if at < 0 or host >= self._objects[at].start + self._objects[at].data.nbytes:
            return None
        return self._objects[at]

    def places(self, hosts: dict[int, int]) -> list[tuple[WatchedMemory, dict[int, int]]]:
        """The memory that lanes reach, each with the places of its lanes."""
        found: dict[int, tuple[WatchedMemory, dict[int, int]]] = {}
        held: WatchedMemory | None = None
        start = end = 0
        for lane, host in hosts.items():
            if not start <= host < end:
                held = self.find(host)
                if held is not None:
                    start, end = held.start, held.start + held.data.nbytes
            if held is not None:
                found.setdefault(id(held), (held, {}))[1][lane] = host - start
        return list(found.values())

    def allocations(self) -> list[WatchedMemory]:
        """The allocations of global memory."""
        return [each for each in self._objects if isinstance(each.owner, Allocation)]

    def named(self, name: str) -> WatchedMemory:
        """The allocation of global memory whose name has this word."""
        return next(each for each in self._objects if name in re.findall(r"\w+", getattr(each.owner, "name", "")))

    def of(self, memory: NDArray[Any]) -> NDArray[Any]:
        """The undefined bits of a part of memory as an array of the same form; zeros for memory without a mirror."""
        held = self.find(address_of(memory)) if memory.size else None
        if held is None:
            return np.zeros(memory.shape, memory.dtype)
        return np.ndarray(memory.shape, memory.dtype, held.mirror.data, address_of(memory) - held.start, memory.strides)

    def ranges(self, access: MemoryAccess) -> Iterator[tuple[WatchedMemory, int, int]]:
        """The ranges of an access, as memory and the first and last byte in it."""
        held: WatchedMemory | None = None
        sizes = np.broadcast_to(access.sizes, access.starts.shape)
        for start, size in zip(access.starts.tolist(), sizes.tolist(), strict=True):
            if held is None or not held.start <= start < held.start + held.data.nbytes:
                held = self.find(start)
            if held is not None:
                yield held, start - held.start, start - held.start + size

    def undefined(self, accesses: Iterable[MemoryAccess]) -> Iterator[tuple[WatchedMemory, int, int]]:
        """The ranges of some accesses that have undefined bits."""
        for access in accesses:
            for held, first, stop in self.ranges(access):
                if held.mirror[first:stop].any():
                    yield held, first, stop

    def fill(self, accesses: Iterable[MemoryAccess], undefined: bool) -> None:
        """Make all bits undefined, or defined."""
        for access in accesses:
            for held, first, stop in self.ranges(access):
                held.mirror[first:stop] = UNDEFINED if undefined else 0
