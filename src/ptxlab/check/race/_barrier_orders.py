"""What warps release when they arrive at barriers, and acquire when these complete."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxlab.check.race.clocks.barrier_clock import BarrierClock
from ptxlab.check.race.clocks.clocks import Agent, Clocks
from ptxlab.check.race.clocks.cluster_clock import ClusterClock
from ptxlab.check.race.clocks.mbarrier_clock import MbarrierClock
from ptxlab.check.race.clocks.rows import Rows, join, joined
from ptxlab.isa.operands import Op

__all__ = ["acquire_barrier", "acquire_foreign", "join_parked", "release_foreign", "warp_arrived"]


def join_parked(barrier_clock: BarrierClock) -> None:
    """Join the clocks of the warps that are blocked at a barrier with those of all that have arrived."""
    parked = barrier_clock.parked
    cta = parked[0].cta
    clocks: Clocks = cta.state["race"]
    joined_at_once = barrier_clock.gathered is None and len(parked) == clocks.warps
    if joined_at_once:
        barrier_clock.gathered = clocks.join_cta(cta.rank, barrier_clock.done)  # no warp is left that waits for the phase before
    else:
        rows: Rows = np.maximum.reduce([agent.shared for agent in parked])
        if barrier_clock.gathered is not None:
            join(rows, barrier_clock.gathered)
        for agent in parked:
            agent.shared[:] = rows
        barrier_clock.gathered = rows
    if barrier_clock.foreign:
        for agent in parked:
            acquire_foreign(clocks, agent, barrier_clock)
    if not joined_at_once:
        for agent in parked:
            clocks.tick(agent)
    parked.clear()


def acquire_barrier(warp: Any, op: Op) -> None:
    """The wait of a warp at a barrier of its CTA is over. Warps that were blocked have acquired when the barrier completed."""
    clocks, agent = warp.state["race"]
    barrier = agent.barrier
    if barrier is not None:
        _acquire(clocks, agent, barrier.clock)


def _acquire(clocks: Clocks, agent: Agent, barrier_clock: BarrierClock | None) -> None:
    """Acquire what the last complete phase has gathered."""
    if barrier_clock is None or barrier_clock.done is None:
        return
    clocks.acquire(agent, barrier_clock.done)
    acquire_foreign(clocks, agent, barrier_clock)


def warp_arrived(barrier: Any, clocks: Clocks, agent: Agent) -> None:
    """A warp arrives at a barrier of its CTA."""
    barrier_clock: BarrierClock = barrier.clock
    barrier_clock.take(clocks.released_rows(agent))
    release_foreign(barrier_clock, agent)
    agent.barrier = barrier
    clocks.tick(agent)


def release_foreign(barrier_clock: BarrierClock | ClusterClock | MbarrierClock, agent: Agent) -> None:
    """Release what a warp has acquired of other clusters."""
    for serial, rows in agent.foreign.items():
        barrier_clock.foreign[serial] = joined(barrier_clock.foreign.get(serial), rows)


def acquire_foreign(clocks: Clocks, agent: Agent, barrier_clock: BarrierClock | ClusterClock | MbarrierClock) -> None:
    """Acquire what arrivals have released of other clusters."""
    for serial, rows in barrier_clock.foreign.items():
        clocks.acquire_from(agent, serial, rows)
