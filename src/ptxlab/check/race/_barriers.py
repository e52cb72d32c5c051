"""Barriers of a CTA and of a cluster, and mbarrier objects: arrivals release, waits acquire."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxlab._records import dataclass
from ptxlab.check.model import Component, Kind, Row
from ptxlab.check.race._barrier_orders import acquire_barrier, acquire_foreign, join_parked, release_foreign, warp_arrived
from ptxlab.check.race._recorder import AccessRecorder, Handlers
from ptxlab.check.race._tensor_memory import HELD, LOADS, TensorMemoryAccesses
from ptxlab.check.race.clocks.barrier_clock import BarrierClock, parking
from ptxlab.check.race.clocks.clocks import Agent, Clocks
from ptxlab.check.race.clocks.cluster_clock import ClusterClock
from ptxlab.check.race.clocks.mbarrier_clock import MbarrierClock, Use
from ptxlab.check.race.clocks.releases import relaxed_orders, relaxed_release, relaxed_wait
from ptxlab.check.race.clocks.rows import Rows
from ptxlab.check.race.clocks.slots import Slot
from ptxlab.check.race.shadow.shadow_words import AgentWord
from ptxlab.engine.arrivals import COMPLETE_SHIFT, CTAS_SHIFT, OFFSET_MASK
from ptxlab.isa.effects import (
    ClusterArrive,
    ClusterWait,
    Completion,
    CompletionArrival,
    CtaBarrier,
    MbarrierArrive,
    MbarrierInit,
    MbarrierInval,
    MbarrierTransactions,
    MbarrierWait,
)
from ptxlab.isa.operands import Op
from ptxlab.isa.operations import MemoryAccess

if TYPE_CHECKING:
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Barriers", "PendingCompletion"]

_EXECUTION, _TENSOR = int(Row.EXECUTION), int(Row.TENSOR)
"""The rows that say what is ordered before an arrival; that of a relaxed one carries the second alone."""
_PERFORMED = _EXECUTION, _TENSOR
"""Of the rows that synchronisation objects carry, those that the completion of an asynchronous operation advances."""
_EARLY = int(Component.EARLY)
_OBJECT = np.array([8], np.uint32)
"""Bytes of an mbarrier object."""
_BY_EVENT = (ClusterArrive, MbarrierArrive, MbarrierInit, MbarrierInval, MbarrierTransactions, MbarrierWait, CompletionArrival)
"""What the events of barriers handle."""


@dataclass(slots=True, eq=False)
class PendingCompletion:
    """An asynchronous operation in flight: the rows that its completion releases, and its slots by the mbarrier it signals (0: any)."""

    issuer: Agent
    rows: Rows
    slots: dict[int, tuple[Slot, int]] = field(default_factory=dict)

    def covers(self, slot: Slot, clock: int) -> None:
        """Let every completion of the operation release a slot's accesses up to a clock."""
        rows, at = self.rows, slot.number
        for row in _PERFORMED:
            rows[row, at] = rows[row, at + _EARLY] = clock


class Barriers:
    """The clocks of barriers; one for each launch."""

    def __init__(self, recorder: AccessRecorder, tensor_memory: TensorMemoryAccesses) -> None:
        self._recorder = recorder
        self._launch = recorder.launch
        self._findings = recorder.findings
        self._tensor_memory = tensor_memory
        self._relaxed = recorder.launch.facts.of(relaxed_orders)
        self._parking = frozenset() if recorder.launch.model == "spec" else recorder.launch.facts.of(parking)

    def handlers(self) -> Handlers:
        """Barriers of a CTA and of a cluster acquire when the wait is over; mbarriers call `acquired`."""
        return {
            CtaBarrier: lambda effect: acquire_barrier if effect.waits else None,
            ClusterWait: lambda effect: self._acquire_cluster_barrier,
            **dict.fromkeys(_BY_EVENT, lambda effect: None),
        }

    # ---------------------------------------------------------------------------------------------- life of mbarrier objects

    def initialised(self, barrier: Any) -> None:
        """Record who has initialised an mbarrier object."""
        running = self._recorder.running()
        if running is not None:
            warp, clocks, agent = running
            slot = clocks.own(agent, MbarrierInit)
            slot.clock += 1
            clocks.advance(agent, slot, Component.DONE, slot.clock)
            agent.words[AgentWord.INIT_FENCED] = 0
            ops, copies = self._launch.program.ops, []
            for index in self._recorder.issuers.get((barrier.rank, barrier.offset), ()):
                issuer = clocks.agents[index]
                for lane in self._recorder.issuing_lanes[index]:
                    clocks.bulk_reads(issuer, lane, ops)
                copies.append((issuer, clocks.bulk(issuer, barrier, ops)))
            made = barrier.clock = MbarrierClock(clocks.agents, ops, Use(agent, slot.number, slot.clock, warp.op))
            for copy in copies:
                made.expect_copies(*copy)
            clocks.share_mbarrier(barrier.rank, barrier.offset, made)
            self._write_object(clocks, agent, barrier, warp)

    def invalidated(self, barrier: Any) -> None:
        """mbarrier.inval: it must follow the initialisation and all uses, and it writes the object."""
        running = self._recorder.running()
        if running is None or barrier.clock is None:
            return
        warp, clocks, agent = running
        barrier_clock: MbarrierClock = barrier.clock
        if not self._check_initialised(barrier, agent, agent.rows, warp.op):
            return
        # Compilers invalidate an mbarrier after one warp's wait, while others may still poll: only spec requires an order.
        for use in (*barrier_clock.arrivals(), *(barrier_clock.waits() if clocks.spec else ())):
            if use.agent is not agent and agent.rows[Row.EXECUTION, use.slot] < use.clock:
                self._findings.invalidated_early(barrier, agent, warp.op, use)
                break
        self._write_object(clocks, agent, barrier, warp)

    def expected(self, barrier: Any) -> None:
        """Transaction bytes are announced: this releases nothing, but must follow the initialisation."""
        running = self._recorder.running()
        if running is not None and barrier.clock is not None:
            warp, _, agent = running
            self._check_initialised(barrier, agent, agent.rows, warp.op)

    def _write_object(self, clocks: Clocks, agent: Agent, barrier: Any, warp: Any) -> None:
        start = np.array([warp.cta.shared_address + barrier.offset], np.uint64)
        self._recorder.record(clocks, agent, agent.main, Kind.GENERIC, warp.op, [MemoryAccess(start, _OBJECT, True)])

    def _check_initialised(self, barrier: Any, agent: Agent, rows: Rows, op: Op) -> bool:
        """Whether a use of an mbarrier object is ordered after its initialisation; each warp is checked, and reported, only once."""
        barrier_clock: MbarrierClock = barrier.clock
        if barrier_clock.users >> agent.index & 1:
            return True
        init = barrier_clock.init
        if not barrier_clock.users:
            clocks: Clocks = agent.cta.state["race"]
            barrier_clock.check(clocks.rows[:, Row.EXECUTION, init.slot] >= init.clock)
        barrier_clock.users |= 1 << agent.index
        if agent is init.agent or (init.slot < rows.shape[1] and rows[Row.EXECUTION, init.slot] >= init.clock):
            return True
        self._findings.uninitialised(barrier, agent, op, init)
        return False

    # -------------------------------------------------------------------------------------------------------------- arrivals

    def arrived(self, barrier: Any) -> None:
        """Release the rows of the running agent to a barrier."""
        scheduler = self._launch.scheduler
        operation, warp = scheduler.performing, scheduler.current
        if operation is not None:
            if operation.agent is not None:
                self._operation_arrived(barrier, operation.agent, operation.op)
        elif warp is not None:
            clocks, agent = warp.state["race"]
            transfers, op = agent.transfers, warp.op
            if transfers is not None and (transfers[HELD] or transfers[LOADS]):
                self._tensor_memory.consume(clocks, agent, op.index)
            barrier_clock: BarrierClock | ClusterClock | MbarrierClock | None = barrier.clock
            if isinstance(barrier_clock, MbarrierClock):
                self._arrived_at_object(barrier, warp, clocks, agent)
                return
            if barrier_clock is None:
                barrier_clock = clocks.cluster_clock() if isinstance(op.effects, ClusterArrive) else BarrierClock()
                barrier.clock = barrier_clock
            if isinstance(barrier_clock, ClusterClock):
                self._arrived_at_cluster(barrier_clock, op, clocks, agent)
                return
            if op.index in self._parking:
                if barrier_clock.arrivals:
                    self._check_phase(barrier, agent, warp)
                if len(warp.converged) == 1 and not agent.foreign:
                    agent.barrier = None
                    barrier_clock.parked.append(agent)
                    return
            elif type(op.effects) is CtaBarrier:
                self._check_phase(barrier, agent, warp)
            warp_arrived(barrier, clocks, agent)

    def arrived_together(self, barrier: Any, warps: Iterable[Warp]) -> None:
        """Warps that are blocked at a barrier of their CTA have arrived. Their clocks have not changed since, and nobody has read them."""
        barrier_clock: BarrierClock | None = barrier.clock
        if barrier_clock is None:
            barrier.clock = barrier_clock = BarrierClock()
        for warp in warps:
            clocks, agent = warp.state["race"]
            transfers = agent.transfers
            if transfers is not None and (transfers[HELD] or transfers[LOADS]):
                self._tensor_memory.consume(clocks, agent, warp.op.index)
            if agent.foreign:
                warp_arrived(barrier, clocks, agent)
            else:
                agent.barrier = None
                barrier_clock.parked.append(agent)

    def _operation_arrived(self, barrier: Any, completion: PendingCompletion, op: Op) -> None:
        barrier_clock: MbarrierClock = barrier.clock
        rows, issuer = completion.rows, completion.issuer
        if not barrier_clock.users >> issuer.index & 1:
            self._check_initialised(barrier, issuer, rows, op)
        barrier_clock.take(rows)
        found = completion.slots.get(id(barrier)) or completion.slots.get(0)
        if found is not None:
            slot, clock = found
            barrier_clock.arrive(issuer, slot, clock, op)
            if len(completion.slots) > 1:
                gathered, at = barrier_clock.gathered, slot.number
                for row in _PERFORMED:
                    for column in (at, at + _EARLY):
                        if gathered.item(row, column) < clock:
                            gathered[row, column] = clock

    def _arrived_at_cluster(self, barrier_clock: ClusterClock, op: Op, clocks: Clocks, agent: Agent) -> None:
        """A warp arrives at the barrier of the cluster. Compiled code does the same (`ptxlab.check.race.shadow.barriers_ir`)."""
        order = self._relaxed.get(op.index)
        if order is None:
            barrier_clock.take(clocks.released_rows(agent))
        else:
            barrier_clock.take(relaxed_release(clocks, agent, order))
            barrier_clock.take_relaxed(agent.rows[Row.EXECUTION])
        release_foreign(barrier_clock, agent)
        clocks.tick(agent)

    def _arrived_at_object(self, barrier: Any, warp: Any, clocks: Clocks, agent: Agent) -> None:
        """A warp arrives on an mbarrier object. Compiled code does the same for usual arrivals (`emit_mbarrier_functions`)."""
        barrier_clock: MbarrierClock = barrier.clock
        op, effects = warp.op, warp.op.effects
        rows = clocks.released_rows(agent)
        if not barrier_clock.users >> agent.index & 1:
            self._check_initialised(barrier, agent, agent.rows, op)
        order = self._relaxed.get(op.index)
        if order is not None:
            rows = relaxed_release(clocks, agent, order)
            barrier_clock.discard(agent)  # the phase needs this arrival, which follows the wait in program order
        elif isinstance(effects, CompletionArrival) and effects.of is Completion.COPY_GROUP:
            rows = rows.copy()
            slot = clocks.copies(agent)
            slot.advance()
            rows[Row.EXECUTION, slot.number] = slot.clock
        barrier_clock.take(rows)
        barrier_clock.arrive(agent, agent.main, agent.main.clock, op)
        if agent.foreign:
            release_foreign(barrier_clock, agent)
            barrier_clock.leave_to_python()
        clocks.tick(agent)

    def performed(self, warp: Warp, arrived: int, completion: PendingCompletion | None) -> None:
        """Compiled code has arrived on mbarrier objects, or announced bytes (`Word.ARRIVED`); ``completion`` is that of a commit."""
        op, effects = warp.op, warp.op.effects
        announces = isinstance(effects, MbarrierTransactions) or (isinstance(effects, MbarrierArrive) and effects.expects)
        for cta in warp.cta.group.ctas:
            if not arrived >> CTAS_SHIFT + cta.rank & 1:
                continue
            barrier = cta.mbarriers[arrived & OFFSET_MASK]
            if completion is not None:
                self._operation_arrived(barrier, completion, op)
            for _ in range(warp.mask.bit_count() if announces else completion is None):
                if announces:
                    self.expected(barrier)
                if isinstance(effects, MbarrierArrive):
                    self.arrived(barrier)
            if arrived >> COMPLETE_SHIFT + cta.rank & 1:
                self._object_completed(barrier, op, None if completion is not None else warp.state["race"][1])

    def _check_phase(self, barrier: Any, agent: Agent, warp: Any) -> None:
        """Report a warp that arrives at a barrier of its CTA twice in one phase."""
        arrivals: dict[int, tuple[int, Op]] = barrier.clock.arrivals
        lanes, first = arrivals.get(agent.index, (0, warp.op))
        if lanes & warp.mask:
            self._findings.arrived_twice(barrier, agent, first, warp.op)
        if not warp.op.effects.waits:
            arrivals[agent.index] = lanes | warp.mask, first

    def completed(self, barrier: Any) -> None:
        """A phase is complete: check the waits for the phase before, and let the next one gather anew."""
        barrier_clock: BarrierClock | ClusterClock | MbarrierClock | None = barrier.clock
        if barrier_clock is None:
            return
        if isinstance(barrier_clock, MbarrierClock):
            operation, warp = self._launch.scheduler.performing, self._launch.scheduler.current
            if operation is not None:
                self._object_completed(barrier, operation.op, None)
            elif warp is not None:
                self._object_completed(barrier, warp.op, warp.state["race"][1])
            else:
                barrier_clock.complete()
            return
        if isinstance(barrier_clock, BarrierClock) and barrier_clock.parked:
            join_parked(barrier_clock)
        barrier_clock.complete()

    def _object_completed(self, barrier: Any, op: Op, agent: Agent | None) -> None:
        """A phase of an mbarrier object is complete, by an instruction of a warp itself, or by an operation.

        Report the waits for the phase before that nothing orders before the last arrival. A wait by parity can tell a phase only from its
        neighbours. If the next phase completes before a warp has seen that its phase is complete, the parity in the wait means the phase
        after that one, and the wait ends too early or never.
        """
        barrier_clock: MbarrierClock = barrier.clock
        if agent is not None:
            barrier_clock.discard(agent)  # expect_tx releases nothing, but follows the warp's own wait
        for wait in barrier_clock.take_late():
            cluster_barrier = wait.agent.cta.state["race"].cluster_barrier
            if cluster_barrier is None or not cluster_barrier.has_seen(wait.slot, wait.clock):
                self._findings.overrun(barrier, wait, op)
        barrier_clock.complete()

    # ----------------------------------------------------------------------------------------------------------------- waits

    def acquired(self, barrier: Any) -> None:
        """The running warp has seen that a phase of an mbarrier is complete."""
        warp = self._launch.scheduler.current
        if warp is not None:
            clocks, agent = warp.state["race"]
            barrier_clock: MbarrierClock = barrier.clock
            if not barrier_clock.users >> agent.index & 1:
                self._check_initialised(barrier, agent, agent.rows, warp.op)
            clocks.tick(agent)  # what the warp has issued before does not include the wait
            barrier_clock.wait(agent, warp.op.index | warp.mask << 32, joins=not clocks.spec)
            done, order = barrier_clock.done, self._relaxed.get(warp.op.index)
            if order is not None:
                relaxed_wait(clocks, agent, order, done)
                return
            clocks.acquire(agent, done)
            if barrier_clock.foreign:
                acquire_foreign(clocks, agent, barrier_clock)

    def _acquire_cluster_barrier(self, warp: Any, op: Op) -> None:
        clocks, agent = warp.state["race"]
        barrier_clock: ClusterClock = warp.cta.group.barrier.clock
        clocks.acquire(agent, barrier_clock.done)
        acquire_foreign(clocks, agent, barrier_clock)
        barrier_clock.see_relaxed(agent.cta.rank)
