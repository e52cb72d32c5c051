"""A second run that finds out whether values without definition are used: those read from memory that nothing has written, or in a race.

The first run follows no undefined bits of memory, which costs nothing, and finds reads of such values. If there are any, the launch is run
again, with a mirror of all memory that holds the undefined bits. What such a read gives is undefined there. If no branch, address,
descriptor or barrier, no atomic and no store to global memory depends on it, the finding is dropped: the read has no effect.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Word
from ptxlab.engine.lowering.frame import mirrored
from ptxlab.engine.lowering.register_use import deciding_registers, flatten, observed_registers
from ptxlab.engine.program import HOW_SHIFT, UNWRITTEN_REGISTER, Observed
from ptxlab.engine.support.mirrors import MIRROR_ROW, NO_MIRROR_BYTES
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.isa.context import AsyncOperation, MemoryAccess
from ptxlab.isa.effects import Alloc, Asynchronous, Space
from ptxlab.isa.native_ops import Atomic, LaneAccess
from ptxlab.isa.operands import Op, Reg
from ptxlab.machine.launch.indeterminate import UndefinedUse, reaches_global, undefined_use
from ptxlab.machine.memory.global_memory import aligned_bytes
from ptxlab.machine.observe.observer import Observer, Uses
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.replay.replay import Replay
    from ptxlab.machine.warp.warp import Warp

__all__ = ["ConditionalFindings", "UndefinedBitsObserver", "place_of"]

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_MOST_OBJECTS = 1 << 14
_UNDEFINED = 0xFF
_READ = 1 << 30
"""An origin: this and the op that has read undefined bits of memory. Others are those of the first run."""
_T = TypeVar("_T")


def _is_read(origin: int) -> bool:
    return _READ <= origin < UNWRITTEN_REGISTER


Place = tuple[Any, int]
"""A byte of memory in all runs: a global address, or an offset in the shared memory of a CTA."""
Reader = tuple[int, tuple[int, int, int], int]
"""An op in a warp of a CTA."""


def place_of(owner: Any, inside: int) -> Place:
    """The name of a byte of shared memory, or of an allocation."""
    return (owner.ctaid, inside) if hasattr(owner, "ctaid") else ("global", owner.base + inside)


@dataclass(slots=True)
class ConditionalFindings:
    """Findings that hold only if a value is used.

    Attributes
    ----------
    readers : by the key of a finding in the reports, the ops that read such values
    certain : keys of findings that hold in any case
    raced : the bytes that an op of a warp reads in a race
    """

    readers: dict[tuple[str, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    certain: set[tuple[str, int]] = field(default_factory=set)
    raced: dict[Reader, set[Place]] = field(default_factory=lambda: defaultdict(set))

    def uses(self, replay: Replay, launch: Launch) -> Uses:
        """What uses the values, by the key of a finding: None if nothing does. Nothing is said of findings that the run does not decide.

        ``launch`` is the first run. What it has lost by way of shared memory, the second one reports.
        """
        open_ = {key: readers for key, readers in self.readers.items() if key not in self.certain}
        if not open_ and not launch.observations.kept:
            return {}
        program = mirrored(launch.program, frozenset(op for op, _, _ in self.raced))
        result, observer = replay.observe(lambda again: UndefinedBitsObserver(again, self.raced), program)
        if not result.completed or observer.raised is not None:
            return {}
        for origin, use in observer.static_uses():
            launch.observations.report(use, origin)
        used = observer.used()
        return {key: next((used[reader] for reader in sorted(readers) if reader in used), None) for key, readers in open_.items()}


@dataclass(slots=True, eq=False)
class _Object:
    """Memory with its mirror, and the origins of undefined bits in it."""

    data: NDArray[np.uint8]
    mirror: NDArray[np.uint8]
    owner: Any
    origins: set[int] = field(default_factory=set)

    @property
    def start(self) -> int:
        return address_of(self.data)


class UndefinedBitsObserver(Observer):
    """Keeps the mirrors of memory, and notes from where undefined bits come that are used."""

    def __init__(self, launch: Launch, raced: dict[Reader, set[Place]]) -> None:
        self._launch = launch
        self._raced = raced
        self.raised: BaseException | None = None
        self._used: dict[int, Op] = {}
        """By the origin of undefined bits the first op that uses them."""
        self._register_uses: dict[int, UndefinedUse] = {}
        """The same for undefined bits of registers alone."""
        self._through: dict[int, set[int]] = defaultdict(set)
        """By the origin of undefined bits that an op has loaded: the origins that they had in memory."""
        self._objects: list[_Object] = []
        self._of_cta: dict[int, _Object] = {}
        self._of_warp: dict[int, _Object] = {}
        """Local memory."""
        self._tensors: dict[int, _Object] = {}
        self._owned: dict[int, set[tuple[int, int]]] = {}
        self._table: NDArray[np.uint64] = np.zeros(1 + _MOST_OBJECTS * (MIRROR_ROW // 8), np.uint64)
        self._nowhere = np.zeros(NO_MIRROR_BYTES, np.uint8)
        self._pending: dict[int, tuple[MemoryAccess, ...]] = {}
        self._callback = _CALLBACK(self._called)
        self._address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        for allocation in launch.device.memory.live():
            if allocation.size and allocation.writable:
                self._watch(allocation.data, allocation, 0)
        self._tabulate()

    def used(self) -> dict[int, Op]:
        """The ops that have read undefined bits on which something depends, each with one that uses them."""
        closed = self._closed(self._used)
        return {origin ^ _READ: op for origin, op in closed.items() if _is_read(origin)}

    def static_uses(self) -> Iterator[tuple[int, UndefinedUse]]:
        """Uses of undefined bits of registers that no instruction has written, or a load whose guard is false."""
        return ((origin, found) for origin, found in self._closed(self._register_uses).items() if not _is_read(origin))

    def _closed(self, first: Mapping[int, _T]) -> dict[int, _T]:
        """With an origin also those of what it has loaded."""
        found: dict[int, _T] = {}
        work = list(first.items())
        while work:
            origin, use = work.pop()
            if origin not in found:
                found[origin] = use
                work += ((other, use) for other in self._through.get(origin, ()))
        return found

    def _note(self, origins: Iterable[int], op: Op) -> None:
        """Undefined bits with these origins are used."""
        for origin in origins:
            self._used.setdefault(origin, op)

    def mirror_of(self, name: str) -> NDArray[np.uint8]:
        """The undefined bits of the allocation of global memory whose name this is a part of."""
        return next(each.mirror for each in self._objects if name in getattr(each.owner, "name", ""))

    # ------------------------------------------------------------------------------------------------------------- objects

    def _watch(self, data: NDArray[np.uint8], owner: Any, fill: int) -> _Object:
        mirror = aligned_bytes(data.nbytes, 64)
        mirror[:] = fill
        made = _Object(data, mirror, owner)
        self._objects.append(made)
        return made

    def _tabulate(self) -> None:
        self._objects.sort(key=lambda each: each.start)
        self._table[0] = len(self._objects)
        rows = [(each.start, each.data.nbytes, address_of(each.mirror)) for each in self._objects]
        self._table[1 : 1 + 3 * len(rows)] = np.array(rows, np.uint64).reshape(-1)

    def _find(self, host: int) -> _Object | None:
        starts = self._table[1 : 1 + 3 * int(self._table[0]) : 3]
        at = int(np.searchsorted(starts, np.uint64(host), "right")) - 1
        if at < 0 or host >= self._objects[at].start + self._objects[at].data.nbytes:
            return None
        return self._objects[at]

    def fill(self, warp: Warp) -> None:
        words = warp.words
        words[Word.OBSERVE] = self._address
        words[Word.MIRRORS] = address_of(self._table)
        words[Word.NO_MIRROR] = address_of(self._nowhere)
        words[Word.TENSOR_MIRROR] = address_of(self._tensors[id(warp.cta.tensor)].mirror)
        if warp.local is not None:
            self._of_warp[id(warp)] = self._watch(warp.local, warp, 0)
            self._tabulate()

    def started(self, ctas: tuple[CtaState, ...]) -> None:
        for cta in ctas:
            made = self._of_cta[id(cta)] = self._watch(cta.shared, cta, _UNDEFINED)
            made.mirror[:SHARED_RESERVED] = 0
            if id(cta.tensor) not in self._tensors:
                words = cta.tensor.words.reshape(-1).view(np.uint8)
                self._tensors[id(cta.tensor)] = self._watch(words, cta.tensor, _UNDEFINED)
            self._owned[id(cta)] = set()
        self._tabulate()

    def ended(self, cta: CtaState) -> None:
        self._objects.remove(self._of_cta.pop(id(cta)))
        for warp in cta.warps:
            if id(warp) in self._of_warp:
                self._objects.remove(self._of_warp.pop(id(warp)))
        self._tabulate()

    # -------------------------------------------------------------------------------------------------- ranges of services

    def _read(self, accesses: Iterable[MemoryAccess], op: Op) -> set[int]:
        """The origins of undefined bits that are read, those of memory alone; empty if all are defined."""
        found: set[int] = set()
        for access in accesses:
            if not access.write or access.reads:
                for held, first, stop in self._ranges(access):
                    if held.mirror[first:stop].any():
                        found |= {origin for origin in held.origins if _is_read(origin)} | {_READ | op.index}
        return found

    def _write(self, accesses: Iterable[MemoryAccess], origins: set[int]) -> None:
        for access in accesses:
            if access.write:
                for held, first, stop in self._ranges(access):
                    held.mirror[first:stop] = _UNDEFINED if origins else 0
                    held.origins |= origins

    def _ranges(self, access: MemoryAccess) -> Iterable[tuple[_Object, int, int]]:
        held: _Object | None = None
        sizes = np.broadcast_to(access.sizes, access.starts.shape)
        for start, size in zip(access.starts.tolist(), sizes.tolist(), strict=True):
            if held is None or not held.start <= start < held.start + held.data.nbytes:
                held = self._find(start)
            if held is not None:
                yield held, start - held.start, start - held.start + size

    def issued(self, operation: AsyncOperation) -> None:
        if operation.accesses is not None:
            self._pending[id(operation)] = tuple(operation.accesses())

    def performed(self, operation: AsyncOperation) -> None:
        accesses = self._pending.pop(id(operation), ())
        origins = self._read(accesses, operation.op)
        self._write(accesses, origins)
        effects = operation.op.effects
        writes = effects.writes if isinstance(effects, Asynchronous) else Space.NONE
        if origins and (Space.GLOBAL in writes or writes is Space.NONE):
            self._note(origins, operation.op)

    def accessed(self, warp: Warp, accesses: Iterable[MemoryAccess]) -> None:
        listed = tuple(accesses)
        self._note(self._read(listed, warp.op), warp.op)
        self._write(listed, set())

    def retire_hook(self, op: Op) -> Callable[[Warp, Op], None] | None:
        return self.serviced if isinstance(op.effects, Alloc) else None

    def serviced(self, warp: Warp, op: Op) -> None:
        """Columns that are allocated hold nothing; the address of the allocation is written."""
        if not isinstance(op.effects, Alloc):
            return
        for cta in (warp.cta, warp.cta.peer) if op.effects.pair and warp.cta.peer is not None else (warp.cta,):
            now = set(cta.tensor.allocations_of(cta))
            mirror = self._tensors[id(cta.tensor)].mirror.reshape(512, -1)
            for column, columns in now - self._owned[id(cta)]:
                mirror[column : column + columns] = _UNDEFINED
            self._owned[id(cta)] = now
        target, offset = self._launch.shared_at(warp, warp.uniform_address(0))
        self._of_cta[id(target)].mirror[offset : offset + 4] = 0

    # ----------------------------------------------------------------------------------------- events of compiled code

    def _called(self, context: int) -> None:
        warp = self._launch.scheduler.current
        if warp is None or self.raised is not None:
            return
        try:
            event = warp.words[Word.OBSERVE_OP]
            op = self._launch.program.ops[event & (1 << HOW_SHIFT) - 1]
            self._observed(warp, op, Observed(event >> HOW_SHIFT), warp.words[Word.OBSERVE_MASK])
        except BaseException as error:
            self.raised = error

    def _observed(self, warp: Warp, op: Op, how: Observed, mask: int) -> None:
        program = self._launch.program
        native = program.natives.get(op.index)
        if how in (Observed.LEAVE, Observed.DECIDED):
            registers = observed_registers(program, op) if how is Observed.LEAVE else deciding_registers(op)
            if how is Observed.LEAVE and not reaches_global(warp, op, native, mask):
                return
            self._note(warp.origins(registers, mask), op)
            for register in registers:
                for origin in warp.origins((register,), mask):
                    if origin not in self._register_uses:
                        self._register_uses[origin] = undefined_use(warp, op, register, mask, decides=how is Observed.DECIDED)
            return
        hosts = self._hosts(warp, mask)
        if how is Observed.ATOMIC:
            self._atomic(native, op, hosts)
        elif how is Observed.STORED:
            origins = warp.origins(program.reads[op.index], mask)
            for held in self._reached(warp, op, hosts):
                held.origins |= origins
        else:
            self._loaded(warp, op, native, mask, hosts)

    def _hosts(self, warp: Warp, mask: int) -> dict[int, int]:
        """The host addresses of lanes; none for tensor memory."""
        address = warp.words[Word.OBSERVE_HOSTS]
        if not address:
            return {}
        rows = (ctypes.c_uint64 * 32).from_address(address)
        return {lane: rows[lane] for lane in range(32) if mask >> lane & 1}

    def _reached(self, warp: Warp, op: Op, hosts: dict[int, int]) -> list[_Object]:
        """The objects that lanes reach."""
        native = self._launch.program.natives.get(op.index)
        if not isinstance(native, LaneAccess) and not hosts:
            return [self._tensors[id(warp.cta.tensor)]]
        found = {id(held): held for held in map(self._find, hosts.values()) if held is not None}
        return list(found.values())

    def _atomic(self, native: Any, op: Op, hosts: dict[int, int]) -> None:
        assert isinstance(native, Atomic)
        for host in hosts.values():
            held = self._find(host)
            if held is not None and held.mirror[host - held.start : host - held.start + native.size].any():
                self._note((_READ | op.index, *held.origins), op)

    def _loaded(self, warp: Warp, op: Op, native: Any, mask: int, hosts: dict[int, int]) -> None:
        self._race(warp, op, native, hosts)
        for held in self._reached(warp, op, hosts):
            self._through[_READ | op.index] |= held.origins
        for item in flatten(op.operands[native.value]):
            if isinstance(item, Reg):
                warp.set_origin(item.index, _READ | op.index, mask)

    def _race(self, warp: Warp, op: Op, native: Any, hosts: dict[int, int]) -> None:
        """Bytes that are read in a race are undefined in the registers."""
        raced = self._raced.get((op.index, warp.cta.ctaid, warp.warp_id))
        if raced is None or not isinstance(native, LaneAccess):
            return
        size = native.bits // 8
        for lane, host in hosts.items():
            held = self._find(host)
            if held is None:
                continue
            for number, item in enumerate(flatten(op.operands[native.value])):
                first = host - held.start + number * size
                if isinstance(item, Reg) and any(place_of(held.owner, first + byte) in raced for byte in range(size)):
                    warp.undefine(item.index, lane)
