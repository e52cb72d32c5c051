"""What an op reads and writes, and which ops a compiled region keeps among its pure instructions."""

from __future__ import annotations

import struct

from ptxlab.engine.program import Program
from ptxlab.isa.address_space import PARAM_BASE
from ptxlab.isa.effects import Asynchronous, Space, Unit
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.native_ops import Atomic, Collective, CopyAsync, LaneAccess, MatrixAccess, Native, Nothing, TensorAccess
from ptxlab.isa.operands import Addr, Const, Group, Op, PairOf, Reg, Resolved, SymbolAddress

__all__ = [
    "constant_bits",
    "constant_operands",
    "deciding_registers",
    "find_effects",
    "flatten",
    "go_back",
    "is_inline",
    "kept_operands",
    "observed_registers",
    "operand_bits",
    "operand_registers",
    "passes_undefined_bits",
]


def operand_registers(operand: Resolved) -> tuple[int, ...]:
    """The registers that an operand names."""
    if isinstance(operand, Reg):
        return (operand.index,)
    if isinstance(operand, Addr):
        base = (operand.base.index,) if isinstance(operand.base, Reg) else ()
        return base + tuple(r for item in operand.extra for r in operand_registers(item))
    if isinstance(operand, Group):
        return tuple(r for item in operand.items for r in operand_registers(item))
    if isinstance(operand, PairOf):
        return operand_registers(operand.first) + operand_registers(operand.second)
    return ()


def find_effects(program: Program) -> None:
    """Fill in ``natives``, ``reads`` and ``writes``."""
    for op in program.ops:
        reads: list[int] = []
        writes: list[int] = []
        outputs = op.row.outputs
        for i, operand in enumerate(op.operands):
            into = writes if i < outputs and not isinstance(operand, Addr) else reads
            if type(operand) is Reg:
                into.append(operand.index)
            elif type(operand) is not Const:
                into.extend(operand_registers(operand))
        for operand in op.operands[: op.row.updates]:
            reads.extend(operand_registers(operand))
        program.reads.append(tuple(reads))
        program.writes.append(tuple(writes))
        if op.row.kind == "native":
            program.natives[op.index] = op.row.semantics(op.q, op)


def is_inline(program: Program, op: Op) -> bool:
    """Whether an op is part of a run of pure instructions: it can neither fail nor see other lanes."""
    kind = op.row.kind
    if kind == "pure":
        return True
    return kind == "native" and inline_native(program, op, program.natives[op.index])


def go_back(program: Program, start: int, stop: int, live: set[int]) -> None:
    """From the registers that are live behind some ops of a block make those that are live before them."""
    reads, writes = program.reads, program.writes
    for index in range(stop - 1, start - 1, -1):
        guard = program.ops[index].guard
        if guard is None:
            live.difference_update(writes[index])
        else:
            live.add(guard.index)
            live.update(writes[index])
        live.update(reads[index])


def passes_undefined_bits(program: Program, op: Op) -> bool:
    """Whether undefined bits of an operand become undefined bits of a result; elsewhere they count as defined, or are a fault."""
    return op.row.kind == "pure" or op.row.flow is not None or isinstance(program.natives.get(op.index), Collective)


def deciding_registers(op: Op) -> list[int]:
    """Registers that decide an address, a branch, a barrier or a descriptor."""
    found: list[int] = [] if op.guard is None else [op.guard.index]
    kind = op.row.kind
    data = () if op.row.flow is None else op.row.flow.operands
    everything = kind == "control" or (kind == "service" and not _store_space(op))
    for position, operand in enumerate(op.operands[op.row.outputs :], op.row.outputs):
        if isinstance(operand, Addr) or (everything and op.row.operands[position][0] not in data):
            found.extend(operand_registers(operand))
    return found


def observed_registers(program: Program, op: Op) -> list[int]:
    """Registers whose bits leave the thread by way of memory that others read: stores to global memory, atomics, copies."""
    found: list[Resolved] = []
    match program.natives.get(op.index):
        case LaneAccess(write=True, space="global" | "generic", value=value):
            found = [op.operands[value]]
        case Atomic(sources=sources):
            found = [op.operands[position] for position in sources]
        case CopyAsync(source_size=size, ignore=ignore):
            found = [op.operands[position] for position in (size, ignore) if position >= 0]
        case None if _store_space(op) is Space.GLOBAL:
            found = _stored(op)
    return [register for operand in found for register in operand_registers(operand)]


def kept_operands(op: Op, native: object) -> tuple[Resolved, ...]:
    """What an op stores in the memory of its CTA or thread, where the CTA itself may read it again."""
    match native:
        case LaneAccess(write=True, space=space, value=value) if space not in ("global", "generic"):
            return (op.operands[value],)
        case MatrixAccess(write=True, value=value) | TensorAccess(write=True, value=value):
            return (op.operands[value],)
        case None if _store_space(op) is Space.SHARED:
            return tuple(_stored(op))
    return ()


def _store_space(op: Op) -> Space:
    """The space in which a service stores, whose operands are an address and what is stored there."""
    return op.effects.writes if isinstance(op.effects, Asynchronous) and op.effects.unit is Unit.STORE else Space.NONE


def _stored(op: Op) -> list[Resolved]:
    return [operand for operand in op.operands if not isinstance(operand, Addr)]


def inline_native(program: Program, op: Op, native: Native) -> bool:
    """Loads of kernel parameters at constant addresses, and instructions without effect."""
    if isinstance(native, Nothing):
        return op.effects is None
    if isinstance(native, LaneAccess) and native.space == "param" and not native.write and native.bits <= 64:
        address = op.operands[native.address]
        if isinstance(address, Addr) and isinstance(address.base, SymbolAddress) and address.base.space == "param":
            size = native.size
            at = address.base.offset + address.offset
            return at % size == 0 and at >= PARAM_BASE and at + size <= PARAM_BASE + program.param_bytes
    return False


def flatten(operand: Resolved) -> tuple[Resolved, ...]:
    """The elements of a vector operand, or the operand alone."""
    return operand.items if isinstance(operand, Group) else (operand,)


def constant_bits(constant: Const, bits: int) -> int:
    """The bits of a constant read as an operand of so many bits; floats are converted to the width where they can be.

    >>> hex(constant_bits(Const(-1), 16)), hex(constant_bits(Const(0x3FF0000000000000, 64), 32))
    ('0xffff', '0x3f800000')
    """
    value = constant.value
    if constant.float_width == 64 and bits == 32:
        number = struct.unpack("<d", struct.pack("<Q", value))[0]
        try:
            value = struct.unpack("<I", struct.pack("<f", number))[0]
        except OverflowError:
            value = 0x7F800000 | (0x80000000 if number < 0 else 0)
    elif constant.float_width == 32 and bits == 64:
        number = struct.unpack("<f", struct.pack("<I", value))[0]
        value = struct.unpack("<Q", struct.pack("<d", number))[0]
    return value & ((1 << bits) - 1)


def operand_bits(native: Native, position: int) -> int:
    """Width of the rows through which a native's helper sees an operand; 0 for one it does not read as a row."""
    if isinstance(native, LaneAccess):
        return max(native.bits, 16) if native.write and position == native.value else 0
    if isinstance(native, Atomic):
        return TYPE_BITS[native.type] if position in native.sources else 0
    if isinstance(native, MatrixAccess | TensorAccess):
        return 32 if native.write and position == native.value else 0
    if isinstance(native, CopyAsync):
        return 1 if position == native.ignore else 32 if position == native.source_size else 0
    if isinstance(native, Collective):
        if position == native.member or native.name not in ("vote", "match"):
            return 32
        return 1 if native.name == "vote" else TYPE_BITS[native.type]
    return 0


def constant_operands(program: Program) -> set[tuple[int, int]]:
    """Constants that natives read from rows, as (bits of the value, width)."""
    found: set[tuple[int, int]] = set()
    for index, native in program.natives.items():
        for position, operand in enumerate(program.ops[index].operands):
            if isinstance(operand, Const | Group):
                bits = operand_bits(native, position)
                if bits:
                    wider = [program.registers[item.index].bits for item in flatten(operand) if isinstance(item, Reg)]
                    bits = max(wider[0], 16) if wider and isinstance(native, LaneAccess) else bits
                    found.update((constant_bits(item, bits), bits) for item in flatten(operand) if isinstance(item, Const))
    return found
