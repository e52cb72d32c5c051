"""Release and acquire: what warps tell each other through memory, as far as the scopes of both sides reach.

A release pattern and an acquire pattern synchronise only if each one's scope includes the other thread (section "Scope" and what builds on
it in the chapter "Memory Consistency Model"). What is released at a scope stands at each `Reach` within it, and an acquire looks at
each one within its own: so it finds the release exactly if the two scopes include both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.model import Row
from ptxlab.check.race.clocks.clocks import Agent, Clocks, join, joined
from ptxlab.isa.operands import Op

__all__ = ["Order", "Releases", "Scope", "is_fence", "order_of", "relaxed", "relaxed_wait", "synchronises"]

Rows = NDArray[np.uint32]


class Scope(IntEnum):
    """Whom an order reaches; on one device there is no difference between gpu and sys."""

    CTA = 0
    CLUSTER = 1
    GPU = 2


_SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.GPU, "gl": Scope.GPU}
_BOTH = frozenset({"acq_rel", "sc"})
_STRONG = frozenset({"relaxed", "acquire", "release", "volatile", "mmio"})


class Order(NamedTuple):
    """What an instruction says of order."""

    scope: Scope
    acquires: bool
    releases: bool
    relaxed: bool


@lru_cache(maxsize=4096)
def order_of(opcode: str) -> Order:
    """The order of an access, an arrival, a wait or a fence.

    Examples
    --------
    >>> order_of("ld.acquire.cluster.global.b32").scope.name, order_of("atom.global.add.u32").scope.name
    ('CLUSTER', 'GPU')
    >>> order_of("fence.acq_rel.cta")[1:], order_of("fence.release.sync_restrict::shared::cta.cluster")[1:]
    ((True, True, False), (False, True, False))
    """
    words = opcode.split(".")
    scope = next((_SCOPES[w] for w in words if w in _SCOPES), Scope.GPU)
    both = bool(_BOTH & set(words)) or words[0] == "membar"
    if words[0] == "fence":
        both = both or not {"acquire", "release"} & set(words)
    return Order(scope, both or "acquire" in words, both or "release" in words, "relaxed" in words)


def is_fence(opcode: str) -> bool:
    """Whether it is a fence of memory accesses: not of proxies or mbarrier objects."""
    return opcode.startswith(("fence.", "membar.")) and not {"proxy", "mbarrier_init"} & set(opcode.split("."))


def synchronises(opcode: str) -> bool:
    """Whether an access acquires or releases."""
    order = order_of(opcode)
    return order.acquires or order.releases


def _scope_counts(opcode: str) -> bool:
    """Whether an instruction's scope decides who learns of it."""
    words = opcode.split(".")
    return is_fence(opcode) or words[0] in ("atom", "red") or (words[0] in ("ld", "st") and bool(_STRONG & set(words)))


class Releases:
    """What has been released in memory, by host address and reach."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self._scopes = sorted({order_of(op.opcode).scope for op in ops if _scope_counts(op.opcode)})
        self._shared = any(_scope_counts(op.opcode) and ".global" not in op.opcode for op in ops)
        self._held: dict[tuple[int, int, int], dict[int, Rows]] = {}
        """By address and reach: what has been released there of each cluster."""

    def forget(self, first: int, size: int) -> None:
        """The memory at a host address is somebody else's now."""
        for key in [key for key in self._held if first <= key[0] < first + size] if self._shared else ():
            del self._held[key]

    def _within(self, clocks: Clocks, agent: Agent, scope: Scope, host: int) -> Iterator[tuple[Scope, tuple[int, int, int]]]:
        """The reaches within a scope of a warp."""
        for each in self._scopes:
            if each <= scope:
                whose = (clocks.serial, agent.cta.rank) if each is Scope.CTA else (clocks.serial, -1) if each is Scope.CLUSTER else (-1, -1)
                yield each, (host, *whose)

    def access(self, clocks: Clocks, agent: Agent, opcode: str, hosts: Iterable[int]) -> None:
        """A strong access to some addresses: acquire from, and release to, what other strong accesses meet there."""
        order = order_of(opcode)
        stores = opcode.startswith("st.")
        for host in hosts if order.acquires or not stores else ():
            for scope, key in self._within(clocks, agent, order.scope, host):
                for serial, rows in self._held.get(key, {}).items():
                    if order.acquires:
                        clocks.hear(agent, serial, rows)
                    else:
                        _overhear(agent, scope, serial, rows)
        if opcode.startswith("ld."):
            return
        released = clocks.carried(agent).copy() if order.releases else None
        for host in hosts:
            for scope, key in self._within(clocks, agent, order.scope, host):
                carried = agent.fenced.get(scope) if released is None else released
                if carried is not None:
                    self._publish(clocks, agent, key, carried, stores)
        if released is not None:
            clocks.tick(agent)

    def _publish(self, clocks: Clocks, agent: Agent, key: tuple[int, int, int], carried: Rows, stores: bool) -> None:
        held = self._held.setdefault(key, {})
        if stores:
            held.clear()
        old = held.get(clocks.serial)
        held[clocks.serial] = carried if old is None else joined(old, carried)
        for serial, rows in agent.foreign.items():
            held[serial] = joined(held.get(serial), rows)

    def fence(self, clocks: Clocks, agent: Agent, opcode: str) -> None:
        """Fences of memory accesses, and of mbarrier objects."""
        order = order_of(opcode)
        if opcode.startswith("fence.mbarrier_init"):
            _initialised(agent)
            return
        if order.acquires:
            for (scope, serial), rows in list(agent.heard.items()):
                if scope <= order.scope:
                    clocks.hear(agent, serial, rows)
                    del agent.heard[scope, serial]
        if order.releases:
            carried = clocks.carried(agent).copy()
            for scope in Scope:
                if scope <= order.scope:
                    agent.fenced[scope] = carried
        clocks.tick(agent)


def _overhear(agent: Agent, scope: Scope, serial: int, rows: Rows) -> None:
    """What a relaxed read or wait meets, for the next fence."""
    known = agent.heard.get((scope, serial))
    if known is not rows:
        agent.heard[scope, serial] = rows if known is None else joined(known, rows)


def _initialised(agent: Agent) -> None:
    """fence.mbarrier_init: the cluster may learn of the mbarrier objects that the warp has made, and of nothing else."""
    made = agent.slots.get("mbarrier.init")
    if made is None:
        return
    for scope in (Scope.CTA, Scope.CLUSTER):
        known = agent.fenced.get(scope)
        rows = np.zeros_like(agent.shared)
        if known is not None:
            join(rows, known)
        rows[Row.EXECUTION, made.number] = made.clock
        agent.fenced[scope] = rows


def _execution(rows: Rows) -> Rows:
    """Of what somebody knows, the order of execution alone, which tcgen05 operations follow."""
    made = np.zeros_like(rows)
    made[Row.TENSOR] = rows[Row.TENSOR]
    return made


def relaxed(clocks: Clocks, agent: Agent, opcode: str) -> Rows:
    """What a relaxed arrival carries: the order of execution, and what a fence has released."""
    return joined(agent.fenced.get(min(order_of(opcode).scope, Scope.CLUSTER)), _execution(clocks.carried(agent)))


def relaxed_wait(clocks: Clocks, agent: Agent, opcode: str, carried: Rows) -> None:
    """A relaxed wait learns of the order of execution, and of the rest at the next fence."""
    clocks.learn(agent, _execution(carried))
    _overhear(agent, min(order_of(opcode).scope, Scope.CLUSTER), clocks.serial, carried)
