"""Executions of services that compiled code repeats, without a call of the machine's handler.

A handler that has executed an instruction may say how compiled code can do the same again. That holds for the same values in the
registers, in a CTA whose state is the same, as far as the execution depends on it. The handler chooses what it needs to know of the
state; each state has a number. Where it may have changed, the number of the CTA's state is set to 0 until a handler knows it again.

The executions are in a table that compiled code searches. It stays from launch to launch of a program. In a launch with observers each
execution has calls of functions that do what the observers do, before what the instruction does; these executions end with the launch.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.lowering.register_use import operand_registers
from ptxlab.engine.program import Program
from ptxlab.isa.effects import Asynchronous, Pipe
from ptxlab.isa.operands import Addr, Op, SymbolAddress
from ptxlab.native import address_of

__all__ = [
    "CALLS",
    "CALL_BYTES",
    "ENTRY_WORDS",
    "FACTOR",
    "FUNCTION",
    "KEY",
    "REGISTERS",
    "SLOTS",
    "STATE_SHIFT",
    "WORDS_GIVEN",
    "Call",
    "Repetitions",
    "repeatable",
    "repeated_registers",
]

SLOTS = 4096
"""Places for executions in a table; an execution is at the first free one after that which its hash names."""
ENTRY_WORDS = 16
FUNCTION, KEY, REGISTERS, WORDS_GIVEN, CALLS = 0, 1, 2, 10, 15
"""Words of an execution: the function, 0 if the place is free; the instruction and the state; the values of registers; what it is given.

The last one is the address of calls for observers, 0 if there are none. A call is two words (`Call`); behind the last one is a 0.
"""
CALL_BYTES = 16
STATE_SHIFT = 32
"""Where in the key the number of the state begins; below it is the index of the instruction."""
FACTOR = 0x9E37_79B9_7F4A_7C15
"""The hash of an execution is its key, which each value of a register changes: by XOR, this factor, and XOR with its own upper half."""
Call: TypeAlias = tuple[int, int]
"""The host address of ``i64 function(context, words, lane)``, and that of the words.

The lane is the one that executes the instruction. If the result is not 0, the handler must be called.
"""
_MOST = SLOTS // 2
_WORD = (1 << 64) - 1
_WIDTHS = (1, 16, 32, 64)


def repeated_registers(program: Program, op: Op) -> tuple[int, ...] | None:
    """The registers that decide what a lane's execution of an instruction does; None if compiled code never repeats it."""
    effects = op.effects
    if op.row.kind != "service" or program.stepped or op.aligned or op.row.flow is not None:
        return None
    if not isinstance(effects, Asynchronous) or effects.pipe is not Pipe.MMA or program.writes[op.index]:
        return None
    bases = [operand.base if isinstance(operand, Addr) else operand for operand in op.operands]
    found = tuple(dict.fromkeys(register for operand in op.operands for register in operand_registers(operand)))
    known = all(program.registers[index].bits in _WIDTHS and program.registers[index].offset >= 0 for index in found)
    return found if known and len(found) <= WORDS_GIVEN - REGISTERS and not any(isinstance(b, SymbolAddress) for b in bases) else None


def repeatable(program: Program) -> dict[int, tuple[int, ...]]:
    """By the indices of the instructions that compiled code may repeat: `repeated_registers`.

    There are none in a program that asks what a collector buffer holds, which each execution changes.
    """
    if any(isinstance(op.effects, Asynchronous) and op.effects.reuses for op in program.ops):
        return {}
    found = {op.index: repeated_registers(program, op) for op in program.ops}
    return {index: registers for index, registers in found.items() if registers is not None}


class Repetitions:
    """A table of executions.

    Attributes
    ----------
    address : host address of the table
    """

    def __init__(self) -> None:
        table: NDArray[np.uint64] = np.zeros(SLOTS * ENTRY_WORDS, np.uint64)
        self.address = address_of(table)
        self._words = table.data
        self._table = table
        self._states: dict[Hashable, int] = {}
        self._last_state = 0
        self._kept: list[object] = []
        self._calls: dict[int, Sequence[Call]] = {}
        """By place."""

    def number(self, state: Hashable) -> int:
        """The number of a state; no other state ever has it."""
        found = self._states.get(state)
        if found is None:
            if len(self._states) >= _MOST:
                self._states.clear()
            found = self._states[state] = self._last_state = self._last_state + 1
        return found

    def add(
        self, op: int, state: int, values: Sequence[int], function: int, given: Sequence[int], kept: object, calls: Sequence[Call] = ()
    ) -> None:
        """Enter an execution: what compiled code calls with the bases of the CTA and the address of the words that it is given.

        ``calls`` come before that, in order. ``kept`` stays alive as long as the execution is in the table. When the table is full, all
        others leave it. If the execution is there with other calls, it has these from now on.
        """
        words, same = self._words, [state << STATE_SHIFT | op, *values]
        mixed = same[0]
        for value in values:
            mixed = (mixed ^ value) * FACTOR & _WORD
            mixed ^= mixed >> 32
        first = at = mixed % SLOTS
        while words[at * ENTRY_WORDS + FUNCTION]:
            entry = at * ENTRY_WORDS
            if words[entry + KEY : entry + KEY + len(same)].tolist() == same:
                if self._calls.get(at, ()) != calls:
                    self._call(at, calls)
                    self._kept.append(kept)
                return
            at = (at + 1) % SLOTS
        if len(self._kept) >= _MOST:
            self.clear()
            at = first
        entry = at * ENTRY_WORDS
        for index, word in enumerate(same, entry + KEY):
            words[index] = word
        for index, word in enumerate(given, entry + WORDS_GIVEN):
            words[index] = word & _WORD
        if calls:
            self._call(at, calls)
        words[entry + FUNCTION] = function
        self._kept.append(kept)

    def _call(self, at: int, calls: Sequence[Call]) -> None:
        """Let the execution at a place have these calls."""
        table = np.array([*calls, (0, 0)], np.int64)
        self._calls[at] = calls
        self._kept.append(table)
        self._words[at * ENTRY_WORDS + CALLS] = address_of(table)

    def clear(self) -> None:
        """Remove all executions."""
        if self._kept:
            self._table.fill(0)
            self._calls.clear()
            self._kept.clear()
