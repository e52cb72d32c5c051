"""The control-flow graph: its loops, what comes behind a block, and the edges that are the same for all threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._values import Symbol, Value
from ptxlab.engine import Program

__all__ = ["Assumptions", "Branch", "Edge", "Graph", "behind", "loops_of"]

Assumptions = frozenset[tuple[int, bool]]
"""Symbols, by their identity, with the values that they are assumed to have."""


@dataclass(slots=True)
class Edge:
    """A successor, and the symbol that must be true or false on the way (None: nothing)."""

    block: int
    needs: tuple[int, bool] | None


@dataclass(slots=True)
class Branch:
    """The end of a block with a predicate: its successors, and whether the branch jumps there, or falls through."""

    guard: Value
    ways: list[tuple[int, bool, bool]]


class Graph:
    """What the graphs of all classes have in common.

    Attributes
    ----------
    plain : the edges of each block if no predicate decides on them
    branches : the branch at the end of each block if a predicate decides
    symbols : those that branches depend on, by their identity
    variation : whether such a symbol may have another value in the next turn of a loop, by the loop's first block
    turned : what of some assumptions still holds when a loop begins or turns, by its first block
    repeated : the symbols on which more than one instruction depends: only their values are kept along a path
    """

    def __init__(self, program: Program, points: Mapping[int, Point]) -> None:
        self.symbols: dict[int, Symbol] = {}
        self.variation: dict[tuple[int, int], bool] = {}
        self.turned: dict[tuple[Assumptions, int], Assumptions] = {}
        self.plain: list[list[Edge]] = []
        self.branches: list[Branch | None] = []
        blocks = program.blocks
        for block in blocks:
            self.plain.append([Edge(following, None) for following in block.successors])
            last = points.get(block.stop - 1)
            branch = None
            if last is not None and last.guard is not None and last.op.row.kind == "control":
                ways = [(each, blocks[each].start in last.op.targets, each == block.fall) for each in block.successors]
                branch = Branch(last.guard, ways)
            self.branches.append(branch)
        counts = Counter(id(point.guard.symbol) for point in points.values() if point.guard is not None)
        self.repeated = {symbol for symbol, count in counts.items() if count > 1}


def behind(successors: Sequence[Sequence[int]], marks: Sequence[int]) -> list[int]:
    """For each block, the marks, which are bits, of all blocks that at least one edge leads to."""
    found = [0] * len(successors)
    changed = True
    while changed:
        changed = False
        for number in range(len(successors) - 1, -1, -1):
            after = found[number]
            for following in successors[number]:
                after |= found[following] | marks[following]
            if after != found[number]:
                found[number] = after
                changed = True
    return found


def loops_of(program: Program) -> dict[int, range]:
    """The blocks of each loop, which are contiguous, by its header."""
    found: dict[int, range] = {}
    for number, block in enumerate(program.blocks):
        header = block.loop
        while header >= 0:
            found[header] = range(header, number + 1)
            outer = program.blocks[header]
            depth = outer.depth
            header = _around(program, header, depth)
    return found


def _around(program: Program, header: int, depth: int) -> int:
    """The header of the loop around a loop."""
    for number in range(header - 1, -1, -1):
        if program.blocks[number].depth < depth:
            return program.blocks[number].loop
    return -1
