"""Products that are repeated: instructions that add to the same D, one after the other, and take the same operands.

It is a mistake if the start addresses do not advance through k. Nothing is wrong with a product that is repeated on purpose, as in a
measurement: there is no other k of the same rows in shared memory, or other instructions take it, or the product is repeated more
often than there are k.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.native import address_of

__all__ = ["ColumnSteps", "Repetitions"]

_SEVERAL = 2


@dataclass(frozen=True, slots=True, eq=False)
class _Doubt:
    """An operand that an instruction has taken again, the start addresses of the other k of its rows, and how it is reported."""

    operands: tuple[MatrixOperand, ...]
    name: str
    others: Sequence[int]
    report: Callable[[], None]


class Repetitions:
    """One for each launch.

    Attributes
    ----------
    runs : by memory and accumulator how many instructions in turn have taken the same
    address : host address of an int64, how many there are
    """

    def __init__(self) -> None:
        self._taken: set[tuple[MatrixOperand, ...]] = set()
        self._starts: set[tuple[str, int]] = set()
        self.runs: dict[tuple[Hashable, Hashable], int] = {}
        self._count: NDArray[np.int64] = np.zeros(1, np.int64)
        self.address = address_of(self._count)
        self._longest: dict[tuple[MatrixOperand, ...], int] = {}
        self._doubts: list[_Doubt] = []

    def taken(self, operands: tuple[MatrixOperand, ...]) -> None:
        """An instruction takes these operands."""
        if operands not in self._taken:
            self._taken.add(operands)
            self._starts.update((operand.name, operand.descriptor.start) for operand in operands)

    def follows(self, memory: Hashable, accumulator: Hashable, operands: tuple[MatrixOperand, ...], again: bool) -> None:
        """Whether an instruction takes ``again`` what the one before it has taken, which added to the same D.

        ``memory`` says of which CTA, and in which form it is known.
        """
        if again:
            run = self.runs[memory, accumulator] = self.runs.get((memory, accumulator), 1) + 1
            self._longest[operands] = max(run, self._longest.get(operands, 0))
        elif self.runs:
            self.runs.pop((memory, accumulator), None)
        self._count[0] = len(self.runs)

    def doubt(self, operands: tuple[MatrixOperand, ...], operand: MatrixOperand, others: Sequence[int], report: Callable[[], None]) -> None:
        """One of the operands is taken again, though there are ``others`` in shared memory: the same rows, with the next k."""
        if others:
            self._doubts.append(_Doubt(operands, operand.name, others, report))

    def mistakes(self) -> Iterator[Callable[[], None]]:
        """How those are reported that leave out some k."""
        for doubt in self._doubts:
            left_out = any((doubt.name, start) not in self._starts for start in doubt.others)
            if left_out and self._longest.get(doubt.operands, 0) <= len(doubt.others) + 1:
                yield doubt.report


class ColumnSteps:
    """Steps of an A in tensor memory from instruction to instruction, where B goes on to the next k; one for each launch.

    A step over columns is a mistake if several steps are alike and no instruction takes what is left out.
    """

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._steps: dict[int, dict[int, tuple[range, Callable[[], None]]]] = {}

    def taken(self, column: int) -> None:
        """An instruction takes A from this column on."""
        self._taken.add(column)

    def over(self, first: int, columns: int, moved: int, report: Callable[[], None]) -> None:
        """The instruction after the one that takes ``columns`` from the ``first`` one on begins further on than behind them."""
        left_out = range(first + columns, first + moved, columns)
        self._steps.setdefault(moved, {}).setdefault(first, (left_out, report))

    def mistakes(self) -> Iterator[Callable[[], None]]:
        """How those are reported that leave out some k."""
        for steps in self._steps.values():
            if len(steps) >= _SEVERAL and all(self._taken.isdisjoint(left_out) for left_out, _ in steps.values()):
                yield next(iter(steps.values()))[1]
