"""As which type a program uses what tcgen05.ld has loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ptxlab.check.race.program.value_flow import allocations
from ptxlab.engine.lowering.register_use import operand_registers
from ptxlab.isa.effects import TensorTransfer
from ptxlab.isa.native_ops import Atomic, LaneAccess, TensorAccess

if TYPE_CHECKING:
    from ptxlab.engine.program import Program
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.launch import Launch

__all__ = ["halves_loaded", "loads", "loads_used_as"]

_WHOLE = 32
"""Bits of the registers of tcgen05.ld; narrower ones hold parts of them."""


_GLOBAL = ("global", "generic")


def _loaded(program: Program) -> dict[int, Op]:
    """By register the tcgen05.ld that has loaded it; also where moves have taken it."""
    loaded = {
        register: op
        for op in program.ops
        if isinstance(op.effects, TensorTransfer) and not op.effects.write
        for register in program.writes[op.index]
    }
    copies = [op for op in program.ops if _copies(op)]
    more = True
    while more:
        more = False
        for op in copies:
            source = next((loaded[register] for register in program.reads[op.index] if register in loaded), None)
            for register in program.writes[op.index]:
                if source is not None and register not in loaded and program.registers[register].bits >= _WHOLE:
                    loaded[register], more = source, True
    return loaded


def loads_used_as(launch: Launch, wanted: str, dtype: str) -> dict[int, tuple[Op, Op]]:
    """By tcgen05.ld, the load and an instruction that takes one of its registers as a type that fills a column.

    It computes with the register as a number of type ``wanted``, or stores it as it is to an array whose elements are ``dtype``.
    """
    program = launch.program
    loaded = _loaded(program)
    found: dict[int, tuple[Op, Op]] = {}
    for op in program.ops:
        loads = {loaded[register].index: loaded[register] for register in program.reads[op.index] if register in loaded}
        new = {index: load for index, load in loads.items() if index not in found}
        if new and (_takes_as(program, op, wanted) or _stores_in(launch, op, loaded, dtype)):
            found.update({index: (load, op) for index, load in new.items()})
    return found


def loads(program: Program) -> int:
    """How many tcgen05.ld there are."""
    return len({op.index for op in _loaded(program).values()})


def _takes_as(program: Program, op: Op, wanted: str) -> bool:
    """Whether an instruction computes with its operands as numbers of a type, or stores or adds such numbers."""
    native = program.natives.get(op.index)
    takes = op.row.kind == "pure" or isinstance(native, Atomic) or (isinstance(native, LaneAccess) and native.write)
    kinds = [kind.rpartition(".")[2] for _, kind in op.row.operands[op.row.outputs :]]
    return takes and any(wanted in (kind, op.q.get(kind)) for kind in kinds)


def _stores_in(launch: Launch, op: Op, loaded: Mapping[int, Op], dtype: str) -> bool:
    """Whether an instruction stores a register of tcgen05.ld as it is to an array with elements of a type."""
    native = launch.program.natives.get(op.index)
    if not isinstance(native, LaneAccess) or not native.write or native.space not in _GLOBAL or native.bits != _WHOLE:
        return False
    if loaded.keys().isdisjoint(operand_registers(op.operands[native.value])):
        return False
    held = [launch.device.memory.find(base) for base in allocations(launch, [op.operands[native.address]]) or ()]
    return bool(held) and all(each is not None and each.arrays and all(a.dtype == dtype for a in each.arrays) for each in held)


def _copies(op: Op) -> bool:
    """Whether the result has the bits of the only operand, or the order of these is another one."""
    outputs = op.row.outputs
    return op.row.kind == "pure" and outputs == 1 and len(op.row.operands) == outputs + 1 and op.row.operands[0][1] == op.row.operands[1][1]


def halves_loaded(program: Program) -> Op | None:
    """A tcgen05.ld that takes the lower halves of columns, if nothing but a matrix instruction writes such halves."""
    accesses = [(index, native) for index, native in program.natives.items() if isinstance(native, TensorAccess) and native.pack]
    if any(native.write for _, native in accesses):
        return None
    return next((program.ops[index] for index, _ in accesses), None)
