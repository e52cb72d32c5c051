"""Global memory of the simulated device: separate allocations with gaps between them."""

from __future__ import annotations

import mmap
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab._records import dataclass
from ptxlab.diagnostics import PtxlabError, diagnose
from ptxlab.isa.address_space import GLOBAL_BASE
from ptxlab.isa.context import Misuse
from ptxlab.machine.memory.deferred_copies import copier
from ptxlab.machine.memory.elements import ArrayPlace, elements_text
from ptxlab.machine.memory.mirror import WRITE_IT, DeviceMirror, Origin
from ptxlab.native import address_of

__all__ = ["ALIGNMENT", "AccessError", "Allocation", "DeviceMemory", "aligned_bytes", "large_page_bytes", "out_of_memory", "sparse_bytes"]

ALIGNMENT = 256
"""Every allocation starts at a multiple of this, as ``cudaMalloc`` promises."""

_GUARD = 0x1_0000
_LARGE_PAGE = 1 << 21
READABLE, WRITABLE = 1, 2


class AccessError(Misuse):
    """An access that is not allowed."""


def aligned_bytes(size: int, alignment: int = 64) -> NDArray[np.uint8]:
    """Return zeroed bytes whose host address is a multiple of ``alignment``."""
    raw = np.zeros(size + alignment, np.uint8)
    skip = -address_of(raw) % alignment
    return raw[skip : skip + size]


def sparse_bytes(size: int) -> NDArray[np.uint8]:
    """Return zeroed bytes, of which only small pages that are written take memory.

    NumPy asks Linux for large pages, of 2 MiB or more, for arrays of 4 MiB or more.
    """
    return aligned_bytes(size) if sys.platform != "linux" else _mapped_bytes(size, mmap.MADV_NOHUGEPAGE)


def large_page_bytes(size: int) -> NDArray[np.uint8]:
    """Return zeroed bytes in large pages, if there are some: for memory in which many places are written, with few page faults."""
    if sys.platform != "linux":
        return aligned_bytes(size)
    raw = _mapped_bytes(size + _LARGE_PAGE, mmap.MADV_HUGEPAGE)
    skip = -address_of(raw) % _LARGE_PAGE
    return raw[skip : skip + size]


def _mapped_bytes(size: int, advice: int) -> NDArray[np.uint8]:
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without large pages
        memory.madvise(advice)
    return np.frombuffer(memory, np.uint8)


def out_of_memory(name: str, size: int, free: int, limit: int) -> PtxlabError:
    """The error of an allocation for which a device has too little memory."""
    text = f"{name} needs {size} bytes, but only {free} of the device's {limit} are free"
    return PtxlabError(diagnose("A311", text, fix="free buffers, or give the Device more memory_bytes"))


@dataclass(slots=True, eq=False)
class Allocation:
    """A range of device addresses and the host bytes that hold it.

    Attributes
    ----------
    copied_back : whether the host reads it when a launch ends: an array argument, or memory of the host
    mirror : its undefined bits; None if all are defined
    arrays : those that lie in it, as far as they are known
    """

    base: int
    size: int
    data: NDArray[np.uint8]
    name: str
    writable: bool = True
    copied_back: bool = False
    freed: bool = False
    mirror: DeviceMirror | None = None
    arrays: tuple[ArrayPlace, ...] = ()

    def elements(self, addresses: Iterable[int]) -> tuple[tuple[str, str], ...]:
        """The elements at some device addresses, as details of a finding: none if no array is known there."""
        text = elements_text(self.arrays, addresses) if self.arrays else ""
        return (("elements", text),) if text else ()

    def leave_unwritten(self) -> None:
        """Count all bits as undefined: nothing has written them."""
        if self.size:
            self.mirror = DeviceMirror.unwritten(self.size, _unwritten(self))

    def define(self, bytes_: slice | NDArray[np.bool_]) -> None:
        """All bits of some bytes are defined."""
        if self.mirror is not None:
            self.mirror.define(bytes_)
            if not self.mirror.bits.any():
                self.mirror = None

    def __str__(self) -> str:
        return f"{self.name} [{self.base:#x}, {self.base + self.size:#x}), {self.size} bytes"


class DeviceMemory:
    """All allocations of a device, live and freed; addresses are never used twice.

    ``rows`` is the table that compiled code searches: base, size, host address, flags (bit 0 readable, bit 1 writable), sorted by base.
    ``chooses_addresses`` says that device addresses do not depend on where the host keeps the bytes. ``refuses_write`` is called with an
    allocation that cannot be written, before a write to it is refused.
    """

    chooses_addresses = True
    refuses_write: Callable[[Allocation], None] | None = None

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.used = 0
        self._next = GLOBAL_BASE
        self._all: list[Allocation] = []
        self._bases: list[int] = []
        self.rows: NDArray[np.uint64] = np.zeros((0, 4), np.uint64)

    def allocate(
        self, size: int, name: str, *, alignment: int = ALIGNMENT, writable: bool = True, copied_back: bool = False, written: bool = True
    ) -> Allocation:
        """Reserve zeroed bytes; their bits are undefined if they do not count as ``written``."""
        alignment = max(alignment, ALIGNMENT)
        if self.limit is not None and self.used + size > self.limit:
            raise out_of_memory(name, size, self.limit - self.used, self.limit)
        try:
            data = aligned_bytes(size, 256)
        except (MemoryError, ValueError, OverflowError):
            raise PtxlabError(diagnose("A311", f"the computer has no {size} bytes of memory for {name}")) from None
        made = self._place(data, name, alignment, writable, copied_back)
        if not written:
            made.leave_unwritten()
        return made

    def adopt(self, data: NDArray[np.uint8], name: str, *, writable: bool = True) -> Allocation:
        """Give host bytes a device address, without a copy; `free` ends this."""
        if self.limit is not None and self.used + data.size > self.limit:
            raise out_of_memory(name, data.size, self.limit - self.used, self.limit)
        return self._place(data, name, ALIGNMENT, writable, True)

    def _place(self, data: NDArray[np.uint8], name: str, alignment: int, writable: bool, copied_back: bool) -> Allocation:
        base = -(-self._next // alignment) * alignment
        self._next = -(-(base + data.size + _GUARD) // _GUARD) * _GUARD
        self.used += data.size
        return self.attach(base, data, name, writable=writable, copied_back=copied_back)

    def attach(self, address: int, data: NDArray[np.uint8], name: str, *, writable: bool = True, copied_back: bool = True) -> Allocation:
        """Make host bytes device memory at a given address, without a copy; `detach` ends this."""
        allocation = Allocation(address, data.size, data, name, writable, copied_back)
        at = bisect_right(self._bases, address)
        self._bases.insert(at, address)
        self._all.insert(at, allocation)
        self._tabulate()
        return allocation

    def take(self, allocation: Allocation) -> None:
        """Give a live allocation of another memory a place here, with what it holds."""
        made = self.allocate(allocation.size, allocation.name, writable=allocation.writable, copied_back=allocation.copied_back)
        made.data[:] = allocation.data
        moved = (replace(place, address=place.address + made.base - allocation.base) for place in allocation.arrays)
        allocation.arrays, allocation.base, allocation.data = tuple(moved), made.base, made.data
        self._all[self._all.index(made)] = allocation

    def detach(self, allocation: Allocation) -> None:
        """End what `attach` began."""
        at = self._all.index(allocation)
        del self._all[at], self._bases[at]
        self._tabulate()

    def reached_from(self, roots: bytes) -> list[Allocation]:
        """The live allocations that a launch may access, whose parameters and variables have these addresses."""
        return self.live()

    def copy(self, roots: bytes | None = None) -> DeviceMemory:
        """Return the same allocations with copies of their bytes; freed ones are kept as freed.

        With ``roots``, only those that can be reached from there.
        """
        made = DeviceMemory()
        wanted = None if roots is None else set(map(id, self.reached_from(roots)))
        copied = [a for a in self._all if wanted is None or a.freed or id(a) in wanted]
        made._next, made._bases = self._next, [a.base for a in copied]
        for a in copied:
            data = aligned_bytes(a.data.size, 256)
            data[:] = a.data
            mirror = None if a.mirror is None else a.mirror.copy()
            made._all.append(Allocation(a.base, a.size, data, a.name, a.writable, a.copied_back, a.freed, mirror, a.arrays))
        made._tabulate()
        return made

    def free(self, allocation: Allocation) -> None:
        """Release the bytes; the range is kept to recognise accesses to it."""
        if not allocation.freed:
            allocation.freed = True
            allocation.data = np.empty(0, np.uint8)
            allocation.mirror = None
            self.used -= allocation.size
            self._tabulate()

    def keep_only(self, allocations: Iterable[Allocation]) -> None:
        """Forget all other allocations: accesses to them are refused."""
        wanted = set(map(id, allocations))
        self._all = [a for a in self._all if id(a) in wanted]
        self._bases = [a.base for a in self._all]
        self._tabulate()

    def _tabulate(self) -> None:
        live = [
            (a.base, a.size, a.data.ctypes.data, READABLE | (WRITABLE if a.writable else 0)) for a in self._all if not a.freed and a.size
        ]
        self.rows = np.array(live, np.uint64).reshape(len(live), 4)

    def live(self) -> list[Allocation]:
        """Allocations that are not freed, by address."""
        return [a for a in self._all if not a.freed]

    # --------------------------------------------------------------------------------------------------- undefined bits

    def mirrored(self) -> list[Allocation]:
        """Allocations that have undefined bits, by address."""
        return [a for a in self._all if a.mirror is not None]

    def forget_mirrors(self) -> None:
        """Count all bits as defined."""
        for allocation in self.mirrored():
            allocation.mirror = None

    def origins(self) -> list[Origin]:
        """The origins of all undefined bits."""
        mirrored = self.mirrored()
        if not mirrored:
            return []
        return list(dict.fromkeys(o for a in mirrored if a.mirror is not None for each in a.mirror.origins for o in each))

    def undefined(self, address: int, size: int) -> Iterator[Origin]:
        """The origins of undefined bits in a range of one allocation."""
        found = self.allocation(address, size)
        return iter(()) if found.mirror is None else found.mirror.within(address - found.base, address - found.base + size)

    def define(self, address: int, size: int) -> None:
        """The host has written a range of one allocation."""
        found = self.allocation(address, size, write=True)
        if size == found.size:
            found.mirror = None
        found.define(slice(address - found.base, address - found.base + size))

    def move(self, to: int, source: int, size: int) -> None:
        """Copy bytes from one range to another one, each in one allocation; undefined bits stay undefined."""
        self.view(to, size, write=True)[:] = self.view(source, size).copy()
        self.move_undefined(to, source, size)

    def move_undefined(self, to: int, source: int, size: int) -> None:
        """Note that bytes have been copied from one range to another one: undefined bits stay undefined."""
        target, origin = self.allocation(to, size, write=True), self.allocation(source, size)
        at, first = to - target.base, source - origin.base
        mirror = None if origin.mirror is None else origin.mirror.copy()
        self.define(to, size)
        if mirror is not None and mirror.bits[first : first + size].any():
            if target.mirror is None:
                target.mirror = DeviceMirror(np.zeros(target.size, np.uint8), np.zeros(target.size, np.uint32), [])
            target.mirror.take(at, mirror, first, first + size)

    # -------------------------------------------------------------------------------------------------------- look-ups

    def find(self, address: int) -> Allocation | None:
        """The last allocation, freed or not, that starts at or before an address."""
        at = bisect_right(self._bases, address) - 1
        return self._all[at] if at >= 0 else None

    def allocation(self, address: int, size: int, write: bool = False) -> Allocation:
        """The live allocation that a range lies inside."""
        found = self.find(address)
        if found is not None and not found.freed and address + size <= found.base + found.size and (found.writable or not write):
            return found
        raise self.refusal(address, size, write)

    def containing(self, address: int) -> Allocation | None:
        """The live allocation that an address lies in."""
        found = self.find(address)
        return None if found is None or found.freed or address >= found.base + found.size else found

    def reached(self, addresses: NDArray[np.uint64]) -> Iterator[tuple[Allocation, NDArray[np.bool_]]]:
        """The live allocations that addresses lie in, each with which of them do."""
        if not addresses.size:
            return
        rows = np.searchsorted(self.rows[:, 0], addresses, "right") - 1
        for row in distinct(rows[rows >= 0]).tolist():
            base, size = self.rows[row, :2]
            inside = (rows == row) & (addresses - base < size)
            found = self.find(int(base))
            if found is not None and inside.any():
                yield found, inside

    def view(self, address: int, size: int, write: bool = False, most: int = 0) -> NDArray[np.uint8]:
        """The bytes of a range that lies inside one live allocation; up to ``most`` bytes, if the allocation has them."""
        found = self.allocation(address, size, write)
        at = address - found.base
        return found.data[at : at + max(size, most)]

    def copy_to_shared(self, shared: NDArray[np.uint8], rows: NDArray[np.uint64]) -> None:
        """Perform deferred non-bulk copies in the order of issue.

        Rows hold the shared offset, the global address, and size | source size << 8 | lane << 16. Bytes after the source size become zero.
        """
        count, done = len(rows), 0
        rows = np.ascontiguousarray(rows)
        while done < count:
            size = int(rows[done, 2]) >> 8 & 0xFF
            base, end, data = 0, 0, 0
            if size:
                found = self.allocation(int(rows[done, 1]), size)
                base, end, data = found.base, found.base + found.size, address_of(found.data)
            done = copier()(address_of(shared), address_of(rows), done, count, base, end, data)

    def refusal(self, address: int, size: int, write: bool) -> AccessError:
        """Make the error of an access that is refused."""
        what = "write" if write else "read"
        verb = f"{what} of {size} bytes at {address:#x}"
        found = self.find(address)
        if found is not None:
            end = found.base + found.size
            if address < end:
                if found.freed:
                    return AccessError("M403", f"{verb}, in memory that was freed: {found}")
                if address + size > end:
                    text = f"{verb} runs {address + size - end} bytes past the end of {found}"
                    return AccessError("M402", text, details=found.elements((address,)))
                if self.refuses_write is not None:
                    self.refuses_write(found)
                return AccessError("M404", f"{verb}, in read-only memory: {found}", details=found.elements((address,)))
            if address - end < _GUARD:
                state = "freed " if found.freed else ""
                text = f"{verb}, {address - end} bytes past the end of {state}{found}"
                return AccessError("M402", text, details=found.elements((address,)))
        at = bisect_right(self._bases, address)
        if at < len(self._all) and self._bases[at] - address <= _GUARD:
            return AccessError("M401", f"{verb}, {self._bases[at] - address} bytes before the start of {self._all[at]}")
        if address < 0x1_0000:
            return AccessError("M401", f"{verb}: a null pointer" + " with an offset" * (address > 0))
        return AccessError("M401", f"{verb}, which belongs to no allocation")


def _unwritten(allocation: Allocation) -> Origin:
    """The origin of the undefined bits of a new allocation."""
    found = diagnose("M412", f"the host reads {allocation}, which nothing has written", fix=WRITE_IT)
    return Origin(f"{allocation}: nothing has written it", WRITE_IT, found, unwritten=True)
