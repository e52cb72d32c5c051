"""As which type a program uses what tcgen05.ld has loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxlab.check.race.program.value_flow import allocations
from ptxlab.engine.lowering.register_use import operand_registers
from ptxlab.isa.effects import TensorTransfer
from ptxlab.isa.native_ops import LaneAccess, TensorAccess

if TYPE_CHECKING:
    from ptxlab.engine.program import Program
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.launch import Launch

__all__ = ["halves_loaded", "stored_in", "used_as"]

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


def used_as(program: Program, wanted: str) -> tuple[Op, Op] | None:
    """A tcgen05.ld and an instruction that takes one of its registers as this type, the type of an element that fills a column."""
    loaded = _loaded(program)
    for op in program.ops:
        kinds = [kind.rpartition(".")[2] for _, kind in op.row.operands[op.row.outputs :]]
        if _uses_values(program, op) and any(wanted in (kind, op.q.get(kind)) for kind in kinds):
            for register in program.reads[op.index]:
                if register in loaded:
                    return loaded[register], op
    return None


def stored_in(launch: Launch, dtype: str) -> tuple[Op, Op] | None:
    """A tcgen05.ld and a store of one of its registers, as it is, to an array with elements of this type, which fill a column."""
    program = launch.program
    loaded = _loaded(program)
    for index, native in program.natives.items():
        if not isinstance(native, LaneAccess) or not native.write or native.space not in _GLOBAL or native.bits != _WHOLE:
            continue
        op = program.ops[index]
        source = next((loaded[register] for register in operand_registers(op.operands[native.value]) if register in loaded), None)
        found = None if source is None else allocations(launch, [op.operands[native.address]])
        if source is not None and found:
            held = [launch.device.memory.find(base) for base in found]
            if all(each is not None and each.arrays and all(a.dtype == dtype for a in each.arrays) for each in held):
                return source, op
    return None


def _uses_values(program: Program, op: Op) -> bool:
    """Whether an instruction computes with its operands, or stores them."""
    native = program.natives.get(op.index)
    return op.row.kind == "pure" or (isinstance(native, LaneAccess) and native.write)


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
