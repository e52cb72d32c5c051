"""Whether the registers of a tcgen05.ld have been read: section "Register dependencies, same thread"."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property, reduce
from operator import or_

from ptxlab._records import dataclass
from ptxlab.engine.program import Program
from ptxlab.isa.effects import TensorTransfer
from ptxlab.machine.warp.pending_registers import entry_states

__all__ = ["Consumption"]


@dataclass(eq=False)
class Consumption:
    """Which tcgen05.ld may still have destination registers that nothing has read.

    A forward analysis over the basic blocks. A register is unread if it is unread on some path. Where paths join that have read different
    registers, what counts is the path that was executed: compiled code notes the ends of blocks that lead there (`read_at_ends`).

    There is a bit for each destination register of each tcgen05.ld.
    """

    _program: Program
    _at: dict[int, int] = field(default_factory=dict)

    @cached_property
    def loads(self) -> dict[int, int]:
        """The bits of each tcgen05.ld."""
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
        for index, mask in self.loads.items():
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

    def _after(self, index: int, state: tuple[int, int]) -> tuple[int, int]:
        unread, read = state
        left, loaded = self._read(index, unread), self.loads.get(index, 0)
        return left | loaded, (read | unread & ~left) & ~loaded

    @cached_property
    def _entries(self) -> dict[int, tuple[int, int]]:
        """By block the bits that are unread on some path there, and those that have been read since the load on some path."""
        return entry_states(
            self._program, (0, 0), lambda op, state: self._after(op.index, state), lambda one, other: (one[0] | other[0], one[1] | other[1])
        )

    @cached_property
    def read_at_ends(self) -> dict[int, int]:
        """By the last op of a block the bits that all paths through the block have read, and some other path to a successor has not.

        A branch, or a service, which leaves compiled code, is not executed yet at what counts as the end: it is what lanes execute next.
        """
        program, entries, found = self._program, self._entries, {}
        for number, (unread, read) in entries.items() if self.loads else ():
            block = program.blocks[number]
            state = unread, read
            for index in range(block.start, block.stop):
                state = self._after(index, state)
            bits = 0
            for to in block.successors:
                bits |= entries[to][0] & ~state[0] & state[1]
            if bits:
                found[block.stop - 1] = bits
        return found

    def unread(self, index: int) -> int:
        """The bits that may be unread before an op."""
        found = self._at.get(index)
        if found is None:
            at, block = next((n, b) for n, b in enumerate(self._program.blocks) if b.start <= index < b.stop)
            state = self._entries.get(at, (0, 0))
            for i in range(block.start, index):
                state = self._after(i, state)
            found = self._at[index] = state[0]
        return found

    def consumed(self, load: int, index: int, read: int) -> bool:
        """Whether all registers of a tcgen05.ld have been read when op ``index`` takes effect, which has read its own operands then.

        ``read`` are the bits of those that have been read on the path that was executed.
        """
        return not self.loads[load] & self._read(index, self.unread(index)) & ~read

    def certain(self, load: int, index: int) -> bool | None:
        """The same whatever path is executed; None if that depends on the path."""
        unread = self.loads[load] & self._read(index, self.unread(index))
        return not unread or (False if unread & ~self._read_on_paths else None)

    @cached_property
    def _read_on_paths(self) -> int:
        """All bits that are read on some paths only."""
        return reduce(or_, self.read_at_ends.values(), 0)
