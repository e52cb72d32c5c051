"""The driver's memory as the machine sees it: device memory is memory of this process, at the same addresses."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.cuda.core_types import HeapChange
from ptxlab.diagnostics import Place, PtxlabError, diagnose
from ptxlab.machine.memory.elements import ArrayPlace
from ptxlab.machine.memory.global_memory import ALIGNMENT, AccessError, Allocation, DeviceMemory, out_of_memory

__all__ = ["TRANSFER", "DriverMemory", "ProgramMemory", "SharedMemory", "host_bytes"]

_BATCH = 256
_LARGEST_TABLE = 64 << 10
"""Bytes of an allocation that may be a table of pointers."""
_LARGEST_FOLLOWED = 16 << 20
"""Bytes of an allocation whose undefined bits are followed: a launch copies it for a second run."""
_REMEMBERED = 1024
"""Freed ranges that are kept, to say of an access that its memory was freed."""
_DEVICE, _VARIABLE, _POOL = 1, 5, 6
TRANSFER = 8
"""A change of what memory holds: ``TRANSFER`` in ``library/core.h``."""
_NAMES = {1: "cuMemAlloc", 2: "cuMemHostAlloc", 3: "cuMemHostRegister", 4: "cuMemAllocManaged", 6: "cuMemAllocAsync", 7: "cuMemMap"}
"""The functions of the kinds of memory in ``library/internal.h``."""
_FREED_BY_PROGRAM = tuple(_NAMES[kind] for kind in (1, 2, 4, 6))


class _Bytes:
    """Bytes at an address, for NumPy."""

    def __init__(self, address: int, size: int) -> None:
        self.__array_interface__ = {"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3}


def host_bytes(address: int, size: int) -> NDArray[np.uint8]:
    """Bytes of this process at an address; nothing keeps them."""
    return np.asarray(_Bytes(address, size)) if size else np.empty(0, np.uint8)


@dataclass(slots=True, eq=False)
class ProgramMemory(Allocation):
    """Memory that the program has allocated.

    Attributes
    ----------
    function : which has allocated it
    made, released : the places of the program that have allocated and freed it, as the library has noted them
    """

    function: str = ""
    made: int = 0
    released: int = 0


class DriverMemory(DeviceMemory):
    """What the driver has allocated on all its devices, since addresses are those of one process.

    Parameters
    ----------
    library : the driver
    device : where the variables of modules are placed

    Attributes
    ----------
    reader : called with address and size of device memory that the host has read, and the place of the call as the library has noted it;
        None: undefined bits of memory are not followed
    of_host_code : whether a call of host code is all that uses the memory (`ptxlab.cuda.calls`)
    place_of : the place that the library has noted with a number
    """

    chooses_addresses = False

    def __init__(self, library: Any, device: int = 0) -> None:
        super().__init__()
        self._library = library
        self._device = device
        self._version = 0
        self.reader: Callable[[int, int, int], None] | None = None
        self.of_host_code = False
        self.released: deque[Allocation] = deque()
        """What is to be freed: a device that is gone had it."""
        self._lock = threading.Lock()
        self._freed: deque[Allocation] = deque()
        self._changes = (HeapChange * _BATCH)()
        self._own_changes = 0
        """How many changes since `update` are variables of modules."""
        self._left: deque[ProgramMemory] = deque(maxlen=_REMEMBERED)
        self.place_of: Callable[[int], Place | None] = lambda _: None

    def allocate(
        self, size: int, name: str, *, alignment: int = ALIGNMENT, writable: bool = True, copied_back: bool = False, written: bool = True
    ) -> Allocation:
        """Allocate memory of the driver, for a variable of a module."""
        address = self._library.ptxlab_heap_allocate(self._device, size, max(alignment, ALIGNMENT))
        if not address:
            raise PtxlabError(diagnose("A311", f"{name} needs {size} bytes, and the device has no such memory"))
        with self._lock:
            self._own_changes += 1
            made = self.attach(address, host_bytes(address, size), name, writable=writable, copied_back=copied_back)
        if not written:
            made.leave_unwritten()
        return made

    def free(self, allocation: Allocation) -> None:
        """Free what `allocate` gave."""
        if not allocation.freed:
            with self._lock:
                self._own_changes += 1
                super().free(allocation)
            self._library.ptxlab_heap_free(allocation.base)

    def describe(self, address: int, name: str, arrays: tuple[ArrayPlace, ...], writable: bool = True) -> None:
        """Say what the allocation at an address is."""
        found = self.containing(address)
        if found is not None:
            found.name, found.arrays, found.writable = name, arrays, writable
            with self._lock:
                self._tabulate()

    def reached_from(self, roots: bytes) -> list[Allocation]:
        """The allocations that words in the parameters point to, and those that words in small ones of these point to.

        Programs have memory of other kernels too, which a launch need not copy. Allocations with undefined bits are copied all, so that
        their origins have the same numbers.
        """
        found = {allocation.base: allocation for allocation in self.mirrored()}
        seen: set[int] = set()
        left = [np.frombuffer(roots + bytes(-len(roots) % 8), np.uint64)]
        while left:
            for allocation, _ in self.reached(left.pop()):
                if allocation.base not in seen:
                    seen.add(allocation.base)
                    found[allocation.base] = allocation
                    if allocation.size <= _LARGEST_TABLE:
                        left.append(allocation.data[: allocation.size & ~7].view(np.uint64))
        return list(found.values())

    def update(self) -> None:
        """Take over what the program has allocated and freed since the last time."""
        while self.released:
            self.free(self.released.pop())
        with self._lock:
            version = self._library.ptxlab_heap_version()
            if version == self._version:
                return
            self._version, self._own_changes = version, 0
            moved = False
            while taken := self._library.ptxlab_heap_changes(self._changes, _BATCH):
                for change in self._changes[:taken]:
                    moved |= change.kind != TRANSFER
                    self._apply(change)
            if moved:
                self._tabulate()

    def is_current(self) -> bool:
        """Whether the program has changed nothing since `update`."""
        return self._version + self._own_changes == int(self._library.ptxlab_heap_version())

    def take_left(self) -> list[ProgramMemory]:
        """What the program has allocated and has not freed, with what ends of contexts have freed since the last call."""
        found = [*self._left, *(a for a in self.live() if isinstance(a, ProgramMemory))]
        self._left.clear()
        return [a for a in found if a.function in _FREED_BY_PROGRAM]

    def history(self, allocation: Allocation) -> tuple[tuple[str, str], ...]:
        """Where the program has allocated and freed memory, as details of a finding."""
        if not isinstance(allocation, ProgramMemory):
            return ()
        places = (("allocated at", self.place_of(allocation.made)), ("freed at", self.place_of(allocation.released)))
        return tuple((name, str(place)) for name, place in places if place is not None)

    def refusal(self, address: int, size: int, write: bool) -> AccessError:
        error = super().refusal(address, size, write)
        found = self.find(address)
        if error.code == "M403" and found is not None:
            error.fields["details"] = (*error.fields.get("details", ()), *self.history(found))
        return error

    def _apply(self, change: HeapChange) -> None:
        """Enter or release one range; the table of the compiled code is made afterwards."""
        kind = abs(change.kind)
        if kind == TRANSFER:
            self._transferred(change.address, change.id, change.size, change.place)
            return
        if kind == _VARIABLE:
            return
        if change.kind > 0:
            self._forget_below(change.address, change.size)
            function = _NAMES[kind]
            name = f"{function} #{change.id}"
            data, on_device = host_bytes(change.address, change.size), kind in (_DEVICE, _POOL)
            made = ProgramMemory(change.address, change.size, data, name, copied_back=not on_device, function=function, made=change.place)
            if self.reader is not None and on_device and change.size <= _LARGEST_FOLLOWED:
                made.leave_unwritten()
            at = bisect_left(self._bases, change.address)
            self._bases.insert(at, change.address)
            self._all.insert(at, made)
            return
        found = self.find(change.address)
        if found is not None and found.base == change.address and not found.freed:
            found.freed, found.data, found.mirror = True, np.empty(0, np.uint8), None
            if isinstance(found, ProgramMemory):
                found.released = change.place
                if change.left:
                    self._left.append(found)
            self._freed.append(found)
            if len(self._freed) > _REMEMBERED:
                self._remove(self._freed.popleft())

    def _transferred(self, to: int, source: int, size: int, place: int) -> None:
        """Follow undefined bits in a copy, or in a fill: that has no source. No bytes stand for all memory."""
        if not size:
            self.forget_mirrors()
            return
        from_device = self.containing(source) is not None
        try:
            if self.containing(to) is None:
                if from_device and self.reader is not None:
                    self.reader(source, size, place)
            elif from_device:
                self.move_undefined(to, source, size)
            else:
                self.define(to, size)
        except AccessError:
            """Freed since then, or a range of several allocations: nothing is known of it."""

    def _forget_below(self, address: int, size: int) -> None:
        """Forget freed ranges that a new one overlaps."""
        at = max(bisect_left(self._bases, address) - 1, 0)
        while at < len(self._all) and self._bases[at] < address + size:
            found = self._all[at]
            if found.freed and found.base + found.size > address:
                self._freed = deque(kept for kept in self._freed if kept is not found)
                del self._all[at], self._bases[at]
            else:
                at += 1

    def _remove(self, allocation: Allocation) -> None:
        at = bisect_left(self._bases, allocation.base)
        while at < len(self._all) and self._bases[at] == allocation.base:
            if self._all[at] is allocation:
                del self._all[at], self._bases[at]
                return
            at += 1


class SharedMemory:
    """The driver's memory as a device of Python has it: its own allocations are freed when the device is gone.

    Parameters
    ----------
    whole : the memory of the driver, whose methods this has too
    limit : bytes that the device can have; None: as many as there are
    """

    def __init__(self, whole: DriverMemory, limit: int | None) -> None:
        self.whole, self.limit = whole, limit
        self.own: list[Allocation] = []
        self._moved: list[tuple[int, Allocation]] = []
        """What has come from another memory, with the address that it had there."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    @property
    def used(self) -> int:
        """Bytes of the allocations of the device."""
        self.own[:] = [allocation for allocation in self.own if not allocation.freed]
        return sum(allocation.size for allocation in self.own)

    def allocate(self, size: int, name: str, **options: Any) -> Allocation:
        """Allocate memory of the device."""
        if self.limit is not None and self.used + size > self.limit:
            raise out_of_memory(name, size, self.limit - self.used, self.limit)
        made = self.whole.allocate(size, name, **options)
        self.own.append(made)
        return made

    def take(self, allocation: Allocation) -> None:
        """Give an allocation of another memory a place here."""
        self._moved.append((allocation.base, allocation))
        self.whole.take(allocation)
        self.own.append(allocation)

    @contextmanager
    def former_addresses(self) -> Iterator[None]:
        """Let kernels use the addresses of before, too, for a ``with`` statement: programs may have kept them."""
        moved = [(address, a) for address, a in self._moved if not a.freed and a.size]
        aliases = [self.whole.attach(at, a.data, a.name, writable=a.writable, copied_back=a.copied_back) for at, a in moved]
        for alias, (_, allocation) in zip(aliases, moved, strict=True):
            alias.mirror = allocation.mirror
        try:
            yield
        finally:
            for alias in aliases:
                self.whole.detach(alias)
