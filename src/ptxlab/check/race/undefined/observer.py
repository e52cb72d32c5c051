"""The observer of the second run: it keeps the mirrors of memory, and notes from where undefined bits come that are used."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.race.shadow.transfers import COLUMN_BYTES, transferred_ranges
from ptxlab.check.race.undefined.device_memory import ByteOrigins, StoredBits, UnwrittenRead, bytes_at, is_unwritten
from ptxlab.check.race.undefined.fresh import FreshReads
from ptxlab.check.race.undefined.mirrors import UNDEFINED, Mirrors, WatchedMemory
from ptxlab.check.race.undefined.raced import Raced, place_of
from ptxlab.check.race.undefined.uses import IN_FLIGHT, READ, UsesOfUndefinedBits, is_read
from ptxlab.engine.context import Word
from ptxlab.engine.lowering.register_use import deciding_registers, flatten, kept_operands, observed_registers, operand_registers
from ptxlab.engine.program import HOW_SHIFT, Observed
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.isa.effects import Alloc
from ptxlab.isa.native_ops import Atomic, CopyAsync, LaneAccess, MatrixAccess, TensorAccess
from ptxlab.isa.operands import Op, Reg, Resolved
from ptxlab.isa.operations import AsyncOperation, MemoryAccess
from ptxlab.machine.launch.indeterminate import UndefinedUse, lanes_observed, stored_bits, undefined_use
from ptxlab.machine.memory.global_memory import Allocation
from ptxlab.machine.warp.warp import lanes_of
from ptxlab.native import address_of, callback_address

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["UndefinedBitsObserver"]

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Issue(NamedTuple):
    """What is known of an asynchronous operation at its issue: its accesses, its warp and lanes, and origins of what it stores."""

    accesses: tuple[MemoryAccess, ...]
    warp: Warp
    lanes: int
    origins: set[int]


class _OfOperation(NamedTuple):
    """The undefined bits of memory for an asynchronous operation that reads bits with these origins; see `ptxlab.isa.operations`."""

    mirrors: Mirrors
    origins: set[int]
    through: dict[int, set[int]]
    own: int

    def of(self, memory: NDArray[Any]) -> NDArray[Any]:
        return self.mirrors.of(memory)

    def origin(self, others: Iterable[int]) -> int:
        self.through[self.own].update(self.origins, others)
        return self.own


class UndefinedBitsObserver(UsesOfUndefinedBits):
    """Keeps the mirrors of memory, and notes from where undefined bits come that are used."""

    def __init__(self, launch: Launch, raced: Raced, followed: bool = False) -> None:
        super().__init__(launch)
        self._raced, self._racing = raced, raced.ops
        self._followed = followed
        """Whether device memory keeps undefined bits for later launches."""
        self.raised: BaseException | None = None
        live = launch.device.memory.live()
        self._mirrors = Mirrors((each.data, each) for each in live if each.size and each.writable)
        self._entries: list[StoredBits] = []
        for held in self._mirrors.allocations():
            if not held.owner.copied_back:
                held.origins = ByteOrigins(held.owner, held.mirror, launch, self._entries)
        self.fresh_reads = FreshReads()
        self.unwritten_reads: dict[int, UnwrittenRead] = {}
        """By op the first bytes of device memory that it reads and that nothing has written."""
        self._of_cta: dict[int, WatchedMemory] = {}
        self._of_warp: dict[int, WatchedMemory] = {}
        """Local memory."""
        self._tensors: dict[int, WatchedMemory] = {}
        self._owned: dict[int, set[tuple[int, int]]] = {}
        self._issued: dict[int, _Issue] = {}
        self._performing: tuple[Op, set[int]] | None = None
        """The operation that performs, and the origins of the undefined bits that it reads."""
        self._callback = _CALLBACK(self._called)
        self._address = callback_address(self._callback)

    def device_memory(self) -> Iterator[tuple[Allocation, NDArray[np.uint8], ByteOrigins]]:
        """The device memory that later launches read, with its undefined bits."""
        found = self._mirrors.allocations()
        return ((each.owner, each.mirror, each.origins) for each in found if isinstance(each.origins, ByteOrigins))

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
        self._performing = None
        if issue is None:
            return
        origins = set(issue.origins)
        op = operation.op
        for held, first, stop in self._mirrors.undefined(access for access in issue.accesses if not access.write or access.reads):
            origins |= self._reads(issue.warp, op, issue.lanes, held, slice(first, stop)) | {READ | op.index}
        self._performing = op, origins
        writes = [access for access in issue.accesses if access.write]
        if operation.undefined is None:
            self._mirrors.fill(writes, bool(origins))
        else:
            operation.undefined(_OfOperation(self._mirrors, origins, self._through, READ | op.index))
        if not origins:
            return
        for held, first, stop in self._mirrors.undefined(writes):
            held.origins.add(first, stop, origins, op, lambda: _stored(op, issue))
            held.stored(slice(first, stop))
            if isinstance(held.owner, Allocation):
                self._leave(origins, op)
            if isinstance(held.owner, Allocation) and (held.owner.copied_back or not self._followed):
                self._note(origins, op)
                for origin in origins:
                    self._register_uses.setdefault(origin, _stored(op, issue))

    def ended_by_finding(self) -> None:
        """The launch has ended before its end. If it ended while an operation performed, what that has read is used: it decided the end."""
        if self._launch.scheduler.performing is not None and self._performing is not None:
            op, origins = self._performing
            self._note(origins, op)

    def accessed(self, warp: Warp, accesses: Iterable[MemoryAccess]) -> None:
        listed = tuple(accesses)
        for held, first, stop in self._mirrors.undefined(access for access in listed if not access.write or access.reads):
            self._reads(warp, warp.op, warp.mask, held, slice(first, stop))
            self._read_use(warp, warp.op, warp.mask)
        self._mirrors.fill((access for access in listed if access.write), False)

    def _reads(self, warp: Warp, op: Op, lanes: int, held: WatchedMemory, where: slice | NDArray[np.intp]) -> set[int]:
        """Lanes read undefined bits: note and return where they come from, other than from memory that nothing has written."""
        if held.fresh is not None:
            undefined = held.undefined(where)
            fresh = undefined[held.fresh[undefined]]
            if fresh.size:
                self.fresh_reads.note(op, warp, lanes, held, fresh)
            if fresh.size == undefined.size:
                return set()
        origins = held.origins.within(where)
        self._through[READ | op.index] |= origins
        if op.index not in self.unwritten_reads and is_unwritten(self._launch, origins):
            first, stop = (where.start, where.stop) if isinstance(where, slice) else (int(where.min()), int(where.max()) + 1)
            self.unwritten_reads[op.index] = UnwrittenRead(op, held.owner, first, stop)
        return {origin for origin in origins if not is_unwritten(self._launch, (origin,))}

    def retire_hook(self, op: Op) -> Callable[[Warp, Op], None] | None:
        if op.row.updates and self._launch.policy != "eager":
            return self._in_flight
        return self.serviced if isinstance(op.effects, Alloc) else None

    def _in_flight(self, warp: Warp, op: Op) -> None:
        """The registers of an asynchronous operation hold nothing until a wait writes them."""
        ones = np.full((len(flatten(op.operands[0])), 32), 0xFFFF_FFFF, np.uint32)
        warp.set_undefined(op.operands[0], ones, IN_FLIGHT | op.index)

    def serviced(self, warp: Warp, op: Op) -> None:
        """Columns that are allocated hold nothing; the address of the allocation is written."""
        if not isinstance(op.effects, Alloc):
            return
        for cta in (warp.cta, warp.cta.peer) if op.effects.pair and warp.cta.peer is not None else (warp.cta,):
            now = set(cta.tensor.allocations_of(cta))
            held = self._tensors[id(cta.tensor)]
            assert held.fresh is not None
            for column, columns in now - self._owned[id(cta)]:
                held.mirror.reshape(-1, COLUMN_BYTES)[column : column + columns] = UNDEFINED
                held.fresh.reshape(-1, COLUMN_BYTES)[column : column + columns] = True
            self._owned[id(cta)] = now
        target, offset = self._launch.shared_at(warp, warp.uniform_address(0))
        self._of_cta[id(target)].mirror[offset : offset + 4] = 0

    # ----------------------------------------------------------------------------------------- events of compiled code

    def _called(self, context: int) -> None:
        warp = self._launch.scheduler.running_warp()
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
            bits = stored_bits(native) if how is Observed.LEAVE else None
            if how is Observed.LEAVE:
                self._leave(warp.origins(registers, mask, bits), op)
                mask = lanes_observed(warp, op, native, mask, self._followed)
            self._note(warp.origins(registers, mask, bits), op)
            for register in registers:
                for origin in warp.origins((register,), mask, bits):
                    if origin not in self._register_uses:
                        self._register_uses[origin] = undefined_use(warp, op, register, mask, decides=how is Observed.DECIDED)
            return
        hosts = self._hosts(warp, _reaching(native, mask))
        if how is Observed.COPIED:
            self._copied(warp, native, op, mask, hosts)
        elif how is Observed.ATOMIC:
            self._atomic(warp, native, op, hosts)
        elif how is Observed.STORED:
            for held, places, bytes_ in self._reached(warp, op, hosts):
                held.origins.stored(warp, op, native, mask, places)
                held.stored(bytes_)
        else:
            self._loaded(warp, op, native, mask, hosts)

    def _hosts(self, warp: Warp, mask: int) -> dict[int, int]:
        """The host addresses of lanes; none for tensor memory."""
        address = warp.words[Word.OBSERVE_HOSTS]
        if not address:
            return {}
        rows = (ctypes.c_uint64 * 32).from_address(address)
        return {lane: rows[lane] for lane in range(32) if mask >> lane & 1}

    def _reached(
        self, warp: Warp, op: Op, hosts: dict[int, int]
    ) -> Iterator[tuple[WatchedMemory, dict[int, int], slice | NDArray[np.intp]]]:
        """The memory that lanes reach by a load or a store, each with the places of its lanes, and the bytes of it."""
        native = self._launch.program.natives.get(op.index)
        if isinstance(native, TensorAccess):
            yield self._tensors[id(warp.cta.tensor)], {}, _columns(warp, op, native)
            return
        assert isinstance(native, LaneAccess | MatrixAccess)
        size = native.size if isinstance(native, LaneAccess) else native.row
        for held, places in self._mirrors.places(hosts):
            yield held, places, bytes_at(places.values(), size)

    def _atomic(self, warp: Warp, native: Any, op: Op, hosts: dict[int, int]) -> None:
        assert isinstance(native, Atomic)
        for held, places in self._mirrors.places(hosts):
            undefined = {lane: at for lane, at in places.items() if held.mirror[at : at + native.size].any()}
            if undefined:
                lanes = sum(1 << lane for lane in undefined)
                self._reads(warp, op, lanes, held, bytes_at(undefined.values(), native.size))
                if native.replaces:
                    self._exchanged(warp, native, op, held, undefined)
                else:
                    self._read_use(warp, op, lanes)
                    if native.compares:
                        _after_compare_and_swap(warp, native, op, held, undefined)

    def _exchanged(self, warp: Warp, native: Atomic, op: Op, held: WatchedMemory, places: dict[int, int]) -> None:
        """Lanes have replaced undefined bits, one lane after the other: the first one at a place has them in its register."""
        (item,) = flatten(op.operands[native.destination])
        for lane, at in sorted(places.items()):
            if isinstance(item, Reg):
                warp.undefine(item.index, lane, int.from_bytes(held.mirror[at : at + native.size].tobytes(), "little"))
                warp.set_origin(item.index, READ | op.index, 1 << lane)
            held.mirror[at : at + native.size] = 0

    def _copied(self, warp: Warp, native: Any, op: Op, mask: int, hosts: dict[int, int]) -> None:
        """cp.async has copied undefined bits to the shared memory of the CTA; a lane may have copied only the first of these bytes."""
        assert isinstance(native, CopyAsync)
        target = self._of_cta[id(warp.cta)]
        for held, places in self._mirrors.places(hosts):
            where = bytes_at(places.values(), native.size)
            target.origins.found |= self._reads(warp, op, mask, held, where[where < held.data.nbytes]) | {READ | op.index}
        for address in warp.addresses(op.operands[native.destination])[lanes_of(mask)].tolist():
            _, offset = self._launch.shared_at(warp, address)
            target.stored(slice(offset, offset + native.size))

    def _loaded(self, warp: Warp, op: Op, native: Any, mask: int, hosts: dict[int, int]) -> None:
        self._race(warp, op, native, hosts)
        items = [(number, item) for number, item in enumerate(flatten(op.operands[native.value])) if isinstance(item, Reg)]
        for _, item in items:
            warp.set_origin(item.index, READ | op.index, mask)
        for held, places, bytes_ in self._reached(warp, op, hosts):
            origins = self._reads(warp, op, mask, held, bytes_)
            if isinstance(native, LaneAccess) and isinstance(held.origins, ByteOrigins) and origins and op.index not in self._racing:
                size = native.bits // 8
                for number, item in items:
                    self._carried(warp, item, held.origins, {lane: at + number * size for lane, at in places.items()}, size)

    def _carried(self, warp: Warp, item: Reg, held: ByteOrigins, places: dict[int, int], size: int) -> None:
        """Lanes have loaded bits that a launch before has left in device memory: their origin is that of the bits, where it is one."""
        origins = held.within(bytes_at(places.values(), size))
        if len(origins) > 1 and len(places) > 1:
            for lane, at in places.items():
                self._carried(warp, item, held, {lane: at}, size)
        elif len(origins) == 1 and not is_unwritten(self._launch, origins) and not any(map(is_read, origins)):
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


def _after_compare_and_swap(warp: Warp, native: Atomic, op: Op, held: WatchedMemory, places: dict[int, int]) -> None:
    """Lanes have compared undefined bits, which has been reported. As after a branch on them, the actual outcome counts from here.

    Where the comparison has succeeded, memory gets the undefined bits of the new value. Bits that are undefined in the new and in the
    expected value, but were defined in memory, stay defined: the comparison has found them equal. If the old value has overwritten another
    operand, memory keeps its undefined bits.
    """
    old, expected, new = (op.operands[position] for position in (native.destination, *native.sources))
    if not isinstance(old, Reg) or old in (expected, new):
        return
    bits = 8 * native.size

    def undefined(operand: Resolved, lane: int) -> int:
        return warp.undefined_bits(operand.index, 1 << lane, bits)[1] if isinstance(operand, Reg) else 0

    for lane, at in sorted(places.items()):
        if warp.lane_value(old, bits, lane) == warp.lane_value(expected, bits, lane):
            found = int.from_bytes(held.mirror[at : at + native.size].tobytes(), "little")
            stored = undefined(new, lane) & (found | ~undefined(expected, lane))
            held.mirror[at : at + native.size] = np.frombuffer(stored.to_bytes(native.size, "little"), np.uint8)


def _reaching(native: Any, mask: int) -> int:
    """The lanes whose addresses count: of a matrix those that have the addresses of rows."""
    return (1 << 8 * native.registers) - 1 if isinstance(native, MatrixAccess) else mask


def _columns(warp: Warp, op: Op, native: TensorAccess) -> slice | NDArray[np.intp]:
    """The bytes of the tensor memory of the SM that a warp loads or stores; all if its address is no longer known."""
    address = warp.common_address(op.operands[native.address])
    if address is None or set(operand_registers(op.operands[native.address])).intersection(warp.launch.program.writes[op.index]):
        return slice(0, 512 * COLUMN_BYTES)
    starts, (size,) = transferred_ranges(op, native, address, warp.warp_id)
    return bytes_at(starts.tolist(), int(size))


def _stored(op: Op, issue: _Issue) -> UndefinedUse:
    """An asynchronous operation that stores undefined bits of shared memory, or of registers, to global memory."""
    return UndefinedUse("R808", f"{op.short} stores undefined bits to global memory", op, issue.warp, issue.lanes)
