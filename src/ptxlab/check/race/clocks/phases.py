"""Phases of mbarrier objects: a wait by parity tells a phase only from its neighbours.

Whoever waits for a phase must have seen that it is complete before the next one is: else the parity that the wait names stands for the
phase after, and the wait goes on. So what completes a phase has to follow, in whatever way, the looks of all that waited for the last.
"""

from __future__ import annotations

from typing import Any

from ptxlab.check.model import Component, Row
from ptxlab.check.race.clocks.clocks import Agent, BarrierClock, Clocks, Use
from ptxlab.check.race.report.findings import Findings
from ptxlab.isa.operands import Op

__all__ = ["look", "passed"]


def look(clocks: Clocks, barrier_clock: BarrierClock, agent: Agent, op: Op) -> None:
    """A warp has seen that the last phase is complete; what it has issued before carries none of this."""
    clocks.tick(agent)
    barrier_clock.looks[agent.index] = agent, agent.main.clock, op


def passed(findings: Findings, barrier: Any, barrier_clock: BarrierClock, op: Op) -> None:
    """An arrival completes a phase."""
    known, looks = barrier_clock.gathered, barrier_clock.looks
    if known is not None:
        for agent, clock, looking in looks.values():
            at = agent.main.number + Component.EARLY
            if (at >= known.shape[1] or known[Row.EXECUTION, at] < clock) and not _met(agent, at, clock):
                findings.overrun(barrier, Use(agent, at, clock, looking), op)
    looks.clear()


def _met(agent: Agent, at: int, clock: int) -> bool:
    """Whether a barrier of the cluster stands behind the look."""
    clocks: Clocks = agent.cta.state["race"]
    return any(at < len(row) and row[at] >= clock for row in clocks.met.values())
