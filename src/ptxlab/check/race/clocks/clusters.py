"""What is kept of clusters: all of those that run; of those that have exited only the names of their warps."""

from __future__ import annotations

from typing import NamedTuple

from ptxlab.check.race.clocks.clocks import Clocks
from ptxlab.check.race.shadow.shadow_ir import CLUSTER_SHIFT
from ptxlab.isa.effects import Completion

__all__ = ["Clusters"]

_OF_A_LANE = (Completion.COMMIT, "bulk reads", "bulk group")
"""Slots that number what one lane issues."""
_STORES = 256
"""Bulk copies of one slot that are remembered."""


class _Exited(NamedTuple):
    """The CTAs of a cluster, the warps of each, and the warp of each slot."""

    ctas: tuple[tuple[int, int, int], ...]
    warps: int
    owners: tuple[int, ...]


class Clusters:
    """The clusters of a launch by their numbers."""

    def __init__(self) -> None:
        self._running: dict[int, Clocks] = {}
        self._exited: dict[int, _Exited] = {}
        self._owners: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._stores: dict[int, dict[tuple[int, int], tuple[int, int]]] = {}
        """By cluster: the newest bulk copies from shared memory of each slot, as their clocks and digests."""

    def start(self, clocks: Clocks) -> None:
        """A cluster starts."""
        self._running[clocks.serial] = clocks

    def leave(self, clocks: Clocks) -> None:
        """All CTAs of a cluster have exited."""
        owners = tuple(-1 if owner is None else owner.index for owner, _ in clocks.owners)
        ctas = tuple(clocks.agents[first].cta.ctaid for first in range(0, len(clocks.agents), clocks.warps))
        self._exited[clocks.serial] = _Exited(ctas, clocks.warps, self._owners.setdefault(owners, owners))
        self._running.pop(clocks.serial, None)
        self._stores.pop(clocks.serial, None)

    def owner(self, serial: int, slot: int) -> str | None:
        """The warp that a slot belongs to, for reports."""
        running = self._running.get(serial)
        if running is not None:
            agent, what = running.owners[slot]
            lane = f"lane {what[1]} of " if isinstance(what, tuple) and what[0] in _OF_A_LANE else ""
            return None if agent is None else f"{lane}warp {agent.warp} of CTA {agent.cta.describe()}"
        exited = self._exited[serial]
        index = exited.owners[slot]
        if index < 0:
            return None
        x, y, z = exited.ctas[index // exited.warps]
        return f"warp {index % exited.warps} of CTA ({x}, {y}, {z})"

    def stored(self, slot: int, clock: int, digest: int) -> None:
        """Keep the digest of a bulk copy from shared memory."""
        self._stores.setdefault(slot >> CLUSTER_SHIFT, {})[slot, clock % _STORES] = clock, digest

    def same_store(self, one: tuple[int, int], other: tuple[int, int]) -> bool:
        """Whether two bulk copies of a cluster, by slot and clock, write the same to the same place."""
        held = self._stores.get(one[0] >> CLUSTER_SHIFT, {})
        digests = [digest for slot, clock in (one, other) for at, digest in [held.get((slot, clock % _STORES), (-1, 0))] if at == clock]
        return len(digests) == 2 and digests[0] == digests[1]
