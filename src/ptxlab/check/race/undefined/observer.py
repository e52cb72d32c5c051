"""The observer of the second run: it keeps the mirrors of memory, and notes from where undefined bits come that are used."""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.race.undefined.device_memory import ByteOrigins, StoredBits, UnwrittenRead, bytes_at, is_unwritten
from ptxlab.check.race.undefined.mirrors import UNDEFINED, Mirrors, WatchedMemory
from ptxlab.check.race.undefined.raced import Raced, place_of
from ptxlab.engine.context import Word
from ptxlab.engine.lowering.register_use import deciding_registers, flatten, kept_operands, observed_registers, operand_registers
from ptxlab.engine.program import HOW_SHIFT, UNWRITTEN_REGISTER, Observed
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.isa.context import AsyncOperation, MemoryAccess
from ptxlab.isa.effects import Alloc
from ptxlab.isa.native_ops import Atomic, CopyAsync, LaneAccess
from ptxlab.isa.operands import Op, Reg
from ptxlab.machine.launch.indeterminate import UndefinedUse, lanes_observed, undefined_use
from ptxlab.machine.memory.global_memory import Allocation
from ptxlab.machine.observe.observer import Observer
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["UndefinedBitsObserver"]

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_READ = 1 << 30
"""An origin: this and the op that has read undefined bits of memory. Others are those of the first run."""
_IN_FLIGHT = _READ | 1 << 29
"""An origin: this and the asynchronous op that has not been waited for, and may still write to the register."""
_T = TypeVar("_T")


def _is_read(origin: int) -> bool:
    """Whether an origin is one of this run."""
    return _READ <= origin < UNWRITTEN_REGISTER


class _Issue(NamedTuple):
    """What is known of an asynchronous operation at its issue: its accesses, its warp and lanes, and origins of what it stores."""

    accesses: tuple[MemoryAccess, ...]
    warp: Warp
    lanes: int
    origins: set[int]


class _OfOperation(NamedTuple):
    """The undefined bits of memory for an asynchronous operation that reads bits with these origins; see `ptxlab.isa.context`."""

    mirrors: Mirrors
    origins: set[int]
    through: dict[int, set[int]]
    own: int

    def of(self, memory: NDArray[Any]) -> NDArray[Any]:
        return self.mirrors.of(memory)

    def origin(self, others: Iterable[int]) -> int:
        self.through[self.own].update(self.origins, others)
        return self.own


class UndefinedBitsObserver(Observer):
    """Keeps the mirrors of memory, and notes from where undefined bits come that are used."""

    def __init__(self, launch: Launch, raced: Raced, followed: bool = False) -> None:
        self._launch = launch
        self._raced, self._racing = raced, raced.ops
        self._followed = followed
        """Whether device memory keeps undefined bits for later launches."""
        self.raised: BaseException | None = None
        self._used: dict[int, Op] = {}
        """By the origin of undefined bits the first op that uses them."""
        self._left: dict[int, Op] = {}
        """The same, where a store to device memory is a use, too."""
        self._register_uses: dict[int, UndefinedUse] = {}
        """The same, as a finding."""
        self._through: dict[int, set[int]] = defaultdict(set)
        """By the origin of undefined bits that an op has loaded: the origins that they had in memory."""
        live = launch.device.memory.live()
        self._mirrors = Mirrors((each.data, each) for each in live if each.size and each.writable)
        self._entries: list[StoredBits] = []
        for held in self._mirrors.allocations():
            if not held.owner.copied_back:
                held.origins = ByteOrigins(held.owner, held.mirror, launch, self._entries)
        self.unwritten_reads: dict[int, UnwrittenRead] = {}
        """By op the first bytes of device memory that it reads and that nothing has written."""
        self._of_cta: dict[int, WatchedMemory] = {}
        self._of_warp: dict[int, WatchedMemory] = {}
        """Local memory."""
        self._tensors: dict[int, WatchedMemory] = {}
        self._owned: dict[int, set[tuple[int, int]]] = {}
        self._issued: dict[int, _Issue] = {}
        self._callback = _CALLBACK(self._called)
        self._address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def used(self, left: bool = False) -> dict[int, Op]:
        """The ops that have read undefined bits on which something depends, each with one that uses them.

        ``left``: a store to device memory is a use, too.
        """
        closed = self._closed(self._left if left else self._used)
        return {origin ^ _READ: op for origin, op in closed.items() if _READ <= origin < _IN_FLIGHT}

    def used_in_flight(self) -> dict[int, Op]:
        """The asynchronous ops on whose registers something depends before they are waited for, each with an op that uses them."""
        return {origin ^ _IN_FLIGHT: op for origin, op in self._closed(self._left).items() if _IN_FLIGHT <= origin < UNWRITTEN_REGISTER}

    def static_uses(self) -> Iterator[tuple[int, UndefinedUse]]:
        """Uses of undefined bits of registers that no instruction has written, or a load whose guard is false."""
        return ((origin, found) for origin, found in self._closed(self._register_uses).items() if not _is_read(origin))

    def device_memory(self) -> Iterator[tuple[Allocation, NDArray[np.uint8], ByteOrigins]]:
        """The device memory that later launches read, with its undefined bits."""
        found = self._mirrors.allocations()
        return ((each.owner, each.mirror, each.origins) for each in found if isinstance(each.origins, ByteOrigins))

    def sources(self, origin: int) -> list[int]:
        """Where undefined bits with an origin come from, other than reads of memory."""
        return sorted(each for each in self._closed({origin: None}) if not _is_read(each))

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

    def _leave(self, origins: Iterable[int], op: Op) -> None:
        """Undefined bits with these origins are used, or are stored to device memory."""
        for origin in origins:
            self._left.setdefault(origin, op)

    def _note(self, origins: Iterable[int], op: Op) -> None:
        """Undefined bits with these origins are used."""
        self._leave(origins, op)
        for origin in origins:
            self._used.setdefault(origin, op)

    def mirror_of(self, name: str) -> NDArray[np.uint8]:
        """The undefined bits of the allocation of global memory whose name has this word."""
        return self._mirrors.named(name).mirror

    # ------------------------------------------------------------------------------------------------------------- objects

    def fill(self, warp: Warp) -> None:
        words = warp.words
        words[Word.OBSERVE] = self._address
        words[Word.MIRRORS] = self._mirrors.table
        words[Word.NO_MIRROR] = self._mirrors.nowhere
        words[Word.TENSOR_MIRROR] = address_of(self._tensors[id(warp.cta.tensor)].mirror)
        if warp.local is not None:
            self._of_warp[id(warp)] = self._mirrors.watch(warp.local, warp, 0)

    def started(self, ctas: tuple[CtaState, ...]) -> None:
        for cta in ctas:
            made = self._of_cta[id(cta)] = self._mirrors.watch(cta.shared, cta, UNDEFINED)
            made.mirror[:SHARED_RESERVED] = 0
            if id(cta.tensor) not in self._tensors:
                words = cta.tensor.words.reshape(-1).view(np.uint8)
                self._tensors[id(cta.tensor)] = self._mirrors.watch(words, cta.tensor, UNDEFINED)
            self._owned[id(cta)] = set()

    def ended(self, cta: CtaState) -> None:
        self._mirrors.forget(self._of_cta.pop(id(cta)))
        for warp in cta.warps:
            if id(warp) in self._of_warp:
                self._mirrors.forget(self._of_warp.pop(id(warp)))

    # ----------------------------------------------------------------------------------------------- asynchronous operations

    def issued(self, operation: AsyncOperation) -> None:
        warp = self._launch.scheduler.current
        if operation.accesses is None or warp is None:
            return
        thread = operation.thread
        lanes = 1 << thread[2] if isinstance(thread, tuple) and isinstance(thread[1], int) else warp.mask
        stored = [r for operand in kept_operands(operation.op, None) for r in operand_registers(operand)]
        self._issued[id(operation)] = _Issue(tuple(operation.accesses()), warp, lanes, warp.origins(stored, lanes))

    def performing(self, operation: AsyncOperation) -> None:
        issue = self._issued.pop(id(operation), None)
        if issue is None:
            return
        origins = set(issue.origins)
        op = operation.op
        for held, first, stop in self._mirrors.undefined(access for access in issue.accesses if not access.write or access.reads):
            origins |= self._reads(op, held, slice(first, stop)) | {_READ | op.index}
        writes = [access for access in issue.accesses if access.write]
        if operation.undefined is None:
            self._mirrors.fill(writes, bool(origins))
        else:
            operation.undefined(_OfOperation(self._mirrors, origins, self._through, _READ | op.index))
        if not origins:
            return
        for held, first, stop in self._mirrors.undefined(writes):
            held.origins.add(first, stop, origins, op, lambda: _stored(op, issue))
            if isinstance(held.owner, Allocation):
                self._leave(origins, op)
            if isinstance(held.owner, Allocation) and (held.owner.copied_back or not self._followed):
                self._note(origins, op)
                for origin in origins:
                    self._register_uses.setdefault(origin, _stored(op, issue))

    def accessed(self, warp: Warp, accesses: Iterable[MemoryAccess]) -> None:
        listed = tuple(accesses)
        for held, first, stop in self._mirrors.undefined(access for access in listed if not access.write or access.reads):
            self._reads(warp.op, held, slice(first, stop))
            self._read_use(warp, warp.op, warp.mask)
        self._mirrors.fill((access for access in listed if access.write), False)

    def _reads(self, op: Op, held: WatchedMemory, where: slice | NDArray[np.intp]) -> set[int]:
        """An op reads undefined bits: note and return where they come from, other than from memory that nothing has written."""
        origins = held.origins.within(where)
        self._through[_READ | op.index] |= origins
        if op.index not in self.unwritten_reads and is_unwritten(self._launch, origins):
            first, stop = (where.start, where.stop) if isinstance(where, slice) else (int(where.min()), int(where.max()) + 1)
            self.unwritten_reads[op.index] = UnwrittenRead(op, held.owner, first, stop)
        return {origin for origin in origins if not is_unwritten(self._launch, (origin,))}

    def _read_use(self, warp: Warp, op: Op, lanes: int) -> None:
        """What an op reads from memory decides something, or others see it."""
        self._note((_READ | op.index,), op)
        use = UndefinedUse("R808", f"{op.short} reads undefined bits of memory", op, warp, lanes)
        self._register_uses.setdefault(_READ | op.index, use)

    def retire_hook(self, op: Op) -> Callable[[Warp, Op], None] | None:
        if op.row.updates and self._launch.policy != "eager":
            return self._in_flight
        return self.serviced if isinstance(op.effects, Alloc) else None

    def _in_flight(self, warp: Warp, op: Op) -> None:
        """The registers of an asynchronous operation hold nothing until a wait writes them."""
        ones = np.full((len(flatten(op.operands[0])), 32), 0xFFFF_FFFF, np.uint32)
        warp.set_undefined(op.operands[0], ones, _IN_FLIGHT | op.index)

    def serviced(self, warp: Warp, op: Op) -> None:
        """Columns that are allocated hold nothing; the address of the allocation is written."""
        if not isinstance(op.effects, Alloc):
            return
        for cta in (warp.cta, warp.cta.peer) if op.effects.pair and warp.cta.peer is not None else (warp.cta,):
            now = set(cta.tensor.allocations_of(cta))
            mirror = self._tensors[id(cta.tensor)].mirror.reshape(512, -1)
            for column, columns in now - self._owned[id(cta)]:
                mirror[column : column + columns] = UNDEFINED
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
            if how is Observed.LEAVE:
                self._leave(warp.origins(registers, mask), op)
                mask = lanes_observed(warp, op, native, mask, self._followed)
            self._note(warp.origins(registers, mask), op)
            for register in registers:
                for origin in warp.origins((register,), mask):
                    if origin not in self._register_uses:
                        self._register_uses[origin] = undefined_use(warp, op, register, mask, decides=how is Observed.DECIDED)
            return
        hosts = self._hosts(warp, mask)
        if how is Observed.COPIED:
            self._copied(warp, native, op, hosts)
        elif how is Observed.ATOMIC:
            self._atomic(warp, native, op, hosts)
        elif how is Observed.STORED:
            for held, places in self._reached(warp, op, hosts):
                held.origins.stored(warp, op, native, mask, places)
        else:
            self._loaded(warp, op, native, mask, hosts)

    def _hosts(self, warp: Warp, mask: int) -> dict[int, int]:
        """The host addresses of lanes; none for tensor memory."""
        address = warp.words[Word.OBSERVE_HOSTS]
        if not address:
            return {}
        rows = (ctypes.c_uint64 * 32).from_address(address)
        return {lane: rows[lane] for lane in range(32) if mask >> lane & 1}

    def _reached(self, warp: Warp, op: Op, hosts: dict[int, int]) -> list[tuple[WatchedMemory, dict[int, int]]]:
        """The memory that lanes reach, each with the places of its lanes."""
        native = self._launch.program.natives.get(op.index)
        if not isinstance(native, LaneAccess) and not hosts:
            return [(self._tensors[id(warp.cta.tensor)], {})]
        return self._mirrors.places(hosts)

    def _atomic(self, warp: Warp, native: Any, op: Op, hosts: dict[int, int]) -> None:
        assert isinstance(native, Atomic)
        for held, places in self._mirrors.places(hosts):
            undefined = {lane: at for lane, at in places.items() if held.mirror[at : at + native.size].any()}
            if undefined:
                self._reads(op, held, bytes_at(undefined.values(), native.size))
                self._read_use(warp, op, sum(1 << lane for lane in undefined))

    def _copied(self, warp: Warp, native: Any, op: Op, hosts: dict[int, int]) -> None:
        """cp.async has copied undefined bits to the shared memory of the CTA; a lane may have copied only the first of these bytes."""
        assert isinstance(native, CopyAsync)
        for held, places in self._mirrors.places(hosts):
            where = bytes_at(places.values(), native.size)
            self._of_cta[id(warp.cta)].origins.found |= self._reads(op, held, where[where < held.data.nbytes]) | {_READ | op.index}

    def _loaded(self, warp: Warp, op: Op, native: Any, mask: int, hosts: dict[int, int]) -> None:
        self._race(warp, op, native, hosts)
        items = [(number, item) for number, item in enumerate(flatten(op.operands[native.value])) if isinstance(item, Reg)]
        for _, item in items:
            warp.set_origin(item.index, _READ | op.index, mask)
        for held, places in self._reached(warp, op, hosts):
            if isinstance(native, LaneAccess):
                origins = self._reads(op, held, bytes_at(places.values(), native.size))
                if isinstance(held.origins, ByteOrigins) and origins and op.index not in self._racing:
                    size = native.bits // 8
                    for number, item in items:
                        self._carried(warp, item, held.origins, {lane: at + number * size for lane, at in places.items()}, size)
            else:
                self._reads(op, held, slice(0, held.data.nbytes))

    def _carried(self, warp: Warp, item: Reg, held: ByteOrigins, places: dict[int, int], size: int) -> None:
        """Lanes have loaded bits that a launch before has left in device memory: their origin is that of the bits, where it is one."""
        origins = held.within(bytes_at(places.values(), size))
        if len(origins) > 1 and len(places) > 1:
            for lane, at in places.items():
                self._carried(warp, item, held, {lane: at}, size)
        elif len(origins) == 1 and not is_unwritten(self._launch, origins) and not any(map(_is_read, origins)):
            warp.set_origin(item.index, origins.pop(), sum(1 << lane for lane in places))

    def _race(self, warp: Warp, op: Op, native: Any, hosts: dict[int, int]) -> None:
        """Bytes that are read in a race are undefined in the registers."""
        if op.index not in self._racing or not isinstance(native, LaneAccess):
            return
        size = native.bits // 8
        for lane, host in hosts.items():
            held = self._mirrors.find(host)
            if held is None:
                continue
            for number, item in enumerate(flatten(op.operands[native.value])):
                first = host - held.start + number * size
                places = (place_of(held.owner, first + byte) for byte in range(size))
                if isinstance(item, Reg) and any(self._raced.is_read_in_race(op.index, warp, place) for place in places):
                    warp.undefine(item.index, lane)


def _stored(op: Op, issue: _Issue) -> UndefinedUse:
    """An asynchronous operation that stores undefined bits of shared memory, or of registers, to global memory."""
    return UndefinedUse("R808", f"{op.short} stores undefined bits to global memory", op, issue.warp, issue.lanes)
