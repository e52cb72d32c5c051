"""Runs of pure ops that differ in their registers alone: unrolled loops. Compiled code has a loop for each, which is compiled once.

All registers of such a run have rows in the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from ptxlab.engine.program import Register
from ptxlab.isa.operands import Group, Op, PairOf, Reg, Resolved

__all__ = ["distinct_registers", "repeated_runs"]

_LEAST = 12
"""So many ops make a loop worthwhile: they move through the frame what they could keep in registers of the processor."""


def repeated_runs(ops: Sequence[Op], registers: Sequence[Register]) -> Iterator[tuple[int, int]]:
    """Where runs of equal ops begin, and where they end."""
    for start, stop in _groups(0, len(ops), lambda place: (id(ops[place].row), id(ops[place].q))):
        if ops[start].row.kind == "pure":
            yield from _groups(start, stop, lambda place: _shape(ops[place], registers))


def _groups(start: int, stop: int, key: Callable[[int], object]) -> Iterator[tuple[int, int]]:
    """The places with equal keys next to each other, where they are many."""
    for _, alike in groupby(range(start, stop), key):
        first, *others = alike
        if len(others) + 1 >= _LEAST:
            yield first, others[-1] + 1


def distinct_registers(op: Op) -> list[int]:
    """The registers that the operands of an op name, each once, in the order in which they first appear."""
    found: dict[int, int] = {}
    for operand in op.operands:
        _operand_shape(operand, (), found)
    return list(found)


def _shape(op: Op, registers: Sequence[Register]) -> tuple[object, ...]:
    """What equal ops have in common."""
    found: dict[int, int] = {}
    return op.guard, *(_operand_shape(operand, registers, found) for operand in op.operands)


def _operand_shape(operand: Resolved, registers: Sequence[Register], found: dict[int, int]) -> object:
    match operand:
        case Reg(index, negated):
            number = found.setdefault(index, len(found))
            return (number, registers[index].bits, negated) if registers else number
        case Group(items):
            return tuple(_operand_shape(item, registers, found) for item in items)
        case PairOf(first, second):
            return tuple(_operand_shape(item, registers, found) for item in (first, second))
    return operand
