"""What a run of pure instructions knows of the numbers in registers besides their undefined bits: the smallest and the largest.

Only registers of mirrored programs have ranges, and between runs only those that pure instructions alone write.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from ptxlab.engine.lowering.frame import row_bytes
from ptxlab.engine.program import Program
from ptxlab.engine.undefined.vocabulary import Range
from ptxlab.native.builder import Function, Value

__all__ = ["RegisterRanges"]


_NESTED = 64
"""Ranges that one range may depend on without being evaluated before it: evaluation nests calls."""


class RegisterRanges:
    """The ranges of the registers of 32 and 64 bits; ``load`` reads a row of the frame as integers of so many bits."""

    def __init__(self, code: Function, program: Program, width: int, load: Callable[[int, int], Value]) -> None:
        self.code = code
        self.program = program
        self.width = width
        self.load = load
        self.known: dict[int, Range | None] = {}
        self._made: list[Range] = []
        self._evaluated = 0
        """How many of these have been evaluated in order."""

    def follows(self, register: int, bits: int) -> bool:
        """Whether a register may have a range as an integer of so many bits."""
        return self.program.mirrored and bits in (32, 64) and self.program.registers[register].bits == bits

    def get(self, register: int) -> Range | None:
        """The range of a register; None if nothing is known."""
        if register not in self.known:
            info = self.program.registers[register]
            self.known[register] = None if info.range < 0 else cache(partial(self._loaded, register))
        return self.known[register]

    def _loaded(self, register: int) -> tuple[Value, Value]:
        low, high = (self.load(row, self.program.registers[register].bits) for row in self.rows(register))
        return low, high

    def set(self, register: int, made: Range | None, guard: Value | None = None, undecided: Value | None = None) -> None:
        """Give a register its range, in the lanes of a guard; it may hold any number where the guard is undefined."""
        before = self.get(register)
        if guard is None or (made is None and before is None):
            self.known[register] = None if guard is not None or made is None else self._in_order(made)
            return

        def merged() -> tuple[Value, Value]:
            bits = self.program.registers[register].bits
            new, old, whole = (self._ends(each, bits) for each in (made, before, None))
            low, high = (guard.select(n, o) for n, o in zip(new, old, strict=True))
            return (low, high) if undecided is None else (undecided.select(whole[0], low), undecided.select(whole[1], high))

        self.known[register] = self._in_order(merged)

    def _in_order(self, made: Range) -> Range:
        """A range that evaluates those of earlier instructions first if they are many: chains of any length nest few calls."""
        position = len(self._made)

        @cache
        def evaluated() -> tuple[Value, Value]:
            if position - self._evaluated > _NESTED:
                while self._evaluated < position:
                    self._made[self._evaluated]()
                    self._evaluated += 1
            return made()

        self._made.append(evaluated)
        return evaluated

    def _ends(self, found: Range | None, bits: int) -> tuple[Value, Value]:
        """The smallest and the largest signed number of a range."""
        if found is not None:
            return found()
        kind = f"<{self.width} x i{bits}>"
        return self.code.const(kind, -1 << bits - 1), self.code.const(kind, (1 << bits - 1) - 1)

    def rows(self, register: int) -> tuple[int, int]:
        """The offsets of the rows with the smallest and the largest number."""
        info = self.program.registers[register]
        return info.range, info.range + row_bytes(info.bits)

    def written(self, registers: list[int]) -> list[tuple[int, int, Value]]:
        """What is to be stored at the end of a run, in registers that it writes: offsets of rows, bits and values.

        All are found here, before the first row is overwritten from which they may be loaded.
        """
        found = []
        for register in registers:
            info = self.program.registers[register]
            if info.range >= 0:
                ends = self._ends(self.get(register), info.bits)
                found += [(row, info.bits, end) for row, end in zip(self.rows(register), ends, strict=True)]
        return found
