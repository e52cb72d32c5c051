"""Release and acquire through memory, within the scopes of both sides.

A release pattern and an acquire pattern synchronise only if the scope of each includes the thread of the other (chapter "Memory Consistency
Model", section "Scope"). A release is kept for the scope that it has and for each narrower one, together with the CTA or cluster that this
scope means. An acquire looks at the same entries for its own scope. So it finds the release exactly if both scopes include both threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ptxlab.check.model import Row
from ptxlab.check.race.clocks.clocks import Agent, Clocks
from ptxlab.check.race.clocks.rows import Rows, join, joined
from ptxlab.check.race.shadow.shadow_words import AgentWord
from ptxlab.engine.program import Program
from ptxlab.isa.effects import (
    WEAK,
    Access,
    Asynchronous,
    ClusterArrive,
    Fence,
    MbarrierArrive,
    MbarrierInit,
    MbarrierTransactions,
    MbarrierWait,
    Order,
    Scope,
)
from ptxlab.isa.operands import Op

__all__ = ["Releases", "access_order", "fence", "mbarrier_init_fence", "relaxed_orders", "relaxed_release", "relaxed_wait"]

_ORDERED = Access | Asynchronous | Fence
_MEETINGS = MbarrierArrive | MbarrierWait | MbarrierTransactions | ClusterArrive
"""The arrivals and waits that state an order."""


def access_order(op: Op) -> Order:
    """The order of an instruction's accesses."""
    return op.effects.order if isinstance(op.effects, Access | Asynchronous) else WEAK


class Releases:
    """What has been released in memory, by host address and reach."""

    def __init__(self, program: Program) -> None:
        strong = [op for op in program.ops if isinstance(op.effects, _ORDERED) and op.effects.order.strong]
        self._scopes = sorted({op.effects.order.scope for op in strong if isinstance(op.effects, _ORDERED)})
        self._in_shared = any(getattr(program.natives.get(op.index), "space", "global") != "global" for op in strong)
        self._held: dict[tuple[int, int, int], dict[int, Rows]] = {}
        """By address and reach: what has been released there of each cluster."""

    def forget(self, first: int, size: int) -> None:
        """Memory gets a new owner: remove what was released there."""
        for key in [key for key in self._held if first <= key[0] < first + size] if self._in_shared else ():
            del self._held[key]

    def _within(self, clocks: Clocks, agent: Agent, scope: Scope, host: int) -> Iterator[tuple[Scope, tuple[int, int, int]]]:
        """The reaches within a scope of a warp."""
        for each in self._scopes:
            if each <= scope:
                whose = (clocks.serial, agent.cta.rank) if each is Scope.CTA else (clocks.serial, -1) if each is Scope.CLUSTER else (-1, -1)
                yield each, (host, *whose)

    def access(self, clocks: Clocks, agent: Agent, order: Order, hosts: Iterable[int], reads: bool, writes: bool) -> None:
        """A strong access to some addresses: acquire from, and release to, the other strong accesses there."""
        for host in hosts if reads else ():
            for scope, key in self._within(clocks, agent, order.scope, host):
                for serial, rows in self._held.get(key, {}).items():
                    if order.acquires:
                        clocks.acquire_from(agent, serial, rows)
                    else:
                        _observe(agent, scope, serial, rows)
        if not writes:
            return
        released = clocks.released_rows(agent).copy() if order.releases else None
        for host in hosts:
            for scope, key in self._within(clocks, agent, order.scope, host):
                carried = agent.fenced.get(scope) if released is None else released
                if carried is not None:
                    self._publish(clocks, agent, key, carried, replaces=not reads)
        if released is not None:
            clocks.tick(agent)

    def _publish(self, clocks: Clocks, agent: Agent, key: tuple[int, int, int], carried: Rows, replaces: bool) -> None:
        held = self._held.setdefault(key, {})
        if replaces:
            held.clear()
        old = held.get(clocks.serial)
        held[clocks.serial] = carried if old is None else joined(old, carried)
        for serial, rows in agent.foreign.items():
            held[serial] = joined(held.get(serial), rows)


def fence(effect: Fence, clocks: Clocks, agent: Agent) -> None:
    """fence, membar: acquire what relaxed reads have observed, and let relaxed writes release what is done."""
    order = effect.order
    if order.acquires:
        for (scope, serial), rows in list(agent.observed.items()):
            if scope <= order.scope:
                clocks.acquire_from(agent, serial, rows)
                del agent.observed[scope, serial]
    if order.releases:
        carried = clocks.released_rows(agent).copy()
        for scope in Scope:
            if scope <= order.scope:
                agent.fence(scope, carried)
    clocks.tick(agent)


def mbarrier_init_fence(agent: Agent) -> None:
    """fence.mbarrier_init: relaxed arrivals release the mbarrier objects that the warp has initialised, and nothing else.

    Compiled code completes those that change nothing (`AgentWord.INIT_FENCED`).
    """
    agent.words[AgentWord.INIT_FENCED] = 1
    init = agent.slots.get(MbarrierInit)
    if init is None:
        return
    for scope in (Scope.CTA, Scope.CLUSTER):
        known = agent.fenced.get(scope)
        rows = np.zeros_like(agent.shared)
        if known is not None:
            join(rows, known)
        rows[Row.EXECUTION, init.number] = init.clock
        agent.fence(scope, rows)


def _observe(agent: Agent, scope: Scope, serial: int, rows: Rows) -> None:
    """Keep what a relaxed read or wait has observed for the next acquiring fence."""
    known = agent.observed.get((scope, serial))
    if known is not rows:
        agent.observed[scope, serial] = rows if known is None else joined(known, rows)


def _execution(rows: Rows) -> Rows:
    """The order of execution alone, which tcgen05 operations follow."""
    made = np.zeros_like(rows)
    made[Row.TENSOR] = rows[Row.TENSOR]
    return made


def relaxed_orders(program: Program) -> dict[int, Order]:
    """By instruction the orders of relaxed arrivals and waits."""
    return {op.index: op.effects.order for op in program.ops if isinstance(op.effects, _MEETINGS) and op.effects.order.relaxed}


def relaxed_release(clocks: Clocks, agent: Agent, order: Order) -> Rows:
    """What a relaxed arrival carries: the order of execution, and what a fence has released."""
    return joined(agent.fenced.get(min(order.scope, Scope.CLUSTER)), _execution(clocks.released_rows(agent)))


def relaxed_wait(clocks: Clocks, agent: Agent, order: Order, rows: Rows) -> None:
    """A relaxed wait acquires the order of execution, and the rest at the next fence."""
    clocks.acquire(agent, _execution(rows))
    _observe(agent, min(order.scope, Scope.CLUSTER), clocks.serial, rows.copy())
