"""Which tcgen05.ld may still have destination registers that nothing has read: section "Register dependencies, same thread"."""

from __future__ import annotations

from functools import cached_property
from operator import or_

from ptxlab.engine.program import Program
from ptxlab.isa.effects import TensorTransfer
from ptxlab.machine.warp.pending_registers import entry_states

__all__ = ["Consumption"]


class Consumption:
    """A forward analysis over the basic blocks; a register is unread where it is so on some path."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._at: dict[int, int] = {}

    @cached_property
    def _loads(self) -> dict[int, int]:
        """The bits of each tcgen05.ld: one for each destination register."""
        bits, found = 0, {}
        for op in self._program.ops:
            if isinstance(op.effects, TensorTransfer) and not op.effects.write:
                count = len(set(self._program.writes[op.index]))
                found[op.index] = ((1 << count) - 1) << bits
                bits += count
        return found

    @cached_property
    def _readers(self) -> dict[int, int]:
        """By register: the bits that reading it clears."""
        found: dict[int, int] = {}
        for index, mask in self._loads.items():
            lowest = (mask & -mask).bit_length() - 1
            for k, register in enumerate(dict.fromkeys(self._program.writes[index])):
                found[register] = found.get(register, 0) | 1 << lowest + k
        return found

    def _read(self, index: int, unread: int) -> int:
        """What is left of the bits when an op has read its operands."""
        program = self._program
        readers = self._readers
        if unread:
            for register in program.reads[index]:
                unread &= ~readers.get(register, 0)
            guard = program.ops[index].guard
            if guard is not None:
                unread &= ~readers.get(guard.index, 0)
        return unread

    def _after(self, index: int, unread: int) -> int:
        return self._read(index, unread) | self._loads.get(index, 0)

    @cached_property
    def _entries(self) -> dict[int, int]:
        return entry_states(self._program, 0, lambda op, unread: self._after(op.index, unread), or_)

    def unread(self, index: int) -> int:
        """The bits that may be unread before an op."""
        found = self._at.get(index)
        if found is None:
            at, block = next((n, b) for n, b in enumerate(self._program.blocks) if b.start <= index < b.stop)
            found = self._entries.get(at, 0)
            for i in range(block.start, index):
                found = self._after(i, found)
            self._at[index] = found
        return found

    def consumed(self, load: int, index: int) -> bool:
        """Whether all registers of a tcgen05.ld have been read when op ``index`` takes effect, which has read its own operands then."""
        return not self._loads[load] & self._read(index, self.unread(index))
