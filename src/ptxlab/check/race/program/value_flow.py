"""Where values come from and where they go: answers for four questions of the race check.

`sources_change`: can the launch write what its cp.async read? `constant_sources`: which tensor copies read what it cannot write? Most
kernels copy from arrays that nobody writes, and then there is nothing to watch. `dead_loads`: which loads matter only to the thread that
stores the loaded value back? `allocation_awaited`: does a load read the tensor memory address that a tcgen05.alloc has yet to write?
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from ptxlab.descriptors import TENSOR_MAP_BYTES, TensorMapError, decode_tensor_map
from ptxlab.engine.lowering.register_use import operand_registers
from ptxlab.engine.program import Parameter, Program
from ptxlab.isa.address_space import PARAM_BASE
from ptxlab.isa.effects import Access, Alloc, Asynchronous, Dealloc, GridLaunch, GridWait, Space, TensorTransfer
from ptxlab.isa.native_ops import Atomic, Collective, CopyAsync, LaneAccess
from ptxlab.isa.operands import Addr, Group, Op, Reg, Resolved, SymbolAddress

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch

__all__ = ["allocation_awaited", "allocations", "constant_sources", "dead_loads", "sources_change"]

_GLOBAL = ("global", "generic")
_SHARED = ("shared", "shared::cta", "generic")
_MAP_ALIGNMENT = 64
_Places: TypeAlias = "tuple[int, ...] | None"
_MOST = 256
"""Registers through which `dead_loads` traces a value."""


class _Origins:
    """Where the values of a program's registers come from; one for each program (`ProgramFacts.of`)."""

    def __init__(self, program: Program) -> None:
        self._program = program

    @cached_property
    def _definitions(self) -> dict[int, list[Op]]:
        """The instructions that write each register."""
        found: defaultdict[int, list[Op]] = defaultdict(list)
        for op, writes in zip(self._program.ops, self._program.writes, strict=True):
            for register in writes:
                found[register].append(op)
        return found

    def of(self, registers: Iterable[int]) -> Iterator[tuple[Op, bool]]:
        """The instructions that the values of registers come from, with all definitions of a register taken together.

        True with an instruction says that it computes from registers whose origins follow: arithmetic, or an exchange between lanes.
        """
        program = self._program
        work = list(registers)
        seen = set(work)
        while work:
            for op in self._definitions.get(work.pop(), ()):
                computes = op.row.kind == "pure" or isinstance(program.natives.get(op.index), Collective)
                yield op, computes
                if computes:
                    new = {r for r in program.reads[op.index] if program.registers[r].bits > 1} - seen
                    seen |= new
                    work += new


# -------------------------------------------------------------------------------------------------------- sources of copies


def sources_change(launch: Launch) -> bool:
    """Whether the launch, or one that follows it, may write an allocation that a cp.async of the launch reads.

    Addresses are followed back to the kernel's parameters, whose values name allocations. What comes from memory may be any address.
    """
    copied = launch.facts.of(_copied)
    if not copied or launch.facts.of(_meets_other_grids) or launch.facts.of(_stores_by_service):
        return bool(copied)
    read, overwritten = allocations(launch, copied), _allocations(launch, launch.facts.of(_written, launch.facts.of(_Origins)))
    return read is None or overwritten is None or bool(read & overwritten)


def constant_sources(launch: Launch) -> frozenset[int]:
    """The tensor copies that read only allocations which neither the launch nor one that follows it writes.

    Tensor maps in parameters name allocations; the tensor of one in memory may be anywhere.
    """
    maps = launch.facts.of(_maps, launch.facts.of(_Origins))
    if not maps or launch.facts.of(_meets_other_grids) or launch.facts.of(_stores_without_map):
        return frozenset()
    overwritten = _allocations(launch, launch.facts.of(_written, launch.facts.of(_Origins)))
    ops = launch.program.ops
    named = {parameters: _tensors(launch, parameters) for parameters in dict.fromkeys(maps.values())}
    for index, parameters in maps.items():
        if _stores(ops[index]):
            tensors = named[parameters]
            if tensors is None or overwritten is None:
                return frozenset()
            overwritten |= tensors
    if overwritten is None:
        return frozenset()
    read = ((index, named[parameters]) for index, parameters in maps.items() if not _stores(ops[index]))
    return frozenset(index for index, tensors in read if tensors is not None and not tensors & overwritten)


def _copied(program: Program) -> list[Resolved]:
    """The addresses from which cp.async copies."""
    return [program.ops[index].operands[native.source] for index, native in program.natives.items() if isinstance(native, CopyAsync)]


def _meets_other_grids(program: Program) -> bool:
    return any(isinstance(op.effects, GridWait | GridLaunch) for op in program.ops)


def _written(program: Program, origins: _Origins) -> _Places:
    """Where the addresses come from that stores and atomics in global memory have, but for those of services."""
    written = [
        program.ops[index].operands[native.address]
        for index, native in program.natives.items()
        if (isinstance(native, Atomic) or (isinstance(native, LaneAccess) and native.write)) and native.space in _GLOBAL
    ]
    return _places(program, origins, written)


def _stores(op: Op) -> bool:
    """Whether a service writes global memory."""
    return op.row.kind == "service" and isinstance(op.effects, Access | Asynchronous) and Space.GLOBAL in op.effects.writes


def _stores_by_service(program: Program) -> bool:
    return any(map(_stores, program.ops))


def _copies_tensor(op: Op) -> bool:
    return op.row.kind == "service" and isinstance(op.effects, Asynchronous) and op.effects.tensor_map


def _stores_without_map(program: Program) -> bool:
    """Whether a service writes global memory at an address, or a tensor map."""
    return any(_stores(op) and not _copies_tensor(op) for op in program.ops)


def _maps(program: Program, origins: _Origins) -> dict[int, tuple[Parameter, ...] | None]:
    """By tensor copy the parameters in which its tensor map may be; None if it may be elsewhere."""
    return {op.index: _parameters_of_map(program, origins, op) for op in program.ops if _copies_tensor(op)}


def _parameters_of_map(program: Program, origins: _Origins, op: Op) -> tuple[Parameter, ...] | None:
    """The parameters with whose addresses the program computes that of a tensor map."""
    base = next(operand.base for operand in op.operands if isinstance(operand, Addr) and operand.extra)
    operands: list[Resolved] = [] if base is None else [base]
    for origin, computes in origins.of([base.index] if isinstance(base, Reg) else []):
        if not computes:
            return None
        operands += origin.operands
    offsets = {(o.space, o.offset - PARAM_BASE) for o in operands if isinstance(o, SymbolAddress)}
    found = tuple(p for p in program.parameters if ("param", p.offset) in offsets)
    return found if found and len(found) == len(offsets) else None


def _tensors(launch: Launch, parameters: tuple[Parameter, ...] | None) -> set[int] | None:
    """The bases of the allocations that tensor maps in these parameters name; None if there is no such map."""
    found = set()
    for parameter in parameters or ():
        for at in range(parameter.offset, parameter.offset + parameter.size - TENSOR_MAP_BYTES + 1, _MAP_ALIGNMENT):
            try:
                fields = decode_tensor_map(launch.parameter_bytes[at : at + TENSOR_MAP_BYTES])
            except TensorMapError:
                continue
            allocation = launch.device.memory.find(fields.address)
            if allocation is not None:
                found.add(allocation.base)
    return found or None


def allocations(launch: Launch, addresses: list[Resolved]) -> set[int] | None:
    """The bases of the allocations that addresses may lie in; None if they may lie anywhere."""
    return _allocations(launch, _places(launch.program, launch.facts.of(_Origins), addresses))


def _allocations(launch: Launch, places: _Places) -> set[int] | None:
    """The bases of the allocations that the 64-bit words at these places in the parameters point to."""
    if places is None:
        return None
    words = (int.from_bytes(launch.parameter_bytes[at : at + 8].tobytes(), "little") for at in places)
    return {allocation.base for word in words if (allocation := launch.device.memory.find(word)) is not None}


def _places(program: Program, origins: _Origins, addresses: list[Resolved]) -> _Places:
    """Where in the parameters the words are that addresses are computed with; None if they come from elsewhere, too."""
    found: list[int] = []
    if any(map(_has_symbol, addresses)):
        return None
    for op, computes in origins.of(register for address in addresses for register in operand_registers(address)):
        native = program.natives.get(op.index)
        if isinstance(native, LaneAccess):
            place = _parameter(op, native)
            if place is None:
                return None
            found += range(place, place + native.size, 8)
        elif not computes or any(map(_has_symbol, op.operands)):
            return None
    return tuple(found)


def _has_symbol(operand: Resolved) -> bool:
    """Whether the address of a global variable is in an operand."""
    if isinstance(operand, Addr):
        return operand.base is None or _has_symbol(operand.base)
    if isinstance(operand, Group):
        return any(map(_has_symbol, operand.items))
    return isinstance(operand, SymbolAddress) and operand.space in ("global", "const")


def _parameter(op: Op, native: LaneAccess) -> int | None:
    """The offset of the kernel parameter that a load reads."""
    address = op.operands[native.address]
    if native.space != "param" or native.write or not isinstance(address, Addr):
        return None
    base = address.base
    return base.offset + address.offset - PARAM_BASE if isinstance(base, SymbolAddress) and base.space == "param" else None


# --------------------------------------------------------------------------------------------------- loads and their stores


def dead_loads(program: Program) -> frozenset[int]:
    """Indices of loads whose value matters only to the thread that stores it back.

    Compilers let all threads of a CTA execute a program of few elements: every thread loads and computes, and only one stores to the same
    place. In the others the value is dead, so that the load does not race with that store. In a thread that does store, the store itself
    would be a race.
    """
    accesses = [(program.ops[index], native) for index, native in program.natives.items() if isinstance(native, LaneAccess)]
    stored = {_place(op, native.address) for op, native in accesses if native.write} - {None}
    loads = [
        (op, native)
        for op, native in accesses
        if not native.write and native.space in ("global", *_SHARED) and _place(op, native.address) in stored
    ]
    if not loads:
        return frozenset()
    definitions = Counter(register for writes in program.writes for register in writes)
    guards = {op.guard.index for op in program.ops if op.guard is not None}
    uses: defaultdict[int, list[Op]] = defaultdict(list)
    for op in program.ops:
        for register in set(program.reads[op.index]):
            uses[register].append(op)

    def is_dead(load: Op, place: tuple[int, int] | None) -> bool:
        if place is None or definitions[place[0]] != 1:
            return False
        work = list(program.writes[load.index])
        seen = set(work)
        while work:
            register = work.pop()
            if definitions[register] != 1 or register in guards or len(seen) > _MOST:
                return False
            for op in uses[register]:
                if op.row.kind == "pure":
                    new = set(program.writes[op.index]) - seen
                    seen |= new
                    work += new
                elif not _stored_back(program, op, place, register):
                    return False
        return True

    return frozenset(op.index for op, native in loads if is_dead(op, _place(op, native.address)))


def _place(op: Op, position: int) -> tuple[int, int] | None:
    """The address register and offset of an access."""
    operand = op.operands[position]
    return (operand.base.index, operand.offset) if isinstance(operand, Addr) and isinstance(operand.base, Reg) else None


def _stored_back(program: Program, op: Op, place: tuple[int, int], register: int) -> bool:
    """Whether an instruction is a weak store of the register to the place."""
    native = program.natives.get(op.index)
    if not isinstance(native, LaneAccess) or not native.write or _place(op, native.address) != place:
        return False
    return register in operand_registers(op.operands[native.value]) and register != place[0]


# ----------------------------------------------------------------------------------------------- addresses of tensor memory


def allocation_awaited(program: Program, load: Op, cta: Any) -> Op | None:
    """The tcgen05.alloc that a CTA has not executed yet, if a load of shared memory gives a tensor memory address."""
    from ptxlab.isa.tcgen05 import allocators

    done = allocators(cta)
    left = [op for op in program.ops if isinstance(op.effects, Alloc) and op.index not in done]
    native = program.natives.get(load.index)
    if not left or not isinstance(native, LaneAccess) or native.write or native.space not in _SHARED:
        return None
    registers = [register for op in program.ops for register in _tensor_addresses(op)]
    return left[0] if any(op is load for op, _ in _Origins(program).of(registers)) else None


def _tensor_addresses(op: Op) -> list[int]:
    """The registers of an instruction's tensor memory addresses."""
    effects = op.effects
    if isinstance(effects, Dealloc):
        return [operand.index for operand in op.operands[:1] if isinstance(operand, Reg)]
    if not isinstance(effects, TensorTransfer) and not (isinstance(effects, Asynchronous) and effects.pipe is not None):
        return []
    return [operand.base.index for operand in op.operands if isinstance(operand, Addr) and isinstance(operand.base, Reg)]
