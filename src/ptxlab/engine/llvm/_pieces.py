"""Runs of pure instructions, cut so that each piece has one loop over the lanes of a warp."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ptxlab.engine.program import Program
from ptxlab.isa.operands import Op
from ptxlab.isa.scalar.shared_functions import TWO_VECTORS

__all__ = ["needed_by", "pieces"]

_FEW = 16
"""After so many ops a piece with functions of two vectors ends where it can: each call writes all that registers hold to the stack."""


def pieces(program: Program, ops: list[Op], live: frozenset[int] | set[int], width: int) -> Iterator[tuple[list[Op], set[int], int]]:
    """The pieces of a run with the registers that are needed after each, and with how many lanes its loop takes at a time.

    ``width`` is how many lanes a vector has.
    """
    if not any(map(_takes_two, ops)):
        yield ops, set(live), width
        return
    cut = [ops[first:stop] for first, stop in pairwise(_cuts(program, ops))]
    needed = [set(live)]
    for piece in reversed(cut[1:]):
        needed.append(needed[-1].union(*(needed_by(program, op) for op in piece)))
    for piece, registers in zip(cut, reversed(needed), strict=True):
        yield piece, registers, 2 * width if any(map(_takes_two, piece)) else width


def _takes_two(op: Op) -> bool:
    return op.row.semantics in TWO_VECTORS


def needed_by(program: Program, op: Op) -> set[int]:
    """What an op reads; under a guard it leaves some lanes of what it writes."""
    if op.guard is None:
        return set(program.reads[op.index])
    return {op.guard.index, *program.reads[op.index], *program.writes[op.index]}


def _cuts(program: Program, ops: list[Op]) -> list[int]:
    """Where pieces begin, and the end of the run: no register without a row holds a value there that is needed."""
    written: dict[int, int] = {}
    blocked = [0] * (len(ops) + 1)
    for place, op in enumerate(ops):
        for register in needed_by(program, op):
            if register in written:
                blocked[written[register] + 1] += 1
                blocked[place + 1] -= 1
        written.update((register, place) for register in program.writes[op.index] if program.registers[register].offset < 0)
    cuts, held = [0], 0
    for place in range(len(ops)):
        held += blocked[place]
        if not held and place - cuts[-1] >= _FEW:
            cuts.append(place)
    return [*cuts, len(ops)]
