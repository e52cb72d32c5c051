"""Operands that are the same number whenever an instruction executes, as compilers write them that move immediates to registers first."""

from __future__ import annotations

from bisect import bisect_right

from ptxlab.engine.lowering.matching import operand_specs
from ptxlab.engine.program import Program
from ptxlab.isa.operands import Const, Op, Reg, Resolved

__all__ = ["Constants", "moves"]


def moves(op: Op) -> bool:
    """Whether an instruction copies its operand, which may be packed or unpacked."""
    return op.row.kind == "pure" and len(op.operands) == 1 + op.row.outputs and all(spec.parts for spec in operand_specs(op))


class Constants:
    """The numbers that operands of a program's instructions are.

    A register holds a number where the block has moved it there before; and where one instruction alone writes it, a move that all paths to
    there have executed.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._starts = [block.start for block in program.blocks]
        self._writers: dict[int, Op | None] = {}
        """By register the instruction that writes it, None if several do."""
        self._without: dict[int, set[int]] = {}
        """By block what is reached from the first one by ways that end at that block; it is among these. -1: all that is reached."""
        for op in program.ops:
            for register in program.writes[op.index]:
                self._writers[register] = None if register in self._writers else op

    def at(self, op: Op, operand: Resolved) -> int | None:
        """The number that an operand of an instruction is, None if that is not certain."""
        if not isinstance(operand, Reg) or operand.negated:
            return operand.value if isinstance(operand, Const) else None
        block = self._block(op)
        for before in reversed(self._program.ops[self._starts[block] : op.index]):
            if operand.index in self._program.writes[before.index]:
                return _moved(before, operand)
        writer = self._writers.get(operand.index)
        value = None if writer is None else _moved(writer, operand)
        return value if writer is not None and block in self._reached() and block not in self._reached(self._block(writer)) else None

    def _block(self, op: Op) -> int:
        return bisect_right(self._starts, op.index) - 1

    def _reached(self, without: int = -1) -> set[int]:
        found = self._without.get(without)
        if found is None:
            found, work = {without}, [0]
            while work:
                block = work.pop()
                if block not in found:
                    found.add(block)
                    work += self._program.blocks[block].successors
            self._without[without] = found
        return found


def _moved(op: Op, register: Reg) -> int | None:
    """The number that an instruction moves to a register in all lanes that execute it; None if it does something else."""
    value = op.operands[-1]
    copies = op.guard is None and moves(op) and op.operands[0] == register
    return value.value if copies and isinstance(value, Const) else None
