"""What arrivals at barriers gather, and what waits learn from them."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np

from ptxlab.check.model import Component, Kind, Row
from ptxlab.check.race._accesses import Accesses, Rows
from ptxlab.check.race.clocks.clocks import SHARED_ROWS, Agent, Clocks, Meeting, Slot, Use, join, joined
from ptxlab.check.race.clocks.phases import look, passed
from ptxlab.check.race.clocks.releases import relaxed, relaxed_wait
from ptxlab.isa.context import Touch
from ptxlab.isa.operands import Op

__all__ = ["Barriers", "Flight"]

_PERFORMED = slice(Row.EXECUTION, SHARED_ROWS, Row.TENSOR - Row.EXECUTION)
"""The rows that the end of asynchronous operations is good for, of those that synchronisation objects carry."""
_OBJECT = np.array([8], np.uint32)
"""Bytes of an mbarrier object."""
_CTA_BARRIER = ("bar.", "barrier.sync", "barrier.arrive", "barrier.red", "barrier.cta")
_SYNC = ("bar.sync", "bar.cta.sync", "barrier.sync", "barrier.cta.sync")


class Flight:
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


def _meet(meeting: Meeting) -> None:
    """Let the warps that are parked at a barrier know at once what all of them and those that have arrived know."""
    parked = meeting.parked
    cta = parked[0].cta
    clocks: Clocks = cta.state["race"]
    if meeting.gathered is None and len(parked) == clocks.warps:
        meeting.gathered = clocks.blocks[cta.rank].meet()
    else:
        known: Rows = np.maximum.reduce([agent.shared for agent in parked])
        if meeting.gathered is not None:
            join(known, meeting.gathered)
        for agent in parked:
            agent.shared[:] = known
        meeting.gathered = known
    for agent in parked:
        for serial, foreign in meeting.foreign.items():
            clocks.hear(agent, serial, foreign)
        clocks.tick(agent)
    parked.clear()


class Barriers(Accesses):
    """See the module."""

    def initialised(self, barrier: Any) -> None:
        """Note who made an mbarrier object."""
        barrier.clock = made = Meeting()
        running = self._running()
        if running is not None:
            warp, clocks, agent = running
            slot = clocks.own(agent, "mbarrier.init")
            slot.clock += 1
            clocks.know(agent, slot, Component.DONE, slot.clock)
            made.made = Use(agent, slot.number, slot.clock, warp.op)
            start = np.array([warp.cta.shared_address + barrier.offset], np.uint64)
            self._touch_all(clocks, agent, agent.main, Kind.GENERIC, warp.op, [Touch(start, _OBJECT, True)])

    def _use(self, barrier: Any, agent: Agent, rows: Rows, op: Op) -> None:
        """Report a warp that uses an mbarrier object without knowing that it has been made; each warp is asked once."""
        meeting: Meeting = barrier.clock
        made = meeting.made
        meeting.users |= 1 << agent.index
        if made is None:
            return
        if agent is not made.agent and (made.slot >= rows.shape[1] or rows[Row.EXECUTION, made.slot] < made.clock):
            self.findings.unmade(barrier, agent, op, made)

    def arrived(self, barrier: Any) -> None:
        """Gather what the running agent knows."""
        meeting: Meeting = barrier.clock
        if meeting is None:
            meeting = barrier.clock = Meeting()
        operation = self.launch.scheduler.performing
        if operation is not None:
            flight: Flight | None = operation.agent
            if flight is not None:
                rows = flight.rows
                if not meeting.users >> flight.issuer.index & 1:
                    self._use(barrier, flight.issuer, rows, operation.op)
                found = flight.slots.get(id(barrier)) or flight.slots.get(0)
                meeting.take(rows)
                assert meeting.gathered is not None
                if found is not None and barrier.rank != flight.issuer.cta.rank:
                    meeting.remote[found[0].number] = Use(flight.issuer, found[0].number, found[1], operation.op)
                if found is not None and len(flight.slots) > 1:
                    slot, clock = found
                    told = meeting.gathered[_PERFORMED, slot.number : slot.number + len(Component)]
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
            if meeting.came or meets is _Meets.ARRIVES:
                self._again(barrier, agent, warp)
            if meets is _Meets.PARKED and len(warp.splits) == 1 and not agent.foreign and not clocks.spec:
                agent.barrier = None
                meeting.parked.append(agent)
                return
        rows = clocks.carried(agent)
        if not meeting.users >> agent.index & 1:
            self._use(barrier, agent, agent.rows, warp.op)
        if ".relaxed" in warp.op.opcode:
            rows = relaxed(clocks, agent, warp.op.opcode)
            meeting.looks.pop(agent.index, None)  # published or not, the phase waits for this arrival, which is behind the look
            if meeting.made is None:
                meeting.met = joined(meeting.met, agent.rows[Row.EXECUTION])
        elif warp.op.opcode.startswith("cp.async.mbarrier"):
            rows = rows.copy()
            slot = clocks.own(agent, "cp.async")
            slot.clock += 1
            rows[Row.EXECUTION, slot.number] = slot.clock
        meeting.take(rows)
        if meeting.made is not None and barrier.rank != agent.cta.rank:
            meeting.remote[agent.main.number] = Use(agent, agent.main.number, agent.main.clock, warp.op)
        for serial, foreign in agent.foreign.items():
            meeting.foreign[serial] = joined(meeting.foreign.get(serial), foreign)
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
        meeting: Meeting | None = barrier.clock
        if meeting is None:
            return
        operation = self.launch.scheduler.performing
        running = self._running()
        if meeting.looks and operation is not None:
            passed(self.findings, barrier, meeting, operation.op)
        elif meeting.looks and running is not None:
            warp, _, agent = running
            meeting.looks.pop(agent.index, None)  # expect_tx publishes nothing, but is behind its own look
            passed(self.findings, barrier, meeting, warp.op)
        if meeting.parked:
            _meet(meeting)
        meeting.complete()

    def acquired(self, barrier: Any) -> None:
        """The running warp has waited for a phase."""
        running = self._running()
        if running is not None:
            warp, clocks, agent = running
            if not barrier.clock.users >> agent.index & 1:
                self._use(barrier, agent, agent.rows, warp.op)
            look(clocks, barrier.clock, agent, warp.op)
            self._learn(clocks, agent, barrier.clock, warp.op.opcode)

    def _learn(self, clocks: Clocks, agent: Agent, meeting: Meeting | None, opcode: str = "") -> None:
        if meeting is None or meeting.done is None:
            return
        if ".relaxed" in opcode:
            relaxed_wait(clocks, agent, opcode, meeting.done)
            return
        clocks.learn(agent, meeting.done)
        for serial, rows in meeting.foreign.items():
            clocks.hear(agent, serial, rows)
