"""What the wgmma instructions of a program have in common."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from ptxlab.isa.effects import Asynchronous, Completion, WaitGroup
from ptxlab.isa.operands import Const, Group, Op, Reg

__all__ = ["Matrices", "matrices_of"]

_MOST_GROUPS = 1 << 16
"""No program waits for all groups but more than so many."""


class Matrices(NamedTuple):
    """The matrices in registers, and the groups.

    Attributes
    ----------
    numbers : the accumulators, numbered, by the registers of D and whether they hold two values each
    overlaps : by number, the other accumulators that have some of the same registers
    ends : a power of two: each warp needs to know of no more groups
    holds_registers : whether some instruction has A in registers, or metadata
    """

    numbers: dict[tuple[tuple[int, ...], bool], int]
    overlaps: tuple[tuple[int, ...], ...]
    ends: int
    holds_registers: bool

    def number_of(self, op: Op) -> int:
        """The number of the accumulator of an instruction."""
        return self.numbers[_key(op)]


def _key(op: Op) -> tuple[tuple[int, ...], bool]:
    d = op.operands[0]
    assert isinstance(d, Group)
    return tuple([item.index for item in d.items if isinstance(item, Reg)]), op.q.types.startswith("f16")


def matrices_of(program: Any) -> Matrices:
    """Those of a program."""
    numbers: dict[tuple[tuple[int, ...], bool], int] = {}
    users: dict[int, set[int]] = defaultdict(set)
    in_registers, most = False, 0
    for op in program.ops:
        effects = op.effects
        if isinstance(effects, WaitGroup) and effects.of is Completion.WGMMA_GROUP:
            count = op.operands[0]
            most = max(most, min(count.value, _MOST_GROUPS) if isinstance(count, Const) else 0)
        elif op.row.updates:
            key = _key(op)
            number = numbers.setdefault(key, len(numbers))
            for register in key[0]:
                users[register].add(number)
            sparse = isinstance(effects, Asynchronous) and effects.metadata >= 0
            in_registers |= sparse or isinstance(op.operands[1], Group)
    overlaps = [set[int]().union(*(users[register] for register in key[0])) - {number} for key, number in numbers.items()]
    return Matrices(numbers, tuple(tuple(sorted(each)) for each in overlaps), 1 << (most + 1).bit_length(), in_registers)
