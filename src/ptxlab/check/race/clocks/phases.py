"""Phases of mbarrier objects: a wait by parity tells a phase only from its neighbours.

Whoever waits for a phase must have seen that it is complete before the next phase is: otherwise the parity that the wait names stands for
the phase after, and the wait succeeds too early or never. So what completes a phase must be ordered behind all waits for the phase before.
"""

from __future__ import annotations

from typing import Any

from ptxlab.check.model import Component, Row
from ptxlab.check.race.clocks.clocks import Agent, BarrierClock, Clocks, Use
from ptxlab.check.race.report.findings import Findings
from ptxlab.isa.operands import Op

__all__ = ["check_overrun", "note_wait"]


def note_wait(clocks: Clocks, barrier_clock: BarrierClock, agent: Agent, op: Op) -> None:
    """A warp has seen that the last phase is complete. It ticks, so that what it has issued before does not carry the wait."""
    clocks.tick(agent)
    barrier_clock.waits[agent.index] = Use(agent, agent.main.number + Component.EARLY, agent.main.clock, op)


def check_overrun(findings: Findings, barrier: Any, barrier_clock: BarrierClock, op: Op) -> None:
    """An arrival completes a phase: report the waits for the phase before that nothing orders before it."""
    gathered, waits = barrier_clock.gathered, barrier_clock.waits
    if gathered is not None:
        for wait in waits.values():
            late = wait.slot >= gathered.shape[1] or gathered[Row.EXECUTION, wait.slot] < wait.clock
            if late and not _behind_cluster_barrier(wait):
                findings.overrun(barrier, wait, op)
    waits.clear()


def _behind_cluster_barrier(wait: Use) -> bool:
    """Whether a barrier of the cluster stands behind the wait."""
    clocks: Clocks = wait.agent.cta.state["race"]
    return any(wait.slot < len(row) and row[wait.slot] >= wait.clock for row in clocks.relaxed.values())
