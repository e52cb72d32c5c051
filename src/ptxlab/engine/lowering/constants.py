"""Operands that are the same number whenever an instruction executes, as compilers write them that move immediates to registers first."""

from __future__ import annotations

from ptxlab.engine.lowering.matching import operand_specs
from ptxlab.engine.program import Program
from ptxlab.isa.operands import Const, Op, Reg, Resolved

__all__ = ["constant_at", "moves"]


def moves(op: Op) -> bool:
    """Whether an instruction copies its operand, which may be packed or unpacked."""
    return op.row.kind == "pure" and len(op.operands) == 1 + op.row.outputs and all(spec.parts for spec in operand_specs(op))


def constant_at(program: Program, op: Op, operand: Resolved) -> int | None:
    """The number that an operand of an instruction is: an immediate, or what the block has moved to its register before; else None."""
    if not isinstance(operand, Reg) or operand.negated:
        return operand.value if isinstance(operand, Const) else None
    start = next(block.start for block in program.blocks if block.start <= op.index < block.stop)
    for before in reversed(program.ops[start : op.index]):
        if operand.index in program.writes[before.index]:
            value = before.operands[-1]
            copies = before.guard is None and moves(before) and before.operands[0] == operand
            return value.value if copies and isinstance(value, Const) else None
    return None
