"""Which instructions of a program the data flow executes, and which of their operands it asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ptxlab.check.static.dataflow._values import Value
from ptxlab.engine import Program
from ptxlab.engine.lowering.matching import operand_specs
from ptxlab.engine.lowering.register_use import operand_registers
from ptxlab.isa.native_ops import Atomic, CopyAsync, LaneAccess
from ptxlab.isa.operands import Addr, Group, Op, Reg, Resolved

__all__ = ["Part", "asked_for", "asked_operands", "calculates", "followed"]


def followed(program: Program) -> list[bool]:
    """Whether each op is executed here: all but pure instructions whose results only reach data and addresses in global memory."""
    makers: dict[int, list[Op]] = {}
    found = [op.row.kind != "pure" for op in program.ops]
    wanted: list[int] = []

    def follow(op: Op) -> None:
        match program.natives.get(op.index):
            case LaneAccess(space="global" | "const") | Atomic(space="global"):
                pass
            case LaneAccess(address=position) | CopyAsync(destination=position):
                address = op.operands[position]
                if isinstance(address, Addr) and isinstance(address.base, Reg):
                    wanted.append(address.base.index)
            case _ if op.row.kind == "pure":
                if not calculates(op):
                    wanted.extend(program.reads[op.index])
            case _:
                bases = [operand.base if isinstance(operand, Addr) else operand for operand in asked_operands(op)]
                wanted.extend(base.index for base in bases if isinstance(base, Reg))
        if op.guard is not None:
            wanted.append(op.guard.index)

    for op in program.ops:
        if found[op.index]:
            follow(op)
        else:
            for register in program.writes[op.index]:
                makers.setdefault(register, []).append(op)
    while wanted:
        for op in makers.pop(wanted.pop(), ()):
            if not found[op.index]:
                found[op.index] = True
                follow(op)
    return found


@dataclass(slots=True)
class Part:
    """An instruction of a block that is executed, the registers that decide what it does, and the operands that rules ask for.

    ``written``: what it writes, if that does not depend on values.
    """

    op: Op
    pure: bool
    reads: tuple[int, ...]
    asked: tuple[Resolved | None, ...] = ()
    written: list[tuple[int, Value]] | None = None


def asked_for(program: Program, parts: Iterable[Part]) -> int:
    """The registers that live across blocks and whose values some parts ask for, as bits in the order of ``crossing``."""
    asked: set[int] = set()
    for part in parts:
        op = part.op
        asked.update(part.reads)
        native = program.natives.get(op.index)
        if isinstance(native, LaneAccess) and native.write:
            asked.update(operand_registers(op.operands[native.value]))
        if op.guard is not None:
            asked.add(op.guard.index)
            asked.update(program.writes[op.index])
    crossing = np.fromiter((register in asked for register in program.crossing), np.bool_, len(program.crossing))
    return int.from_bytes(np.packbits(crossing, bitorder="little").tobytes(), "little")


def calculates(op: Op) -> bool:
    """Whether a pure instruction makes floating-point numbers of others: data, of which only comparisons are followed."""
    outputs = op.row.outputs
    specs = operand_specs(op)[:outputs]
    return bool(specs) and all(spec.type[:1] == "f" for spec in specs) and any(isinstance(each, Reg) for each in op.operands[outputs:])


def asked_operands(op: Op) -> tuple[Resolved | None, ...]:
    """The operands of an instruction that is not pure whose values rules may ask for: no results, and no vectors, which hold data."""
    outputs = op.row.outputs
    given = enumerate(op.operands)
    return tuple([None if isinstance(each, Group) or (at < outputs and not isinstance(each, Addr)) else each for at, each in given])
