"""Groups of asynchronous copies and of wgmma operations: commit_group, and the waits that complete the groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from ptxlab.check.model import Component, Kind, Row
from ptxlab.check.race._recorder import AccessRecorder, Handler, Handlers
from ptxlab.check.race.clocks.clocks import Agent, Clocks, Rows, Slot, joined
from ptxlab.isa.context import AsyncOperation, MemoryAccess
from ptxlab.isa.effects import Asynchronous, CommitGroup, Completion, WaitGroup
from ptxlab.isa.operands import Const, Op

if TYPE_CHECKING:
    from ptxlab.machine.warp.warp import Warp

__all__ = ["CopyGroups", "WgmmaGroups", "group_handlers"]

_WARPS = 4
"""Of a warpgroup."""
_SHARES = "wgmma shares"
"""The slot in which a warp counts its own wgmma instructions and their groups."""


def _count(warp: Warp, op: Op) -> int:
    """The number of groups that a wait leaves pending."""
    operand = op.operands[0]
    return operand.value if isinstance(operand, Const) else warp.uniform(0)


def _is_grouped(what: Hashable, mask: int) -> bool:
    """Whether a slot numbers the bulk copies of one of these lanes: those that commit_group holds, or what other copies read.

    Kernels wait with wait_group.read until copies have read their tensor map before they change it, whatever completes the copies.
    """
    return isinstance(what, tuple) and what[0] in ("bulk group", "bulk reads") and bool(mask >> what[1] & 1)


def _complete_groups(clocks: Clocks, agent: Agent, slot: Slot, pending: int, components: Iterable[Component]) -> None:
    """All groups of a slot but the newest ones are complete."""
    complete = len(slot.groups) - pending
    if complete > 0:
        for component in components:
            clocks.advance(agent, slot, component, slot.groups[complete - 1])
        if Component.DONE in components:
            del slot.groups[: complete - 1]


class CopyGroups:
    """Groups of cp.async, one sequence for a warp, and of bulk copies, one for each lane."""

    def commit_copies(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        """cp.async.commit_group."""
        slot = clocks.own(agent, Completion.COPY_GROUP)
        slot.clock += 1
        slot.groups.append(slot.clock)

    def wait_copies(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        """cp.async.wait_group."""
        _complete_groups(clocks, agent, clocks.own(agent, Completion.COPY_GROUP), _count(warp, op), (Component.DONE,))

    def wait_all_copies(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        """cp.async.wait_all."""
        self.commit_copies(warp, clocks, agent, op)
        _complete_groups(clocks, agent, clocks.own(agent, Completion.COPY_GROUP), 0, (Component.DONE,))

    def commit_bulk(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        """cp.async.bulk.commit_group."""
        for what, slot in agent.slots.items():
            if _is_grouped(what, warp.mask):
                slot.groups.append(slot.clock)

    def wait_bulk(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        """cp.async.bulk.wait_group."""
        self._wait_bulk(warp, clocks, agent, op, tuple(Component))

    def wait_bulk_sources(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        """cp.async.bulk.wait_group.read."""
        self._wait_bulk(warp, clocks, agent, op, (Component.EARLY,))

    def _wait_bulk(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op, components: tuple[Component, ...]) -> None:
        pending = _count(warp, op)
        for what, slot in list(agent.slots.items()):
            if _is_grouped(what, warp.mask):
                _complete_groups(clocks, agent, slot, pending, components)


class WgmmaGroups:
    """Operations of warpgroups: each of the four warps executes its share, the operation follows all of them."""

    def __init__(self, recorder: AccessRecorder) -> None:
        self._recorder = recorder
        self._shares: dict[tuple[int, int, int], Rows] = {}
        """By CTA, warpgroup and number of the operation: the joined rows of the warps that have executed their shares."""

    def _slot(self, clocks: Clocks, warp: Warp) -> Slot:
        key = (Completion.WGMMA_GROUP, warp.cta.rank, warp.warp_id // _WARPS)
        found = clocks.shared.get(key)
        if found is None:
            first = clocks.agents[warp.cta.rank * clocks.warps + warp.warp_id // _WARPS * _WARPS]
            found = clocks.shared[key] = clocks.slot(first, Completion.WGMMA_GROUP)
        return found

    def share(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        """A warp has executed its share of an operation."""
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
        self._keep_progress(warp, clocks, slot.clock, rows)

    def _keep_progress(self, warp: Warp, clocks: Clocks, number: int, rows: Rows) -> None:
        """Keep how far the four warps had come at their shares; of a group's operations only the last is needed."""
        first = warp.cta.rank * clocks.warps + warp.warp_id // _WARPS * _WARPS
        counts = [clocks.own(agent, _SHARES) for agent in clocks.agents[first : first + _WARPS]]
        progress = clocks.progress.setdefault((warp.cta.rank, warp.warp_id // _WARPS), {})
        if not any(number - 1 in count.groups for count in counts):
            progress.pop(number - 1, None)
        progress[number] = rows[Row.EXECUTION].copy()
        waited = min(count.groups[0] if count.groups else 0 for count in counts)
        for old in [at for at in progress if at < waited]:
            del progress[old]

    def commit(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        """wgmma.commit_group."""
        slot = clocks.own(agent, _SHARES)
        slot.groups.append(slot.clock)

    def wait(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        """wgmma.wait_group."""
        counted = clocks.own(agent, _SHARES)
        complete = len(counted.groups) - _count(warp, op)
        if complete > 0:
            number = counted.groups[complete - 1]
            clocks.advance(agent, self._slot(clocks, warp), Component.DONE, number)
            self._acquire_progress(warp, clocks, agent, number)
            del counted.groups[: complete - 1]

    def _acquire_progress(self, warp: Warp, clocks: Clocks, agent: Agent, number: int) -> None:
        """A complete operation implies that each warp of the warpgroup has reached its share; it does not release their accesses."""
        reached = clocks.progress.get((warp.cta.rank, warp.warp_id // _WARPS), {}).get(number)
        if reached is not None:
            row = agent.rows[Row.EXECUTION]
            for other in clocks.agents:
                at = other.main.number + Component.EARLY
                if at < len(reached):
                    row[at] = max(row[at], reached[at])


def group_handlers(copies: CopyGroups, wgmma: WgmmaGroups) -> Handlers:
    """The handlers of commits and waits, by what they are of."""
    commits: dict[Completion, Handler] = {
        Completion.COPY_GROUP: copies.commit_copies,
        Completion.BULK_GROUP: copies.commit_bulk,
        Completion.WGMMA_GROUP: wgmma.commit,
    }
    waits: dict[tuple[Completion, bool, bool], Handler] = {
        (Completion.COPY_GROUP, False, False): copies.wait_copies,
        (Completion.COPY_GROUP, False, True): copies.wait_all_copies,
        (Completion.BULK_GROUP, False, False): copies.wait_bulk,
        (Completion.BULK_GROUP, True, False): copies.wait_bulk_sources,
        (Completion.WGMMA_GROUP, False, False): wgmma.wait,
    }

    def asynchronous(effect: Asynchronous) -> Handler | None:
        return wgmma.share if effect.completion is Completion.WGMMA_GROUP else None

    return {
        Asynchronous: asynchronous,
        CommitGroup: lambda effect: commits[effect.of],
        WaitGroup: lambda effect: waits[effect.of, effect.sources, effect.everything],
    }
