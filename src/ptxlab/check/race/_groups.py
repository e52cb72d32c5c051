"""Groups of asynchronous copies and of wgmma operations: commit_group, and the waits that complete the groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import field
from typing import TYPE_CHECKING

from ptxlab._records import dataclass
from ptxlab.check.model import Component, Kind, Row
from ptxlab.check.race._recorder import AccessRecorder, Handler, Handlers
from ptxlab.check.race.clocks.clocks import Agent, Clocks
from ptxlab.check.race.clocks.rows import Rows, joined
from ptxlab.check.race.clocks.slots import CopySlot, Slot
from ptxlab.isa.context import AsyncOperation, MemoryAccess
from ptxlab.isa.effects import Asynchronous, CommitGroup, Completion, WaitGroup
from ptxlab.isa.operands import Const, Op

if TYPE_CHECKING:
    from ptxlab.machine.warp.warp import Warp

__all__ = ["WgmmaGroups", "group_handlers"]

_WARPS = 4
"""Of a warpgroup."""
_DONE = (Component.DONE,)
_SHARES = "wgmma shares"
"""The slot in which a warp counts its own wgmma instructions and their groups."""


def _count(warp: Warp, op: Op) -> int:
    """The number of groups that a wait leaves pending, without a sign."""
    operand = op.operands[0]
    return operand.value & 0xFFFFFFFF if isinstance(operand, Const) else warp.uniform(0)


def _is_grouped(what: Hashable, mask: int) -> bool:
    """Whether a slot numbers the bulk copies of one of these lanes: those that commit_group holds, or what other copies read.

    Kernels wait with wait_group.read until copies have read their tensor map before they change it, whatever completes the copies.
    """
    return isinstance(what, tuple) and what[0] in ("bulk group", "bulk reads") and bool(mask >> what[1] & 1)


def _complete_groups(clocks: Clocks, agent: Agent, slot: Slot, pending: int, components: Iterable[Component]) -> None:
    """All groups of a slot are complete, except the ``pending`` newest ones."""
    complete = len(slot.groups) - pending
    if complete > 0:
        for component in components:
            clocks.advance(agent, slot, component, slot.groups[complete - 1])
        if Component.DONE in components:
            del slot.groups[: complete - 1]


def _commit_bulk(warp: Warp, op: Op) -> None:
    """cp.async.bulk.commit_group: one sequence of groups for each lane."""
    _, agent = warp.state["race"]
    for what, slot in agent.slots.items():
        if _is_grouped(what, warp.mask):
            slot.groups.append(slot.clock)


def _wait_bulk(warp: Warp, op: Op) -> None:
    """cp.async.bulk.wait_group, or with ``.read``: only until the sources have been read."""
    assert isinstance(op.effects, WaitGroup)
    clocks, agent = warp.state["race"]
    pending, components = _count(warp, op), [Component.EARLY] if op.effects.sources else Component
    for what, slot in agent.slots.items():
        if _is_grouped(what, warp.mask):
            _complete_groups(clocks, agent, slot, pending, components)


def _copies(warp: Warp) -> tuple[Clocks, Agent, CopySlot]:
    """The slot of a warp's cp.async, which has one sequence of groups."""
    clocks, agent = warp.state["race"]
    return clocks, agent, clocks.copies(agent)


def _commit_copies(warp: Warp, op: Op) -> None:
    """cp.async.commit_group."""
    _copies(warp)[2].commit()


def _wait_copies(warp: Warp, op: Op) -> None:
    """cp.async.wait_group."""
    _complete_groups(*_copies(warp), _count(warp, op), _DONE)


def _wait_all_copies(warp: Warp, op: Op) -> None:
    """cp.async.wait_all."""
    _commit_copies(warp, op)
    _complete_groups(*_copies(warp), 0, _DONE)


@dataclass(slots=True, eq=False)
class WgmmaGroups:
    """Operations of warpgroups: each of the four warps executes its share, the operation follows all of them."""

    _recorder: AccessRecorder
    _shares: dict[tuple[int, int, int], Rows] = field(default_factory=dict)
    """By CTA, warpgroup and number of the operation: the joined rows of the warps that have executed their shares."""

    def _slot(self, clocks: Clocks, warp: Warp) -> Slot:
        key = (Completion.WGMMA_GROUP, warp.cta.rank, warp.warp_id // _WARPS)
        found = clocks.shared.get(key)
        if found is None:
            first = clocks.agents[warp.cta.rank * clocks.warps + warp.warp_id // _WARPS * _WARPS]
            found = clocks.shared[key] = clocks.slot(first, Completion.WGMMA_GROUP)
        return found

    def share(self, warp: Warp, op: Op) -> None:
        """A warp has executed its share of an operation."""
        clocks, agent = warp.state["race"]
        counted = clocks.own(agent, _SHARES)
        counted.clock += 1
        if counted.clock > self._slot(clocks, warp).clock:
            key = (id(warp.cta), warp.warp_id // _WARPS, counted.clock)
            self._shares[key] = joined(self._shares.get(key), agent.rows)

    def issue(self, warp: Warp, clocks: Clocks, agent: Agent, operation: AsyncOperation, accesses: tuple[MemoryAccess, ...]) -> None:
        """The last share issues the operation."""
        slot = self._slot(clocks, warp)
        slot.clock += 1
        slot.op = operation.op
        rows = joined(self._shares.pop((id(warp.cta), warp.warp_id // _WARPS, slot.clock), None), agent.rows)
        self._recorder.record(clocks, agent, slot, Kind.WGMMA, operation.op, accesses, rows)
        # Keep the clocks of the four warps at their shares of the operation; only the last operation of a group is needed.
        first = warp.cta.rank * clocks.warps + warp.warp_id // _WARPS * _WARPS
        counts = [clocks.own(agent, _SHARES) for agent in clocks.agents[first : first + _WARPS]]
        progress = clocks.progress.setdefault((warp.cta.rank, warp.warp_id // _WARPS), {})
        if not any(slot.clock - 1 in count.groups for count in counts):
            progress.pop(slot.clock - 1, None)
        progress[slot.clock] = rows[Row.EXECUTION].copy()
        waited = min(count.groups[0] if count.groups else 0 for count in counts)
        for old in [at for at in progress if at < waited]:
            del progress[old]

    def commit(self, warp: Warp, op: Op) -> None:
        """wgmma.commit_group."""
        clocks, agent = warp.state["race"]
        slot = clocks.own(agent, _SHARES)
        slot.groups.append(slot.clock)

    def wait(self, warp: Warp, op: Op) -> None:
        """wgmma.wait_group."""
        clocks, agent = warp.state["race"]
        counted = clocks.own(agent, _SHARES)
        complete = len(counted.groups) - _count(warp, op)
        if complete > 0:
            number = counted.groups[complete - 1]
            clocks.advance(agent, self._slot(clocks, warp), Component.DONE, number)
            self._acquire_progress(warp, clocks, agent, number)
            del counted.groups[: complete - 1]

    def _acquire_progress(self, warp: Warp, clocks: Clocks, agent: Agent, number: int) -> None:
        """A complete operation implies that each warp of the warpgroup has executed its share; it does not release their accesses."""
        reached = clocks.progress.get((warp.cta.rank, warp.warp_id // _WARPS), {}).get(number)
        if reached is not None:
            row = agent.rows[Row.EXECUTION]
            for other in clocks.agents:
                at = other.main.number + Component.EARLY
                if at < len(reached):
                    row[at] = max(row[at], reached[at])


def group_handlers(wgmma: WgmmaGroups) -> Handlers:
    """The handlers of commits and waits, by what completes the operations."""
    of_copies, bulk = Completion.COPY_GROUP, Completion.BULK_GROUP
    commits: dict[Completion, Handler] = {of_copies: _commit_copies, bulk: _commit_bulk, Completion.WGMMA_GROUP: wgmma.commit}
    waits: dict[Completion, Handler] = {of_copies: _wait_copies, bulk: _wait_bulk, Completion.WGMMA_GROUP: wgmma.wait}
    return {
        Asynchronous: lambda effect: wgmma.share if effect.completion is Completion.WGMMA_GROUP else None,
        CommitGroup: lambda effect: commits[effect.of],
        WaitGroup: lambda effect: _wait_all_copies if effect.everything else waits[effect.of],
    }
