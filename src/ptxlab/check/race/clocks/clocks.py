"""Vector clocks of the warps of a cluster: rows of clocks, and how synchronisation joins them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.check.model import Component, Row
from ptxlab.check.race.clocks.cluster_clock import ClusterClock
from ptxlab.check.race.clocks.joins import CtaJoin, JoinWord, join_warps_function
from ptxlab.check.race.clocks.rows import Rows, join, joined
from ptxlab.check.race.clocks.slots import BulkSlot, CopySlot, LaneSlot, MainSlot, PipeSlot, Slot
from ptxlab.check.race.clocks.warpgroup_clock import WarpgroupClock
from ptxlab.check.race.shadow.shadow_words import AGENT_HEADER, CLUSTER_SHIFT, AgentWord, BulkWord, PipeWord
from ptxlab.engine.turns.words import BarrierCell, ClusterCell
from ptxlab.isa.effects import Completion, ProxyFence, Scope, Space
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.check.race.clocks.mbarrier_clock import MbarrierClock

__all__ = ["Agent", "Clocks"]

_SMALLEST_WIDTH = 64
_OTHER_SLOTS = 16
"""Slots that fit into the rows besides those that each warp has from its start. When a slot does not fit, all rows become wider."""
_LANES = 32
_MAPS = "tensor maps"


@dataclass(slots=True, eq=False)
class Agent:
    """A warp: its clock, its slots by what they number, and the operations that it has not waited for."""

    index: int
    cta: Any
    warp: int
    main: MainSlot
    words: memoryview
    """What compiled code knows of the warp (`AgentWord`)."""
    words_address: int
    slots: dict[Hashable, Slot] = field(default_factory=dict)
    barrier: Any = None
    """The barrier at which the warp has last arrived."""
    fenced: dict[int, Rows] = field(default_factory=dict)
    """By scope: the rows at its last releasing fence, which its relaxed writes and arrivals release (`fence`)."""
    observed: dict[tuple[int, int], Rows] = field(default_factory=dict)
    """By scope and cluster: rows that relaxed reads and waits have observed, for the next acquiring fence."""
    foreign: dict[int, Rows] = field(default_factory=dict)
    """By other clusters: what the warp has acquired of them."""
    pipes: dict[int, PipeSlot] = field(default_factory=dict)
    """By lane: the slot of its operations on tensor memory, made on first use (`Clocks.pipe`)."""
    pipe_words: Any = None
    """The words of these slots (`PipeWord`)."""
    bulk: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    """By `AgentWord.BULK_READS` and `AgentWord.BULK_GROUPS` what these words are the addresses of (`BulkWord`)."""
    copies: CopySlot | None = None
    """The slot of its cp.async, made on first use (`Clocks.copies`)."""
    loads: list[tuple[int, int]] = field(default_factory=list)
    """tcgen05.ld whose registers may not have been read: op index and clock. Compiled code holds newer ones (`TransferWord.LOADS`)."""
    read: int = 0
    """Registers of these loads that have been read on the path that was executed (`ptxlab.machine.warp.consumption.Consumption`)."""
    transfers: Any = None
    """The words of its transfers between registers and tensor memory (`TransferWord`), if the program has any."""
    rows: Rows = field(default_factory=lambda: np.zeros((0, 0), np.uint32))
    address: int = 0
    """Of the rows, in host memory."""
    header: bytes = b""
    """What tells compiled code that the warp runs (`AGENT_HEADER`); another object when the rows are replaced."""
    execution: Any = None
    tensor: Any = None
    """Two of the rows, number by number."""
    shared: Rows = field(default_factory=lambda: np.zeros((0, 0), np.uint32))
    """The rows that synchronisation objects carry."""

    def fence(self, scope: Scope, rows: Rows) -> None:
        """Let relaxed writes and arrivals release these rows within a scope."""
        self.fenced[scope] = rows
        if scope is Scope.CLUSTER:
            self.words[AgentWord.FENCED], self.words[AgentWord.FENCED_WIDTH] = address_of(rows), rows.shape[1]

    def describe(self) -> str:
        """The warp's name in reports."""
        return f"warp {self.warp} of CTA {self.cta.describe()}"


class Clocks:
    """The clocks of one cluster.

    Parameters
    ----------
    slots : how many slots each warp has from its start
    ends : the size of the rings of groups of bulk copies (`BulkWord.ENDS_SIZE`)

    Attributes
    ----------
    rows : uint32[warp, row, slot component]
    agents : the warps, by rank * warps of a CTA + warp

    Examples
    --------
    >>> clocks = Clocks(1, (None,), 2, "practice")
    >>> clocks.agents[0].rows[1, 5], clocks.agents[1].rows[1, 6] = 7, 8
    >>> clocks.join_cta(0)[1, 4:8].tolist(), clocks.agents[0].rows[1, 4:8].tolist()
    ([0, 7, 8, 0], [0, 7, 8, 0])
    """

    def __init__(self, serial: int, ctas: tuple[Any, ...], warps: int, model: str, slots: int = 1, ends: int = 2) -> None:
        self.serial = serial
        self.spec = model == "spec"
        self._ends = ends
        self._carried = slice(Row.ASYNC_RELEASED + 1 if self.spec else Row.TENSOR + 1)
        """The rows that synchronisation objects carry."""
        agents = len(ctas) * warps
        columns = len(Component) * (agents * slots + _OTHER_SLOTS)
        width = max(1 << (columns - 1).bit_length(), _SMALLEST_WIDTH)
        self.rows: NDArray[np.uint32] = np.zeros((agents, len(Row), width), np.uint32)
        self.owners: list[tuple[Agent | None, Hashable]] = []
        self.before = self.slot(None, "the grid before")
        self.agents: list[Agent] = []
        self.cluster_barrier: ClusterClock | None = None
        """That of the barrier of the cluster, made on first use (`cluster_clock`)."""
        self.warpgroups: dict[tuple[int, int], WarpgroupClock] = {}
        """By rank and number those that execute wgmma.mma_async (`WarpgroupClock.of`)."""
        self.maps: list[int] = []
        """The slots that number changes of tensor maps."""
        self.warps = warps
        self._join_warps = join_warps_function()
        self._joins: dict[int, CtaJoin] = {}
        self._mbarriers: dict[int, NDArray[np.uint64]] = {}
        """By rank."""
        self._mbarrier_tables: NDArray[np.uint64] = np.zeros(len(ctas), np.uint64)
        """Their addresses."""
        self._mbarrier_clocks: dict[tuple[int, int], MbarrierClock] = {}
        """By rank and offset."""
        self._words: NDArray[np.int64] = np.zeros((len(self.rows), AgentWord.END), np.int64)
        for cta in ctas:
            for warp in range(warps):
                words = self._words[len(self.agents)]
                agent = Agent(len(self.agents), cta, warp, MainSlot(*self._number(None, "main")), words.data, address_of(words))
                self.owners[-1] = agent, "main"
                self.agents.append(agent)
                agent.words[AgentWord.CLUSTER_MBARRIERS] = address_of(self._mbarrier_tables)
                self._place(agent)
                self.tick(agent)

    def _place(self, agent: Agent) -> None:
        agent.rows = self.rows[agent.index]
        agent.address = address_of(agent.rows)
        header = agent.address, agent.rows.shape[1], self.serial, agent.main.name, agent.words_address
        agent.header = AGENT_HEADER.pack(*header)
        for at, word in enumerate(header):
            agent.words[AgentWord.HEADER + at] = word
        agent.shared = agent.rows[self._carried]
        agent.execution, agent.tensor = (agent.rows[row].data for row in (Row.EXECUTION, Row.TENSOR))
        agent.main.row = agent.execution
        if agent.copies is not None:
            agent.copies.row = agent.execution

    def slot(self, agent: Agent | None, what: Hashable) -> Slot:
        """A new slot."""
        return Slot(*self._number(agent, what))

    def _number(self, agent: Agent | None, what: Hashable) -> tuple[int, int]:
        """The number and the name of a new slot."""
        number = 2 * len(self.owners)
        self.owners.append((agent, what))
        if number + 2 > self.rows.shape[2]:
            wider = np.zeros((*self.rows.shape[:2], 2 * self.rows.shape[2]), np.uint32)
            wider[..., : self.rows.shape[2]] = self.rows
            self.rows = wider
            for each in self.agents:
                self._place(each)
            if self.cluster_barrier is not None:
                self.cluster_barrier.widen(wider.shape[2])
            for clock in self._mbarrier_clocks.values():
                clock.widen(wider.shape[2])
            self._joins.clear()
        return number, self.serial << CLUSTER_SHIFT | number

    def own(self, agent: Agent, what: Hashable) -> Slot:
        """A warp's slot for something, made on first use."""
        found = agent.slots.get(what)
        if found is None:
            found = agent.slots[what] = self.slot(agent, what)
        return found

    def copies(self, agent: Agent) -> CopySlot:
        """The slot of a warp's cp.async, made on first use."""
        found = agent.copies
        if found is None:
            number, name = self._number(agent, Completion.COPY_GROUP)
            found = agent.copies = agent.slots[Completion.COPY_GROUP] = CopySlot(number, name, agent.words, agent.execution)
        return found

    def pipe(self, agent: Agent, lane: int) -> PipeSlot:
        """The slot of a lane's operations on tensor memory, made on first use."""
        found = agent.pipes.get(lane)
        if found is None:
            if agent.pipe_words is None:
                agent.pipe_words = np.zeros((_LANES, PipeWord.END), np.int64)
                agent.words[AgentWord.PIPES] = address_of(agent.pipe_words)
            what = Completion.COMMIT, lane
            found = agent.pipes[lane] = agent.slots[what] = PipeSlot(*self._number(agent, what), agent.pipe_words[lane].data)
        return found

    def bulk_reads(self, agent: Agent, lane: int, ops: Sequence[Any]) -> LaneSlot:
        """The slot of what a lane's bulk copies read that mbarriers report, made on first use."""
        return self._of_lane(agent, "bulk reads", lane, AgentWord.BULK_READS, ops)

    def bulk_group(self, agent: Agent, lane: int, ops: Sequence[Any]) -> LaneSlot:
        """The slot of a lane's bulk copies that are in groups, made on first use."""
        return self._of_lane(agent, "bulk group", lane, AgentWord.BULK_GROUPS, ops)

    def _of_lane(self, agent: Agent, what: str, lane: int, word: AgentWord, ops: Sequence[Any]) -> LaneSlot:
        found = agent.slots.get((what, lane))
        if found is None:
            table = agent.bulk.get(word)
            if table is None:
                table = agent.bulk[word] = np.zeros((_LANES, BulkWord.END), np.int64)
                agent.words[word] = address_of(table)
            made = LaneSlot(*self._number(agent, (what, lane)), table[lane], ops, self._ends, word is AgentWord.BULK_GROUPS)
            found = agent.slots[what, lane] = made
        assert isinstance(found, LaneSlot)
        return found

    def bulk(self, agent: Agent, barrier: Any, ops: Sequence[Any]) -> BulkSlot:
        """The slot of a warp's bulk copies that an mbarrier reports, made on first use."""
        what = "bulk", barrier.rank, barrier.offset
        found = agent.slots.get(what)
        if found is None:
            found = agent.slots[what] = BulkSlot(*self._number(agent, what), np.zeros(BulkWord.END, np.int64), ops)
        assert isinstance(found, BulkSlot)
        return found

    # --------------------------------------------------------------------------------------------------- release and acquire

    def join_cta(self, rank: int, into: Rows | None = None) -> Rows:
        """Raise the carried clocks of all warps of a CTA to their componentwise maximum, which is returned, and `tick` each.

        ``into``: rows that nobody reads any more, which may take the maximum.
        """
        cta = self._joins.get(rank) or self._join_of(rank)
        made = cta.known
        if made is not into:
            made = cta.known = into if into is not None and into.shape == made.shape else np.empty(made.shape, np.uint32)
            cta.about[JoinWord.KNOWN] = address_of(made)
        self._join_warps(cta.address)
        return made

    def _join_of(self, rank: int) -> CtaJoin:
        join = self._joins[rank] = CtaJoin.new()
        first, about = self.agents[rank * self.warps], join.about
        size, shared = first.rows.itemsize, first.shared
        about[JoinWord.ROWS], about[JoinWord.WARPS], about[JoinWord.STRIDE] = first.address, self.warps, first.rows.nbytes
        about[JoinWord.COUNT], about[JoinWord.OWN] = shared.size, size * first.main.number
        about[JoinWord.TENSOR] = size * self.rows.shape[2] * Row.TENSOR
        join.known = np.empty(shared.shape, np.uint32)
        about[JoinWord.KNOWN] = address_of(join.known)
        return join

    def cluster_clock(self) -> ClusterClock:
        """The clock of the barrier of the cluster, made on first use."""
        if self.cluster_barrier is None:
            self.cluster_barrier = ClusterClock(len(self.agents[0].shared), len(self.agents) // self.warps, self.rows.shape[2])
        return self.cluster_barrier

    def tick(self, agent: Agent) -> None:
        """Advance the warp's clock: what was released before does not cover the accesses that follow."""
        number, row = agent.main.number, agent.execution
        clock = row[number] + 1
        # The early component counts program order alone: what the warp has executed, even if other warps may not rely on its accesses.
        row[number] = row[number + 1] = agent.tensor[number + 1] = clock  # relaxed arrivals carry the row of tcgen05 alone

    def advance(self, agent: Agent, slot: Slot, component: Component, clock: int) -> None:
        """Order a slot's accesses up to a clock before what the warp does next."""
        at, execution, tensor = slot.number + component, agent.execution, agent.tensor
        if execution[at] < clock:
            execution[at] = clock
        if tensor[at] < clock:
            tensor[at] = clock

    def released_rows(self, agent: Agent) -> Rows:
        """What a release of the warp carries; a view that is not to be kept."""
        if not self.spec:
            return agent.shared
        made = agent.shared.copy()
        made[Row.TENSOR] = agent.rows[Row.RELEASED]
        return made

    def acquire(self, agent: Agent, rows: Rows) -> None:
        """Join what a release of this cluster carried."""
        if not self.spec:
            own = agent.shared
            if own.size == rows.size:
                np.maximum(own, rows, out=own)
            else:
                join(own, rows)
            return
        own = agent.rows
        join(own[: Row.TENSOR], rows[: Row.TENSOR])
        join(own[Row.ASYNC_RELEASED], rows[Row.ASYNC_RELEASED])
        # Execution ordering is transitive: releasing again what was acquired needs no fences of its own.
        for row in (Row.ACQUIRED, Row.RELEASED):
            join(own[row], rows[Row.TENSOR])

    def acquire_from(self, agent: Agent, serial: int, rows: Rows) -> None:
        """Join what a release carried of some cluster."""
        if serial == self.serial:
            self.acquire(agent, rows)
            return
        join(agent.shared[:, : self.before.number + 2], rows[:, : self.before.number + 2])
        known = agent.foreign.get(serial)
        if known is None:
            for cta in {each.cta for each in self.agents}:
                cta.memory.barriers[BarrierCell.COMPLETES] = 0  # arrivals release these, too
                cta.group.barrier.cells[ClusterCell.COMPLETES] = 0
            agent.words[AgentWord.CLUSTER_MBARRIERS] = 0
        if known is None or known.shape[1] < rows.shape[1]:
            agent.foreign[serial] = joined(known, rows)
        else:
            join(known, rows)

    # ------------------------------------------------------------------------------------------------------ mbarrier objects

    def share_mbarrier(self, rank: int, offset: int, clock: MbarrierClock) -> None:
        """Let compiled code find the words of an mbarrier object in a table, by its place in shared memory."""
        table = self._mbarriers.get(rank)
        if table is None:
            agents = self.agents[rank * self.warps : (rank + 1) * self.warps]
            table = self._mbarriers[rank] = np.zeros(len(agents[0].cta.shared) >> 3, np.uint64)
            self._mbarrier_tables[rank] = address_of(table)
            for agent in agents:
                agent.words[AgentWord.MBARRIERS] = address_of(table)
        table[offset >> 3] = clock.address
        self._mbarrier_clocks[rank, offset] = clock

    # ----------------------------------------------------------------------------------------------------------- fences

    def grid_wait(self, agent: Agent) -> None:
        """griddepcontrol.wait: the grid before is complete, and visible to all proxies."""
        agent.rows[:, self.before.number : self.before.number + 2] = 1

    def proxy_fence(self, agent: Agent, fence: ProxyFence) -> None:
        """fence.proxy.async: section "Shared Memory Accesses". Compiled code does the same for both directions (`event_replay_ir`).

        In practice a fence for one direction is enough; under spec a fence that acquires needs one that has released before.
        """
        known = agent.rows[Row.EXECUTION]
        if self.spec and not fence.acquires:
            join(agent.rows[Row.ASYNC_RELEASED], known)
        else:
            if self.spec and not fence.releases:
                known = agent.rows[Row.ASYNC_RELEASED]
            for space, row in ((Space.SHARED, Row.ASYNC_SHARED), (Space.GLOBAL, Row.ASYNC_GLOBAL)):
                if space in fence.spaces:
                    join(agent.rows[row], known)
        self.tick(agent)

    def change_map(self, agent: Agent, releases: bool) -> Slot:
        """The slot of a warp's next change of a tensor map; ``releases``: the instruction releases it as well."""
        slot = self.own(agent, _MAPS)
        if not slot.clock:
            self.maps.append(slot.number)
        slot.clock += 1
        self.advance(agent, slot, Component.DONE, slot.clock)
        if releases:
            self.release_maps(agent)
        return slot

    def release_maps(self, agent: Agent) -> None:
        """fence.proxy.tensormap::generic.release: the early component of a change says that it is released."""
        slot = agent.slots.get(_MAPS)
        if slot is not None:
            self.advance(agent, slot, Component.EARLY, slot.clock)
        self.tick(agent)

    def acquire_maps(self, agent: Agent) -> None:
        """fence.proxy.tensormap::generic.acquire: copies may follow the changes that have been released."""
        row, execution = agent.rows[Row.ASYNC_GLOBAL], agent.rows[Row.EXECUTION]
        maps = np.array(self.maps, np.intp)
        acquired = np.maximum(row[maps], execution[maps + Component.EARLY])
        join(row, execution)
        row[maps] = acquired
        self.tick(agent)

    def before_thread_sync(self, agent: Agent) -> None:
        """tcgen05.fence::before_thread_sync."""
        join(agent.rows[Row.RELEASED], agent.rows[Row.TENSOR])

    def after_thread_sync(self, agent: Agent) -> None:
        """tcgen05.fence::after_thread_sync."""
        join(agent.rows[Row.TENSOR], agent.rows[Row.ACQUIRED])
