"""What is incomplete when a CTA exits: asynchronous operations on its shared memory, accesses of other CTAs to it, aligned instructions.

The clocks of the CTA's warps when the last of them exits decide, not whether an operation happens to be complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.check.model import Component, Kind, Row, kind_of
from ptxlab.check.race.clocks.clocks import Agent, Clocks
from ptxlab.check.race.clocks.mbarrier_clock import MbarrierClock
from ptxlab.check.race.report.findings import Findings
from ptxlab.check.race.shadow.shadow import Object
from ptxlab.check.race.shadow.shadow_words import CLUSTER_SHIFT, HOW_SHIFT
from ptxlab.engine.context import Word
from ptxlab.engine.program import Program
from ptxlab.isa.effects import Asynchronous, Space
from ptxlab.isa.native_ops import Native
from ptxlab.isa.operands import Op
from ptxlab.machine.warp.warp import ConvergedLanes

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Aligned", "Exits"]

_REMOTE = Kind.GENERIC, Kind.STRONG, Kind.NARROW, Kind.SILENT
_COPY = (Kind.COPY,)


class Exits:
    """Checks the exit of CTAs; ``copies``: the program has cp.async."""

    def __init__(self, findings: Findings, copies: bool, launch: Launch) -> None:
        self._findings = findings
        self._copies = copies
        self._ops = launch.program.ops
        self._reaches = launch.facts.of(_reaches)

    def leave(self, clocks: Clocks, cta: Any, shared: Object) -> None:
        """All threads of a CTA have exited."""
        own = clocks.agents[cta.rank * clocks.warps : (cta.rank + 1) * clocks.warps]
        ordered = np.maximum.reduce([agent.rows[Row.EXECUTION] for agent in own])
        self._bulk(clocks, cta, ordered)
        self._wgmma(clocks, cta, ordered)
        if self._copies and any(_is_copying(agent, ordered) for agent in own):
            for op, agent in self._entries(clocks, shared, _COPY, ordered):
                slot = clocks.copies(agent)
                self._findings.in_flight_at_exit(agent, op, reads=False, grouped=bool(slot.groups) and slot.groups[-1] >= slot.newest)
        if len(clocks.agents) > len(own):
            seen = np.maximum.reduce([agent.rows[Row.TENSOR] for agent in own])
            barrier = clocks.cluster_barrier
            self._remote(clocks, cta, shared, ordered if barrier is None else barrier.seen(cta.rank, ordered), seen)

    def _bulk(self, clocks: Clocks, cta: Any, ordered: NDArray[np.uint32]) -> None:
        for agent in clocks.agents:
            for what, slot in agent.slots.items():
                if not isinstance(what, tuple) or not slot.clock:
                    continue
                read = agent.rows[Row.EXECUTION, slot.number + Component.EARLY] >= slot.clock
                if what[0] == "bulk group" and agent.cta is cta and not read:
                    self._findings.in_flight_at_exit(agent, slot.op, reads=True)
                if what[0] == "bulk" and what[1] == cta.rank and ordered[slot.number] < slot.clock:
                    self._findings.in_flight_at_exit(agent, slot.op, reads=False)

    def _wgmma(self, clocks: Clocks, cta: Any, ordered: NDArray[np.uint32]) -> None:
        for (rank, _), group in clocks.warpgroups.items():
            slot = group.slot
            if rank == cta.rank and ordered[slot.number] < slot.clock:
                owner = clocks.owners[slot.number // 2][0]
                assert owner is not None
                self._findings.in_flight_at_exit(owner, slot.op, reads=True)

    def _remote(self, clocks: Clocks, cta: Any, shared: Object, ordered: NDArray[np.uint32], seen: NDArray[np.uint32]) -> None:
        """Uses by other CTAs; ``seen``: what relaxed waits have seen, which is enough for an arrival."""
        for op, agent in self._entries(clocks, shared, _REMOTE, ordered) if self._reaches else ():
            if agent.cta is not cta:
                self._findings.outlived(cta, agent, op)
        for barrier in cta.mbarriers.values():
            barrier_clock: MbarrierClock | None = barrier.clock
            for use in barrier_clock.arrivals() if barrier_clock is not None else ():
                observed = use.slot + (Component.EARLY if use.slot == use.agent.main.number else Component.DONE)
                if use.agent.cta is not cta and max(ordered[use.slot], seen[observed]) < use.clock:
                    self._findings.outlived(cta, use.agent, use.op)

    def _entries(self, clocks: Clocks, shared: Object, kinds: tuple[Kind, ...], ordered: NDArray[np.uint32]) -> Iterator[tuple[Any, Agent]]:
        """The instruction and warp of each access of these kinds, in the shadow of shared memory, that is not ordered before the exit."""
        cells = np.concatenate([_of_kinds(each.reshape(-1, 2), kinds) for each in (shared.cells, shared.further)])
        slots = (cells[:, 0] >> np.uint64(32)).astype(np.int64)
        columns = slots & (1 << CLUSTER_SHIFT) - 1
        late = (slots >> CLUSTER_SHIFT == clocks.serial) & (
            ordered[np.where(columns < len(ordered), columns, 0)] < (cells[:, 0] & np.uint64(0xFFFFFFFF))
        )
        for column, index in sorted(set(zip(columns[late].tolist(), (cells[late, 1] & np.uint64(0xFFFFFF)).tolist(), strict=True))):
            agent = clocks.owners[column // 2][0]
            if agent is not None:
                yield self._ops[index], agent


def _reaches(program: Program) -> bool:
    """Whether a kernel can access the shared memory of another CTA."""
    return any(_reaches_others(op, program.natives.get(op.index)) for op in program.ops)


def _reaches_others(op: Op, native: Native | None) -> bool:
    """Whether an instruction can access the shared memory of another CTA as its own thread does."""
    if op.row.kind == "service":
        effects = op.effects
        return isinstance(effects, Asynchronous) and Space.SHARED in effects.writes and kind_of(effects) in _REMOTE
    return getattr(native, "space", "") in ("shared::cluster", "generic")


def _of_kinds(cells: NDArray[np.uint64], kinds: tuple[Kind, ...]) -> NDArray[np.uint64]:
    """The entries of accesses of these kinds."""
    wanted = np.zeros(256, bool)
    wanted[[kind << 1 | write for kind in kinds for write in (0, 1)]] = True
    how = cells.view(np.uint8).reshape(len(cells), 16)[:, 8 + HOW_SHIFT // 8]
    used: NDArray[np.uint64] = cells[wanted[how] & (cells[:, 1] != 0)]
    return used


def _is_copying(agent: Agent, ordered: NDArray[np.uint32]) -> bool:
    """Whether a warp has a cp.async that is not ordered before the exit of its CTA."""
    slot = agent.copies
    return slot is not None and bool(ordered[slot.number] < slot.newest)


@dataclass(slots=True, eq=False)
class Aligned:
    """Waits and fences with ``.aligned`` that compiled code executes: reports those that some threads of the warp do not execute.

    Parts of a warp may execute such an instruction one after the other, for example after a loop that they leave at different times. A part
    that has not executed it when the CTA ends, or when another part executes it again, never executes it.
    """

    _launch: Launch
    _parts: dict[tuple[Warp, int], tuple[Op, int, int]] = field(default_factory=dict)
    """By warp and op index: the instruction, the lanes that have executed it, and those that have to."""

    @property
    def parted(self) -> bool:
        """Whether some warp has executed such an instruction only in part."""
        return bool(self._parts)

    def executed(self, warp: Warp, op: Op, lanes: int) -> None:
        """Some lanes of a warp have executed an instruction."""
        wanted = warp.live & ~warp.words[int(Word.EXITED)]
        key = warp, op.index
        held = self._parts.pop(key, None)
        if held is not None:
            _, done, wanted = held
            if done & lanes:
                self._report(warp, *held)
            lanes |= done
        if wanted & ~lanes:
            self._parts[key] = op, lanes, wanted

    def ended(self, cta: CtaState) -> None:
        """The CTA has exited: report the instructions that only parts of its warps have executed."""
        for (warp, _), part in self._parts.items():
            if warp.cta is cta:
                self._report(warp, *part)

    def _report(self, warp: Warp, op: Op, done: int, wanted: int) -> None:
        if op.guard is None:
            split = ConvergedLanes(warp, op.index, done)
            split.op = op.index
            self._launch.reports.parted(warp, [split])
        warp.op, warp.mask, warp.converged_mask = op, done, wanted
        self._launch.reports.partial(warp)
