"""What the scheduler chooses from: one queue for all clusters, or under ``random`` one for each cluster.

A queue of a cluster has random numbers of its own. So what a cluster does depends on the seed and the cluster, and not on the clusters
that run beside it, unless they communicate.
"""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptxlab.isa.operations import AsyncOperation
    from ptxlab.machine.launch.cta import Cluster
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.schedule.turns import ReadyWarps
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Queue", "Queues"]

_PERFORMS = 0.3
"""How probable it is, under ``random``, that an operation performs before a warp runs."""


class Queue:
    """Warps that can run, and operations that have not performed.

    Attributes
    ----------
    random : the random numbers of a cluster, None if the queue is for all
    in_order : whether warps run in the order in which they stand and operations wait until none can run; `performs` and `next_warp` are
        not asked then
    clusters : those that have not ended
    listed : whether it is among those from which `Queues.choose` chooses
    """

    __slots__ = ("clusters", "in_order", "listed", "pending", "random", "ready")

    def __init__(self, random: random.Random | None) -> None:
        self.random = random
        self.in_order = random is None
        self.ready: deque[Warp] | ReadyWarps = deque()
        self.pending: list[AsyncOperation] = []
        self.clusters: list[Cluster] = []
        self.listed = False

    def performs(self) -> bool:
        """Whether an operation performs now, before a warp runs."""
        return self.random is not None and bool(self.pending) and self.random.random() < _PERFORMS

    def next_warp(self) -> Warp:
        """The warp that runs now."""
        if self.random is not None:
            assert isinstance(self.ready, deque)
            self.ready.rotate(-self.random.randrange(len(self.ready)))
        return self.ready.popleft()

    def next_operation(self) -> int:
        """The position of the operation that performs now: the oldest, or under ``random`` any."""
        return self.random.randrange(len(self.pending)) if self.random is not None else 0


class Queues:
    """The queues of a launch; ``common`` is one for all clusters, whatever the policy is."""

    def __init__(self, launch: Launch, common: Queue | None = None) -> None:
        self._launch = launch
        self._seed = launch.options.seed
        self._random = random.Random(self._seed) if launch.policy == "random" and common is None else None
        self._common = common or Queue(None)
        self._listed: list[Queue] = []
        self.only = self._common if self._random is None else None
        """The queue that is always chosen, if there is one."""

    def of_cluster(self, index: int) -> Queue:
        """The queue of a cluster that starts."""
        return self._common if self._random is None else Queue(random.Random(f"{self._seed}, cluster {index}"))

    def resident(self) -> list[Queue]:
        """The queues of all clusters that have not ended."""
        return [self._common] if self._random is None else list(dict.fromkeys(cta.group.queue for cta in self._launch.resident))

    def enter(self, queue: Queue) -> None:
        """Choose a queue too, which now has something to do."""
        if not queue.listed and self._random is not None:
            queue.listed = True
            self._listed.append(queue)

    def choose(self) -> Queue:
        """The queue whose turn it is."""
        if self._random is None or not self._listed:
            return self._common
        return self._listed[self._random.randrange(len(self._listed))]

    def drop(self, queue: Queue) -> bool:
        """Do not choose a queue until it has something to do; whether there are others."""
        if queue.listed:
            queue.listed = False
            self._listed.remove(queue)
        return bool(self._listed)
