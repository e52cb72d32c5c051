"""What a launch overwrites in device memory: each part is copied before it is first written.

So memory that only is read is never copied, and the state before the launch can be had until its end.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa.context import Misuse
from ptxlab.machine.memory.global_memory import ALIGNMENT, WRITABLE, Allocation, DeviceMemory
from ptxlab.machine.memory.mirror import DeviceMirror
from ptxlab.native import address_of, callback_address

__all__ = ["Journal"]

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
_SMALLEST_PART = 1 << 18
_PARTS = 64
"""So many parts has a large allocation."""
_MORE_ROWS = 2 * _PARTS


@dataclass(slots=True)
class _Kept:
    """Of an allocation the ranges that may be written, sorted and apart from each other, and what stood there."""

    allocation: Allocation
    mirror: DeviceMirror | None
    written: list[tuple[int, int]] = field(default_factory=list)
    saved: list[tuple[int, NDArray[np.uint8]]] = field(default_factory=list)

    def gaps(self, first: int, stop: int) -> list[tuple[int, int]]:
        """What of a range may not be written yet."""
        found = []
        for start, end in self.written:
            if end > first and start < stop:
                if start > first:
                    found.append((first, start))
                first = end
        return [*found, (first, stop)] if first < stop else found

    def add(self, first: int, stop: int) -> None:
        """Let a range be written."""
        low = bisect_left(self.written, first, key=lambda each: each[1])
        high = bisect_right(self.written, stop, key=lambda each: each[0])
        for start, end in self.written[low:high]:
            first, stop = min(first, start), max(stop, end)
        self.written[low:high] = [(first, stop)]

    def rows(self, base: int, size: int, host: int, flags: int) -> list[tuple[int, int, int, int]]:
        """The rows of the allocation for compiled code: one for each range that may be written, and for what lies between."""
        found, at = [], 0
        for start, stop in [*self.written, (size, size)]:
            found += [(base + at, start - at, host + at, flags & ~WRITABLE)] if at < start else []
            found += [(base + start, stop - start, host + start, flags)] if start < stop else []
            at = stop
        return found


class Journal:
    """What some allocations held when the journal was begun.

    Parameters
    ----------
    memory : all device memory
    allocations : those that are of interest

    Attributes
    ----------
    rows : the table of all allocations for compiled code (`Word.ALLOCATIONS`), whose address stays the same. What may not be written yet
        stands there as memory that can only be read
    count : how many rows it has; those behind are not used
    resized : called when there are more rows or fewer
    address : of the function that compiled code calls at a write to such memory (`Word.BEFORE_WRITE`)
    """

    def __init__(self, memory: DeviceMemory, allocations: Iterable[Allocation]) -> None:
        self._memory = memory
        self._kept = {
            each.base: _Kept(each, None if each.mirror is None else each.mirror.copy())
            for each in allocations
            if each.writable and each.size
        }
        self._plain = memory.rows
        self.count = 0
        self.resized: Callable[[], None] = lambda: None
        self.rows: NDArray[np.uint64] = np.zeros((len(self._plain) + _MORE_ROWS, 4), np.uint64)
        self._tabulate()
        self._raised: BaseException | None = None
        self._callback = _CALLBACK(self._called)
        self.address = callback_address(self._callback)

    def before_write(self, address: int, size: int) -> Allocation:
        """Copy what stands in a range of an allocation, if nothing has written it; an error if it cannot be written."""
        found = self._memory.allocation(address, size, write=True)
        kept = self._kept.get(found.base)
        if kept is None or not size:
            return found
        at = address - found.base
        part = found.size if found.base % ALIGNMENT else max(_SMALLEST_PART, -(-found.size // _PARTS) + ALIGNMENT - 1 & -ALIGNMENT)
        first, stop = at // part * part, min(-(-(at + size) // part) * part, found.size)
        gaps = kept.gaps(first, stop)
        if gaps:
            kept.saved += [(start, found.data[start:end].copy()) for start, end in gaps]
            kept.add(first, stop)
            if not self._tabulate():
                self.before_write(found.base, found.size)
        return found

    def finish(self) -> None:
        """Raise what was raised while compiled code ran, which cannot pass it on."""
        if self._raised is not None:
            raise self._raised

    def forget(self) -> None:
        """Break the reference cycle of the journal and the function that compiled code calls."""
        vars(self).clear()

    def restore(self, allocations: Iterable[Allocation]) -> None:
        """Let allocations hold again what they held."""
        for allocation in allocations:
            kept = self._kept.get(allocation.base)
            for at, bytes_ in () if kept is None else kept.saved:
                allocation.data[at : at + bytes_.size] = bytes_

    def memory_before(self, roots: bytes) -> DeviceMemory:
        """A copy of the memory that can be reached from some addresses, as it was when the journal was begun."""
        made = self._memory.copy(roots)
        copies = [found for kept in self._kept.values() if (found := made.containing(kept.allocation.base)) is not None]
        self.restore(copies)
        for copy in copies:
            mirror = self._kept[copy.base].mirror
            copy.mirror = None if mirror is None else mirror.copy()
        return made

    def _called(self, address: int, size: int) -> int:
        try:
            found = self.before_write(address, size)
            return address_of(found.data) + address - found.base
        except Misuse:  # compiled code reports the fault
            return 0
        except BaseException as error:
            self._raised = error
            return 0

    def _tabulate(self) -> bool:
        """Fill the table; False if it is too small."""
        rows: list[tuple[int, int, int, int]] = []
        for base, size, host, flags in self._plain.tolist():
            kept = self._kept.get(base)
            rows += [(base, size, host, flags)] if kept is None else kept.rows(base, size, host, flags)
        if len(rows) > len(self.rows):
            return False
        self.rows[: len(rows)] = np.array(rows, np.uint64).reshape(-1, 4)
        if len(rows) != self.count:
            self.count = len(rows)
            self.resized()
        return True
