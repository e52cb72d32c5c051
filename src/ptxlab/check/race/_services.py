"""What complete service instructions tell: waits, groups of copies and of wgmma, tensor memory that is granted and given back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING

from ptxlab.check.model import Component, Kind, Row
from ptxlab.check.race._accesses import Rows
from ptxlab.check.race._barriers import Barriers
from ptxlab.check.race.clocks.clocks import Agent, BarrierClock, Clocks, Slot, joined
from ptxlab.check.race.shadow.shadow import Object, Shadow
from ptxlab.isa.context import MemoryAccess
from ptxlab.isa.operands import Const, Op

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Services"]


class Services(Barriers):
    """See the module."""

    def __init__(self, launch: Launch, shadow: type[Shadow]) -> None:
        super().__init__(launch, shadow)
        self._tensors: dict[int, Object] = {}
        self._granted: dict[int, set[tuple[int, int]]] = {}
        self._granter: dict[int, tuple[Slot, int]] = {}
        self._shares: dict[tuple[int, int, int], Rows] = {}

    def retire_hook(self, op: Op) -> Callable[[Warp, Op], None] | None:
        """Move the warp's clock as a complete service instruction says; most say nothing."""
        act = self._service_of(op)
        if act is None:
            return None

        def heard(warp: Warp, op: Op) -> None:
            clocks, agent = warp.state["race"]
            act(warp, clocks, agent, op)

        return heard

    def _service_of(self, op: Op) -> Callable[[Warp, Clocks, Agent, Op], None] | None:
        if op.row.kind != "service":
            return None
        name = op.opcode
        for prefix, act in (
            ("bar.arrive", None),
            ("bar.cta.arrive", None),
            ("barrier.arrive", None),
            ("barrier.cta.arrive", None),
            ("barrier.cluster.arrive", None),
            ("barrier.cluster.wait", self._cluster_wait),
            ("bar", self._barrier),
            ("cp.async.commit_group", self._commit_copies),
            ("cp.async.wait", self._wait_copies),
            ("cp.async.bulk.commit_group", self._commit_bulk),
            ("cp.async.bulk.wait_group", self._wait_bulk),
            ("wgmma.mma_async", self._wgmma),
            ("wgmma.commit_group", self._commit_wgmma),
            ("wgmma.wait_group", self._wait_wgmma),
            ("tcgen05.alloc", self._alloc),
            ("tcgen05.dealloc", self._dealloc),
        ):
            if name.startswith(prefix):
                return act
        return None

    def _barrier(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        if agent.barrier is not None:
            self._learn(clocks, agent, agent.barrier.clock)

    def _cluster_wait(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        barrier_clock: BarrierClock = warp.cta.group.barrier.clock
        self._learn(clocks, agent, barrier_clock)
        if barrier_clock.met is not None:
            clocks.met[agent.cta.rank] = joined(clocks.met.get(agent.cta.rank), barrier_clock.met)

    def _commit_copies(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        slot = clocks.own(agent, "cp.async")
        slot.clock += 1
        slot.groups.append(slot.clock)

    def _wait_copies(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        slot = clocks.own(agent, "cp.async")
        if op.opcode.startswith("cp.async.wait_all"):
            slot.clock += 1
            slot.groups.append(slot.clock)
            left = 0
        else:
            left = _count(warp, op)
        self._wait_groups(clocks, agent, slot, left, (Component.DONE,))

    def _wait_groups(self, clocks: Clocks, agent: Agent, slot: Slot, left: int, components: Iterable[Component]) -> None:
        complete = len(slot.groups) - left
        if complete > 0:
            for component in components:
                clocks.know(agent, slot, component, slot.groups[complete - 1])
            if Component.DONE in components:
                del slot.groups[: complete - 1]

    def _commit_bulk(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        for what, slot in agent.slots.items():
            if _in_groups(what, warp.mask):
                slot.groups.append(slot.clock)

    def _wait_bulk(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        left = _count(warp, op)
        components = (Component.EARLY,) if op.opcode.endswith(".read") else tuple(Component)
        for what, slot in list(agent.slots.items()):
            if _in_groups(what, warp.mask):
                self._wait_groups(clocks, agent, slot, left, components)

    def _wgmma_slot(self, clocks: Clocks, warp: Warp) -> Slot:
        key = ("wgmma", warp.cta.rank, warp.warp_id // 4)
        found = clocks.shared.get(key)
        if found is None:
            found = clocks.shared[key] = clocks.slot(clocks.agents[warp.cta.rank * clocks.warps + warp.warp_id // 4 * 4], "wgmma")
        return found

    def _wgmma(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        """A warp's share: the operation follows what each of the four warps knew at theirs."""
        counted = clocks.own(agent, "wgmma count")
        counted.clock += 1
        if counted.clock > self._wgmma_slot(clocks, warp).clock:
            key = (id(warp.cta), warp.warp_id // 4, counted.clock)
            self._shares[key] = joined(self._shares.get(key), clocks.of(agent))

    def _perform_wgmma(self, warp: Warp, clocks: Clocks, number: int, rows: Rows) -> None:
        """Note what the four warps have come past at their shares; of a group's operations the last stays."""
        first = warp.cta.rank * clocks.warps + warp.warp_id // 4 * 4
        counts = [clocks.own(agent, "wgmma count") for agent in clocks.agents[first : first + 4]]
        passed = clocks.passed.setdefault((warp.cta.rank, warp.warp_id // 4), {})
        if not any(number - 1 in count.groups for count in counts):
            passed.pop(number - 1, None)
        passed[number] = rows[Row.EXECUTION].copy()
        waited = min(count.groups[0] if count.groups else 0 for count in counts)
        for old in [at for at in passed if at < waited]:
            del passed[old]

    def _commit_wgmma(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        slot = clocks.own(agent, "wgmma count")
        slot.groups.append(slot.clock)

    def _wait_wgmma(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        counted = clocks.own(agent, "wgmma count")
        complete = len(counted.groups) - _count(warp, op)
        if complete > 0:
            number = counted.groups[complete - 1]
            clocks.know(agent, self._wgmma_slot(clocks, warp), Component.DONE, number)
            self._know_passed(warp, clocks, agent, number)
            del counted.groups[: complete - 1]

    def _know_passed(self, warp: Warp, clocks: Clocks, agent: Agent, number: int) -> None:
        """Complete operations tell that every warp of the warpgroup has come to its share: not that others may rely on its accesses."""
        known = clocks.passed.get((warp.cta.rank, warp.warp_id // 4), {}).get(number)
        if known is not None:
            row = clocks.of(agent)[Row.EXECUTION]
            for other in clocks.agents:
                at = other.main.number + Component.EARLY
                if at < len(known):
                    row[at] = max(row[at], known[at])

    def _alloc(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        """Fresh columns are nobody's: section "Tensor Memory Allocation and Management Instructions".

        A pair of CTAs allocates together: the first warp that goes on has both CTAs' columns, and the other one knows of it.
        """
        cta = warp.cta
        slot = clocks.own(agent, Kind.ALLOC)
        for owner in (cta, cta.peer) if "cta_group::2" in op.opcode and cta.peer is not None else (cta,):
            if id(owner) not in self._granted:
                continue  # the peer has allocated, freed and ended before this warp goes on
            now = set(owner.tensor.allocations_of(owner))
            watched = self._tensors[id(owner.tensor)]
            for column, columns in now - self._granted[id(owner)]:
                granules = slice(4 * column, 4 * (column + columns))
                self.shadow.clear(watched, granules)
                self._whole_columns(owner, clocks, agent, op, column, columns)
                if watched.written is not None:
                    watched.written[granules] = 0
                self._granter[id(owner)] = slot, slot.clock
            self._granted[id(owner)] = now
        granter, at = self._granter[id(cta)]
        clocks.know(agent, granter, Component.DONE, at)
        address = warp.uniform_address(0)
        target, offset = self.launch.shared_at(warp, address)
        written = MemoryAccess.of(target.shared[offset : offset + 4], True)
        self._record_accesses(clocks, agent, clocks.own(agent, Kind.ALLOC), Kind.ALLOC, op, (written,))

    def _dealloc(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op) -> None:
        cta = warp.cta
        now = set(cta.tensor.allocations_of(cta))
        if agent.loads:
            self._consume(clocks, agent, op.index)
        for column, columns in self._granted[id(cta)] - now:
            self._whole_columns(cta, clocks, agent, op, column, columns)
        self._granted[id(cta)] = now
        self._judge(clocks, agent)

    def _whole_columns(self, cta: CtaState, clocks: Clocks, agent: Agent, op: Op, column: int, columns: int) -> None:
        slot = clocks.own(agent, Kind.ALLOC)
        slot.clock += 1
        clocks.know(agent, slot, Component.DONE, slot.clock)
        self._record_accesses(clocks, agent, slot, Kind.ALLOC, op, (MemoryAccess.of(cta.tensor.words[column : column + columns], True),))


def _count(warp: Warp, op: Op) -> int:
    """The number of groups that a wait leaves pending."""
    operand = op.operands[0]
    return operand.value if isinstance(operand, Const) else warp.uniform(0)


def _in_groups(what: Hashable, mask: int) -> bool:
    """Whether a slot numbers the bulk copies of one of these lanes: those that commit_group tracks, or what other copies read.

    Kernels wait with wait_group.read until copies have read their tensor map before they change it, whatever completes the copies.
    """
    return isinstance(what, tuple) and what[0] in ("bulk group", "bulk reads") and bool(mask >> what[1] & 1)
