"""Loads and stores of floating-point numbers of another type than the elements of the array.

Only scalar accesses count, whose value an instruction takes or gives as a number: a load of 32 bits whose register is an operand of
``add.f32`` reads a number of type f32. Words that are only moved, packed or unpacked are not numbers of a known type. The array is that of
the only kernel parameter from which the address is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ptxlab.check.race.program.value_flow import allocations
from ptxlab.engine.lowering.register_use import operand_registers
from ptxlab.engine.program import Program
from ptxlab.isa.native_ops import LaneAccess
from ptxlab.isa.operands import Op, Reg

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch

__all__ = ["report_other_types"]

_TYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
"""Types of numbers, as instructions and as arrays name them."""
_SPACES = ("global", "generic")


class _Number(NamedTuple):
    """A load or store of a number, its type, and the instruction that takes or gives the number."""

    op: Op
    access: LaneAccess
    type: str
    other: Op


def report_other_types(launch: Launch) -> None:
    """A note for each instruction whose numbers are not of the type of the array's elements."""
    for number in launch.facts.each_of(_numbers):
        found = allocations(launch, [number.op.operands[number.access.address]])
        held = None if found is None or len(found) != 1 else launch.device.memory.find(next(iter(found)))
        arrays = () if held is None else held.arrays
        if len(arrays) != 1 or arrays[0].dtype not in _TYPES.values() or arrays[0].dtype == _TYPES[number.type]:
            continue
        array, size = arrays[0], number.access.size
        verb, end = ("writes", "gives") if number.access.write else ("reads", "takes")
        launch.reports.add(
            "M413",
            f"{number.op.opcode} {verb} {number.type} numbers of {size} bytes, and {array}, whose elements have {array.itemsize} bytes",
            number.op,
            fix=f"access {array.name} as {array.dtype}, or pass an array of {_TYPES[number.type]}",
            details=((f"{end} the number", launch.reports.name(number.other)),),
        )


def _numbers(program: Program) -> Iterator[_Number]:
    scalar = {
        index: native
        for index, native in program.natives.items()
        if isinstance(native, LaneAccess) and native.count == 1 and native.space in _SPACES and native.bits in (16, 32, 64)
    }
    registers = {index: operand_registers(program.ops[index].operands[native.value]) for index, native in scalar.items()}
    taken, given = _uses(program, {r for found in registers.values() for r in found})
    for index, native in scalar.items():
        for register in registers[index]:
            types = (given if native.write else taken).get(register, {})
            if len(types) == 1:
                ((type_, other),) = types.items()
                yield _Number(program.ops[index], native, type_, other)


def _uses(program: Program, wanted: set[int]) -> tuple[dict[int, dict[str, Op]], dict[int, dict[str, Op]]]:
    """By register: the types as which pure instructions take it, and those as which they give it, or ``""`` for another one."""
    taken: dict[int, dict[str, Op]] = {}
    given: dict[int, dict[str, Op]] = {}
    for op in program.ops:
        if wanted.isdisjoint((*program.reads[op.index], *program.writes[op.index])):
            continue
        kinds = [chosen if isinstance(chosen := op.q.get(kind), str) else kind for _, kind in op.row.operands]
        for at, operand in enumerate(op.operands):
            if isinstance(operand, Reg) and operand.index in wanted:
                found = given if at < op.row.outputs else taken
                kind = kinds[at] if op.row.kind == "pure" and kinds[at] in _TYPES else ""
                if kind or found is given:
                    found.setdefault(operand.index, {}).setdefault(kind, op)
    return taken, {register: types for register, types in given.items() if "" not in types}
