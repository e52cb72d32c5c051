"""Undefined bits of device memory in a launch: those that earlier launches have left in it, and those that it leaves to later ones.

The first run notes which undefined bytes it reads and writes. If it reads none and stores no undefined bits, what it has written is
defined afterwards. Otherwise the second run follows the bits, each with its origin, and device memory keeps what the run leaves in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab._records import dataclass
from ptxlab.engine.lowering.register_use import flatten
from ptxlab.isa.native_ops import LaneAccess
from ptxlab.isa.operands import Op, Reg
from ptxlab.machine.launch.indeterminate import KEPT, UndefinedUse, described, undefined_use
from ptxlab.machine.memory.global_memory import Allocation
from ptxlab.machine.memory.mirror import WRITE_IT, DeviceMirror, Origin

if TYPE_CHECKING:
    from ptxlab.check.race.shadow.shadow import Object
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = [
    "ByteOrigins",
    "DeviceMemoryUse",
    "ObjectOrigins",
    "StoredBits",
    "UnwrittenRead",
    "bytes_at",
    "is_unwritten",
    "keep",
    "report_unwritten",
    "roots",
]


# ----------------------------------------------------------------------------------------------------------- the first run


class DeviceMemoryUse:
    """The undefined bytes of device memory that the first run reads and writes.

    Attributes
    ----------
    read : whether it has read some
    """

    def __init__(self) -> None:
        self._watched: list[Object] = []
        self.read = False

    def watch(self, made: Object) -> None:
        """Let the shadow of an allocation note which of its undefined bytes are read and written."""
        mirror = made.owner.mirror
        if mirror is not None:
            words: NDArray[np.uint32] = np.zeros(len(made.cells), np.uint32)
            defined = np.packbits(mirror.bits == 0, bitorder="little")
            words.view(np.uint8)[: len(defined)] = defined
            made.written = words
            self._watched.append(made)

    def reads(self, host: int) -> Object | None:
        """Note a read of undefined bytes; the device memory that holds the host address of their granule, if it is such."""
        made = next((made for made in self._watched if made.start <= host < made.start + made.data.nbytes), None)
        self.read |= made is not None
        return made

    @staticmethod
    def unwritten(made: Object, places: Iterable[int], masks: Iterable[int]) -> set[int]:
        """Of bytes of granules, the host addresses of those that nothing has written."""
        mirror: DeviceMirror | None = made.owner.mirror
        if mirror is None:  # what runs beside the launch may have written it
            return set()
        never = np.array([any(origin.unwritten for origin in each) for each in mirror.origins])
        if not never.any():
            return set()
        found = [place + byte for place, mask in zip(places, masks, strict=True) for byte in range(32) if mask >> byte & 1]
        inside = distinct(found).astype(np.int64) - made.start
        inside = inside[(inside >= 0) & (inside < made.data.nbytes)]
        inside = inside[mirror.bits[inside] != 0]
        return set((inside[never[mirror.numbers[inside]]] + made.start).tolist())

    def settle(self) -> None:
        """The launch has read no undefined bits: all bytes that it has written are defined."""
        for made in self._watched:
            assert made.written is not None
            written = np.unpackbits(made.written.view(np.uint8), bitorder="little")[: made.data.nbytes]
            made.owner.define(written.astype(bool))


# ---------------------------------------------------------------------------------------------------------- the second run


class UnwrittenRead(NamedTuple):
    """A read of bytes of device memory that nothing has written: those of an allocation from one place up to another one."""

    op: Op
    allocation: Allocation
    first: int
    stop: int


def is_unwritten(launch: Launch, origins: Iterable[int]) -> bool:
    """Whether undefined bits with these origins stand in memory that nothing has written."""
    return any(_is_kept(origin) and launch.kept[origin - KEPT].unwritten for origin in origins)


def _is_kept(origin: int) -> bool:
    return KEPT <= origin < 2 * KEPT


def report_unwritten(launch: Launch, reads: dict[int, UnwrittenRead], used: dict[int, Op], known: Container[tuple[str, int]]) -> None:
    """Report the reads of device memory that nothing has written, if the value is used and the first run has not reported them."""
    for index, read in sorted(reads.items()):
        if index in used and ("M412", index) not in known:
            message = f"{read.op.short} reads bytes {read.first:#x}-{read.stop - 1:#x} of {read.allocation.name}, which nothing has written"
            elements = read.allocation.elements(range(read.allocation.base + read.first, read.allocation.base + read.stop))
            details = (*elements, ("allocation", str(read.allocation)), ("used by", launch.reports.name(used[index])))
            launch.reports.add("M412", message, op=read.op, fix=WRITE_IT, details=details)


def roots(launch: Launch, origins: list[int]) -> Iterator[tuple[str, str]]:
    """Where undefined bits with these origins come from, without those of which the launch has a finding, and what to do about them."""
    for origin in origins:
        if _is_kept(origin):
            yield launch.kept[origin - KEPT].text, launch.kept[origin - KEPT].fix
        elif origin not in launch.observations.seen:
            text, fix = described(launch, origin)
            yield f"kernel {launch.program.name}, launch {launch.device.launches}: {text}", fix


def bytes_at(starts: Iterable[int], size: int) -> NDArray[np.intp]:
    """So many bytes from each start."""
    return (np.array(list(starts), np.intp)[:, None] + np.arange(size)).reshape(-1)


@dataclass(slots=True, eq=False)
class ObjectOrigins:
    """The origins of undefined bits in memory that ends with the launch: one set for the whole object."""

    found: set[int] = field(default_factory=set)

    def within(self, where: slice | NDArray[np.intp]) -> set[int]:
        """The origins of undefined bits in some bytes."""
        return self.found

    def add(self, first: int, stop: int, origins: set[int], op: Op, use: Callable[[], UndefinedUse]) -> None:
        """An asynchronous operation has written undefined bits to a range of bytes; ``use`` makes the finding if the host reads them."""
        self.found |= origins

    def stored(self, warp: Warp, op: Op, native: Any, mask: int, places: dict[int, int]) -> None:
        """Lanes have stored undefined bits, at these places in the object."""
        self.found |= warp.origins(warp.launch.program.reads[op.index], mask)


@dataclass(frozen=True, slots=True)
class StoredBits:
    """Undefined bits in device memory: their origins, and how they came there, None if before the launch."""

    origins: frozenset[int]
    use: UndefinedUse | None = None


class ByteOrigins(ObjectOrigins):
    """The origins of undefined bits in device memory that later launches read: for each byte.

    Attributes
    ----------
    numbers : for each byte a position in ``entries``
    entries : the origins of all device memory of the launch
    """

    def __init__(self, allocation: Allocation, bits: NDArray[np.uint8], launch: Launch, entries: list[StoredBits]) -> None:
        self._bits = bits
        self._launch = launch
        self.entries = entries
        self._known: dict[tuple[int, frozenset[int]], int] = {}
        mirror = allocation.mirror
        self.numbers: NDArray[np.uint32] = np.zeros(allocation.size, np.uint32)
        if mirror is not None:
            bits[:] = mirror.bits
            self.numbers[:] = mirror.numbers + np.uint32(len(entries))
            positions = {origin: KEPT + number for number, origin in enumerate(launch.kept)}
            for origins in mirror.origins:
                entries.append(StoredBits(frozenset(positions[origin] for origin in origins if origin in positions)))

    def within(self, where: slice | NDArray[np.intp]) -> set[int]:
        numbers = distinct(self.numbers[where][self._bits[where] != 0]).tolist()
        return {origin for number in numbers for origin in self.entries[number].origins}

    def add(self, first: int, stop: int, origins: set[int], op: Op, use: Callable[[], UndefinedUse]) -> None:
        self.numbers[first:stop] = self._number(op, frozenset(origins), use)

    def stored(self, warp: Warp, op: Op, native: Any, mask: int, places: dict[int, int]) -> None:
        assert isinstance(native, LaneAccess)
        size = native.bits // 8
        inside = sum(1 << lane for lane in places)
        for number, item in enumerate(flatten(op.operands[native.value])):
            if not isinstance(item, Reg):
                continue
            groups: dict[int, dict[int, int]] = defaultdict(dict)
            for lane, origin in warp.origins_by_lane(item.index, mask & inside, native.bits).items():
                groups[origin][lane] = places[lane] + number * size
            for origin, starts in groups.items():

                def use(register: int = item.index, lanes: Iterable[int] = starts) -> UndefinedUse:
                    return undefined_use(warp, op, register, sum(1 << lane for lane in lanes))

                self.numbers[bytes_at(starts.values(), size)] = self._number(op, frozenset({origin}), use)

    def _number(self, op: Op, origins: frozenset[int], use: Callable[[], UndefinedUse]) -> int:
        key = op.index, origins
        if key not in self._known:
            self._known[key] = len(self.entries)
            self.entries.append(StoredBits(origins, use()))
        return self._known[key]


def keep(
    launch: Launch, found: Iterable[tuple[Allocation, NDArray[np.uint8], ByteOrigins]], roots: Callable[[int], Iterable[tuple[str, str]]]
) -> None:
    """Let device memory keep the undefined bits that a launch leaves in it.

    Parameters
    ----------
    launch : the first run
    found : of the second run, the allocations with their undefined bits
    roots : from an origin of the second run those of which there is no finding yet
    """
    if not launch.observations.followed:
        launch.device.memory.forget_mirrors()
        return
    made: dict[int, tuple[Origin, ...]] = {}
    for allocation, bits, origins in found:
        real = launch.device.memory.find(allocation.base)
        assert real is not None
        undefined = np.flatnonzero(bits)
        entries, positions = np.unique(origins.numbers[undefined], return_inverse=True)
        for number in entries.tolist():
            if number not in made:
                made[number] = tuple(_left(launch, origins.entries[number], roots))
        table = [made[number] for number in entries.tolist()]
        bits[undefined[np.isin(positions, [at for at, each in enumerate(table) if not each])]] = 0
        numbers: NDArray[np.uint32] = np.zeros(allocation.size, np.uint32)
        numbers[undefined] = positions
        real.mirror = DeviceMirror(bits, numbers, table) if bits.any() else None


def _left(launch: Launch, entry: StoredBits, roots: Callable[[int], Iterable[tuple[str, str]]]) -> Iterable[Origin]:
    """The origins of undefined bits that a launch leaves in device memory, each with the finding if the host reads them."""
    use = entry.use
    if use is None:
        return [launch.kept[origin - KEPT] for origin in sorted(entry.origins)]
    found = []
    for text, fix in dict.fromkeys(root for origin in sorted(entry.origins) for root in roots(origin)):
        details = (("launch", str(launch.device.launches)), ("origin", text))
        message = f"{use.message}, and the host reads it"
        report = launch.reports.make("R808", message, use.op, warp=use.warp, mask=use.lanes, details=details, fix=fix)
        found.append(Origin(text, fix, report))
    return found
