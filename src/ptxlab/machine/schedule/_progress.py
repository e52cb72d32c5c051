"""Find out whether a launch that executes instructions without end still makes progress."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ptxlab.engine import Program
from ptxlab.engine.lowering.special_registers import CLOCKS

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Watch"]

Places = tuple[tuple[int, int, int], ...]

_PATIENCE = 4
"""Rounds without progress before states are compared."""


@dataclass(slots=True)
class _Mark:
    """A state to compare later ones with; memory is recorded only when program counters and registers were found equal once."""

    round: int
    places: Places
    registers: bytes
    memory: bytes | None


class Watch:
    """Compares the whole state of a launch between rounds.

    The machine is deterministic: a state that occurs twice proves that the launch repeats itself forever. States are compared by Brent's
    method, cheapest part first: a counter of what barriers and asynchronous operations do, then program counters, then registers, then
    memory.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._round = 0
        self._progress = -1
        self._mark: _Mark | None = None
        self._blocked: set[bytes] = set()
        self._blocked_progress = -1

    def repeats(self) -> bool:
        """Return whether a state has occurred before; called after a round in which all warps have used up their slices."""
        if self._progress != self._launch.progress:
            self._progress = self._launch.progress
            self._round = 0
            self._mark = None
        self._round += 1
        if self._round < _PATIENCE or self._reads_clock():
            return False
        places = self._places()
        mark = self._mark
        if mark is not None:
            age = self._round - mark.round
            if places == mark.places and age & (age - 1) == 0 and self._registers() == mark.registers:
                memory = self._memory()
                if mark.memory == memory:
                    self._mark = None
                    return True
                self._mark = _Mark(self._round, places, mark.registers, memory)
                return False
        if mark is None or self._round >= 2 * mark.round:
            self._mark = _Mark(self._round, places, self._registers(), None)
        return False

    def is_new(self) -> bool:
        """Record the state in which all warps wait; return False if it has occurred since the last progress."""
        if self._blocked_progress != self._launch.progress:
            self._blocked_progress = self._launch.progress
            self._blocked.clear()
            return True
        if self._reads_clock():
            return True
        state = repr(self._places()).encode() + self._registers() + self._memory()
        if state in self._blocked:
            return False
        self._blocked.add(state)
        return True

    @cached_property
    def _clocked(self) -> frozenset[int]:
        return clocked(self._launch.program)

    def _reads_clock(self) -> bool:
        """Return whether some lanes run in a loop that reads a clock: the time is a part of their state and never repeats."""
        return bool(self._clocked) and any(
            (s.op if s.state else s.pc) in self._clocked for cta in self._launch.resident for warp in cta.warps for s in warp.converged
        )

    def _places(self) -> Places:
        return tuple((s.pc, s.mask, s.state) for cta in self._launch.resident for w in cta.warps for s in w.converged)

    def _registers(self) -> bytes:
        digest = hashlib.blake2b(digest_size=16)
        for cta in self._launch.resident:
            for warp in cta.warps:
                if warp.converged:
                    digest.update(warp.memory())
        return digest.digest()

    def _memory(self) -> bytes:
        digest = hashlib.blake2b(digest_size=16)
        for cta in self._launch.resident:
            digest.update(cta.shared.data)
            for first, columns in cta.tensor.allocations_of(cta):
                digest.update(cta.tensor.words[first : first + columns].data)
        for allocation in self._launch.device.memory.live():
            if allocation.writable:
                digest.update(allocation.data.data)
        return digest.digest()


def clocked(program: Program) -> frozenset[int]:
    """Return the ops in loops that read a clock."""
    clocks = {number for number, register in enumerate(program.registers) if register.special in CLOCKS}
    if not clocks:
        return frozenset()
    behind = [block.successors for block in program.blocks]
    before: list[list[int]] = [[] for _ in behind]
    for number, successors in enumerate(behind):
        for successor in successors:
            before[successor].append(number)
    found: set[int] = set()
    for number, block in enumerate(program.blocks):
        if any(clocks.intersection(registers) for registers in program.reads[block.start : block.stop]):
            for n in _reachable(behind, number) & _reachable(before, number):
                found.update(range(program.blocks[n].start, program.blocks[n].stop))
    return frozenset(found)


def _reachable(edges: Sequence[Sequence[int]], start: int) -> set[int]:
    """The blocks to which edges lead from one; itself only if it is in a loop."""
    seen: set[int] = set()
    work = list(edges[start])
    while work:
        at = work.pop()
        if at not in seen:
            seen.add(at)
            work += edges[at]
    return seen
