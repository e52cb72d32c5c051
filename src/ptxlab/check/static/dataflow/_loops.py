"""The loops of a program."""

from __future__ import annotations

from ptxlab.engine import Program

__all__ = ["loops_of"]


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
