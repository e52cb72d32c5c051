"""What is kept of clusters and of the grid before: all of clusters that run, and only the names of the warps of those that have exited."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.check.model import Component
from ptxlab.check.race.clocks.clocks import Clocks
from ptxlab.check.race.clocks.slots import LaneSlot
from ptxlab.check.race.shadow.shadow import Object
from ptxlab.check.race.shadow.shadow_words import BEFORE, CLUSTER_SHIFT
from ptxlab.engine.program import Program
from ptxlab.isa.effects import Completion, GridWait
from ptxlab.isa.operands import Op
from ptxlab.machine.launch.program_facts import lets_others_start

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Clusters", "GridBefore", "waits_for_grid"]

_OF_A_LANE = (Completion.COMMIT, "bulk reads", "bulk group")
"""Slots that number what one lane issues."""
_BEFORE_ALL = (BEFORE << CLUSTER_SHIFT) << 32 | 1
"""Slot 0, clock 1."""


class _Exited(NamedTuple):
    """The CTAs of a cluster, the warps of each, and the warp of each slot."""

    ctas: tuple[tuple[int, int, int], ...]
    warps: int
    owners: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Clusters:
    """The clusters of a launch by their numbers."""

    _running: dict[int, Clocks] = field(default_factory=dict)
    _exited: dict[int, _Exited] = field(default_factory=dict)
    _owners: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)

    def start(self, clocks: Clocks) -> None:
        """A cluster starts."""
        self._running[clocks.serial] = clocks

    def leave(self, clocks: Clocks) -> None:
        """All CTAs of a cluster have exited."""
        owners = tuple(-1 if owner is None else owner.index for owner, _ in clocks.owners)
        ctas = tuple(clocks.agents[first].cta.ctaid for first in range(0, len(clocks.agents), clocks.warps))
        self._exited[clocks.serial] = _Exited(ctas, clocks.warps, self._owners.setdefault(owners, owners))
        self._running.pop(clocks.serial, None)

    def owner(self, serial: int, slot: int) -> str | None:
        """The warp that a slot belongs to, for reports."""
        running = self._running.get(serial)
        if running is not None:
            agent, what = running.owners[slot]
            lane = f"lane {what[1]} of " if isinstance(what, tuple) and what[0] in _OF_A_LANE else ""
            return None if agent is None else lane + agent.describe()
        found = self.warp(serial, slot)
        if found is None:
            return None
        (x, y, z), warp = found
        return f"warp {warp} of CTA ({x}, {y}, {z})"

    def warp(self, serial: int, slot: int) -> tuple[tuple[int, int, int], int] | None:
        """The coordinates of the CTA, and the number, of the warp that a slot belongs to."""
        running = self._running.get(serial)
        if running is not None:
            agent, _ = running.owners[slot]
            return None if agent is None else (agent.cta.ctaid, agent.warp)
        exited = self._exited.get(serial)
        if exited is None or exited.owners[slot] < 0:
            return None
        index = exited.owners[slot]
        return exited.ctas[index // exited.warps], index % exited.warps

    def first_cta(self, serial: int) -> tuple[int, int, int]:
        """The CTA of rank 0 of a cluster, by its coordinates."""
        running = self._running.get(serial)
        found: tuple[int, int, int] = self._exited[serial].ctas[0] if running is None else running.agents[0].cta.ctaid
        return found

    def same_store(self, one: tuple[int, int], other: tuple[int, int]) -> bool:
        """Whether two bulk copies of a cluster that runs, by slot and clock, write the same to the same place."""
        running = self._running.get(one[0] >> CLUSTER_SHIFT)
        if running is None or one[0] >> CLUSTER_SHIFT != other[0] >> CLUSTER_SHIFT:
            return False
        first, second = (_digest_of(running, *each) for each in (one, other))
        return first is not None and first == second


def _digest_of(clocks: Clocks, slot: int, clock: int) -> int | None:
    """The digest of a bulk copy, None if it is not kept."""
    agent, what = clocks.owners[(slot & (1 << CLUSTER_SHIFT) - 1) // len(Component)]
    found = None if agent is None else agent.slots.get(what)
    return found.digest(clock) if isinstance(found, LaneSlot) else None


def waits_for_grid(program: Program) -> bool:
    """Whether a kernel may start before the grid before it is complete."""
    return any(isinstance(op.effects, GridWait) for op in program.ops)


@dataclass(frozen=True, slots=True)
class GridBefore:
    """A grid that lets its dependents start before it is complete: its instructions, and what it did to memory that is still there.

    ptxlab runs one launch after the other. A GPU may start a grid whose kernel executes griddepcontrol.wait as soon as all CTAs of the one
    before have executed griddepcontrol.launch_dependents, or exited. Only the wait orders the other grid before what follows, and makes its
    writes visible. So the accesses of a launch are kept, as those of slot 0 of cluster 0, for the next launch on the same device.
    """

    kernel: str
    ops: list[Op]
    cells: dict[Any, NDArray[np.uint64]]

    @classmethod
    def of(cls, launch: Launch, memory: Iterable[Object]) -> GridBefore | None:
        """The accesses of a complete launch, if dependent grids can start before it is complete."""
        if not launch.facts.of(lets_others_start):
            return None
        return cls(launch.program.name, launch.program.ops, {made.owner: made.cells for made in memory})

    def seed(self, made: Object) -> None:
        """Start the cells of watched memory with the accesses of the grid itself, as those of one agent."""
        cells = self.cells.get(made.owner)
        if cells is not None:
            cells = cells.copy()
            cells[cells[..., 0] >> np.uint64(32 + CLUSTER_SHIFT) == BEFORE] = 0
            cells[..., 0] = np.where(cells[..., 1] != 0, _BEFORE_ALL, 0)
            unused_last = np.argsort(cells[..., 1] == 0, axis=1, kind="stable")
            made.cells[...] = np.take_along_axis(cells, unused_last[..., None], axis=1)
