"""What arrivals at barriers gather, and what waits learn from them."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np

from ptxlab.check.model import Component, Kind, Row
from ptxlab.check.race._accesses import Accesses, Rows
from ptxlab.check.race.clocks.clocks import SHARED_ROWS, Agent, BarrierClock, Clocks, Slot, Use, join, joined
from ptxlab.check.race.clocks.phases import look, passed
from ptxlab.check.race.clocks.releases import relaxed, relaxed_wait
from ptxlab.isa.context import MemoryAccess
from ptxlab.isa.operands import Op

__all__ = ["Barriers", "PendingCompletion"]

_PERFORMED = slice(Row.EXECUTION, SHARED_ROWS, Row.TENSOR - Row.EXECUTION)
"""The rows that the end of asynchronous operations is good for, of those that synchronisation objects carry."""
_OBJECT = np.array([8], np.uint32)
"""Bytes of an mbarrier object."""
_CTA_BARRIER = ("bar.", "barrier.sync", "barrier.arrive", "barrier.red", "barrier.cta")
_SYNC = ("bar.sync", "bar.cta.sync", "barrier.sync", "barrier.cta.sync")


class PendingCompletion:
    """An asynchronous operation on its way: what its completion tells, and its slots by the mbarrier that signals them (0: any does)."""

    __slots__ = ("issuer", "rows", "slots")

    def __init__(self, issuer: Agent, rows: Rows) -> None:
        self.issuer = issuer
        self.rows = rows
        self.slots: dict[int, tuple[Slot, int]] = {}

    def covers(self, slot: Slot, clock: int) -> None:
        """Every completion of the operation tells that a slot's accesses up to a number are performed."""
        self.rows[_PERFORMED, slot.number : slot.number + len(Component)] = clock


class _Meets(IntEnum):
    """How a warp comes to a barrier of its CTA."""

    NOT = 0
    ARRIVES = 1
    PARKED = 2
    """it does nothing else until the barrier completes"""


@lru_cache(maxsize=4096)
def _meets(opcode: str) -> _Meets:
    if opcode.startswith(_SYNC):
        return _Meets.PARKED
    return _Meets.ARRIVES if opcode.startswith(_CTA_BARRIER) else _Meets.NOT


def _join_clocks(barrier_clock: BarrierClock) -> None:
    """Let the warps that are parked at a barrier know at once what all of them and those that have arrived know."""
    parked = barrier_clock.parked
    cta = parked[0].cta
    clocks: Clocks = cta.state["race"]
    if barrier_clock.gathered is None and len(parked) == clocks.warps:
        barrier_clock.gathered = clocks.blocks[cta.rank].join()
    else:
        known: Rows = np.maximum.reduce([agent.shared for agent in parked])
        if barrier_clock.gathered is not None:
            join(known, barrier_clock.gathered)
        for agent in parked:
            agent.shared[:] = known
        barrier_clock.gathered = known
    for agent in parked:
        for serial, foreign in barrier_clock.foreign.items():
            clocks.hear(agent, serial, foreign)
        clocks.tick(agent)
    parked.clear()


class Barriers(Accesses):
    """See the module."""

    def initialised(self, barrier: Any) -> None:
        """Note who made an mbarrier object."""
        barrier.clock = made = BarrierClock()
        running = self._running()
        if running is not None:
            warp, clocks, agent = running
            slot = clocks.own(agent, "mbarrier.init")
            slot.clock += 1
            clocks.know(agent, slot, Component.DONE, slot.clock)
            made.made = Use(agent, slot.number, slot.clock, warp.op)
            start = np.array([warp.cta.shared_address + barrier.offset], np.uint64)
            self._record_accesses(clocks, agent, agent.main, Kind.GENERIC, warp.op, [MemoryAccess(start, _OBJECT, True)])

    def _use(self, barrier: Any, agent: Agent, rows: Rows, op: Op) -> None:
        """Report a warp that uses an mbarrier object without knowing that it has been made; each warp is asked once."""
        barrier_clock: BarrierClock = barrier.clock
        made = barrier_clock.made
        barrier_clock.users |= 1 << agent.index
        if made is None:
            return
        if agent is not made.agent and (made.slot >= rows.shape[1] or rows[Row.EXECUTION, made.slot] < made.clock):
            self.findings.unmade(barrier, agent, op, made)

    def arrived(self, barrier: Any) -> None:
        """Gather what the running agent knows."""
        barrier_clock: BarrierClock = barrier.clock
        if barrier_clock is None:
            barrier_clock = barrier.clock = BarrierClock()
        operation = self.launch.scheduler.performing
        if operation is not None:
            completion: PendingCompletion | None = operation.agent
            if completion is not None:
                rows = completion.rows
                if not barrier_clock.users >> completion.issuer.index & 1:
                    self._use(barrier, completion.issuer, rows, operation.op)
                found = completion.slots.get(id(barrier)) or completion.slots.get(0)
                barrier_clock.take(rows)
                assert barrier_clock.gathered is not None
                if found is not None and barrier.rank != completion.issuer.cta.rank:
                    barrier_clock.remote[found[0].number] = Use(completion.issuer, found[0].number, found[1], operation.op)
                if found is not None and len(completion.slots) > 1:
                    slot, clock = found
                    told = barrier_clock.gathered[_PERFORMED, slot.number : slot.number + len(Component)]
                    np.maximum(told, clock, out=told)
            return
        warp = self.launch.scheduler.current
        if warp is None:
            return
        clocks, agent = self._agent(warp)
        if agent.loads:
            self._consume(clocks, agent, warp.op.index)
        meets = _meets(warp.op.opcode)
        if meets:
            if barrier_clock.came or meets is _Meets.ARRIVES:
                self._again(barrier, agent, warp)
            if meets is _Meets.PARKED and len(warp.converged) == 1 and not agent.foreign and not clocks.spec:
                agent.barrier = None
                barrier_clock.parked.append(agent)
                return
        rows = clocks.carried(agent)
        if not barrier_clock.users >> agent.index & 1:
            self._use(barrier, agent, agent.rows, warp.op)
        if ".relaxed" in warp.op.opcode:
            rows = relaxed(clocks, agent, warp.op.opcode)
            barrier_clock.looks.pop(agent.index, None)  # published or not, the phase waits for this arrival, which is behind the look
            if barrier_clock.made is None:
                barrier_clock.met = joined(barrier_clock.met, agent.rows[Row.EXECUTION])
        elif warp.op.opcode.startswith("cp.async.mbarrier"):
            rows = rows.copy()
            slot = clocks.own(agent, "cp.async")
            slot.clock += 1
            rows[Row.EXECUTION, slot.number] = slot.clock
        barrier_clock.take(rows)
        if barrier_clock.made is not None and barrier.rank != agent.cta.rank:
            barrier_clock.remote[agent.main.number] = Use(agent, agent.main.number, agent.main.clock, warp.op)
        for serial, foreign in agent.foreign.items():
            barrier_clock.foreign[serial] = joined(barrier_clock.foreign.get(serial), foreign)
        agent.barrier = barrier
        clocks.tick(agent)

    def _again(self, barrier: Any, agent: Agent, warp: Any) -> None:
        """Report a warp that has arrived at a CTA's barrier, and comes there again in the same phase."""
        came: dict[int, tuple[int, Op]] = barrier.clock.came
        lanes, first = came.get(agent.index, (0, warp.op))
        if lanes & warp.mask:
            self.findings.again(barrier, agent, first, warp.op)
        if "arrive" in warp.op.opcode:
            came[agent.index] = lanes | warp.mask, first

    def completed(self, barrier: Any) -> None:
        """The next phase gathers anew."""
        barrier_clock: BarrierClock | None = barrier.clock
        if barrier_clock is None:
            return
        operation = self.launch.scheduler.performing
        running = self._running()
        if barrier_clock.looks and operation is not None:
            passed(self.findings, barrier, barrier_clock, operation.op)
        elif barrier_clock.looks and running is not None:
            warp, _, agent = running
            barrier_clock.looks.pop(agent.index, None)  # expect_tx publishes nothing, but is behind its own look
            passed(self.findings, barrier, barrier_clock, warp.op)
        if barrier_clock.parked:
            _join_clocks(barrier_clock)
        barrier_clock.complete()

    def acquired(self, barrier: Any) -> None:
        """The running warp has waited for a phase."""
        running = self._running()
        if running is not None:
            warp, clocks, agent = running
            if not barrier.clock.users >> agent.index & 1:
                self._use(barrier, agent, agent.rows, warp.op)
            look(clocks, barrier.clock, agent, warp.op)
            self._learn(clocks, agent, barrier.clock, warp.op.opcode)

    def _learn(self, clocks: Clocks, agent: Agent, barrier_clock: BarrierClock | None, opcode: str = "") -> None:
        if barrier_clock is None or barrier_clock.done is None:
            return
        if ".relaxed" in opcode:
            relaxed_wait(clocks, agent, opcode, barrier_clock.done)
            return
        clocks.learn(agent, barrier_clock.done)
        for serial, rows in barrier_clock.foreign.items():
            clocks.hear(agent, serial, rows)
