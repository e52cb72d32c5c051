"""What the scheduler chooses from: one queue for all clusters, or under ``random`` one for each cluster.

A queue of a cluster has random numbers of its own. So what a cluster does depends on the seed and the cluster, and not on the clusters
that run beside it, unless they communicate.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.turns.words import PERFORMS, QueueWord, TurnWord
from ptxlab.machine.schedule.draws import Draws
from ptxlab.machine.schedule.pending import PendingOperations
from ptxlab.machine.schedule.shared_operations import CompiledOperations, SharedOperations
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import Cluster
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.schedule.turns import CompiledTurns, ReadyWarps
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Queue", "Queues"]

_CHOSEN = int(TurnWord.CHOSEN)


class Queue:
    """Warps that can run, and operations that have not performed.

    Parameters
    ----------
    seed : that of the random numbers of a cluster, None if the queue is for all clusters

    Attributes
    ----------
    words : those of `QueueWord`
    address : their host address
    random : the random numbers, if there are any
    in_order : whether warps run in the order in which they stand and operations wait until none can run; `performs` and `next_warp` are
        not asked then
    pending : the operations
    clusters : those that have not ended
    has_performed : whether compiled code has chosen the queue, and an operation has performed, so that none performs before a warp runs
    listed : whether it is among those from which `Queues.choose` chooses
    """

    __slots__ = ("address", "clusters", "has_performed", "in_order", "listed", "pending", "random", "ready", "words")

    def __init__(self, seed: str | None) -> None:
        words: NDArray[np.int64] = np.zeros(QueueWord.END, np.int64)
        self.words, self.address = words.data, address_of(words)
        self.random = None if seed is None else Draws(seed, self.words)
        self.in_order = seed is None
        self.ready: deque[Warp] | ReadyWarps = deque()
        self.pending: PendingOperations | SharedOperations = PendingOperations(self.words)
        self.clusters: list[Cluster] = []
        self.listed = self.has_performed = False

    def share(self, compiled: CompiledOperations) -> None:
        """Let compiled code issue and perform operations; there are none yet."""
        self.pending = SharedOperations(self.words, compiled)

    def performs(self) -> bool:
        """Whether an operation performs now, before a warp runs."""
        if self.has_performed:
            self.has_performed = False
            return False
        return self.random is not None and bool(self.pending) and self.random.below(PERFORMS)

    def next_warp(self) -> Warp:
        """The warp that runs now."""
        if self.random is not None:
            self.ready.rotate(-self.random.randrange(len(self.ready)))
        return self.ready.popleft()

    def next_operation(self) -> int:
        """The position of the operation that performs now: the oldest, or under ``random`` any."""
        return self.random.randrange(len(self.pending)) if self.random is not None else 0


class Queues:
    """The queues of a launch; ``common`` is one for all clusters, whatever the policy is.

    Attributes
    ----------
    operations : what lets compiled code issue and perform operations, if it may
    """

    def __init__(self, launch: Launch, common: Queue | None = None) -> None:
        self._launch = launch
        self._seed = launch.options.seed
        self._common = common or Queue(None)
        self._listed: list[Queue] = []
        self._random: Draws | None = None
        self._turns: CompiledTurns | None = None
        self.operations: CompiledOperations | None = None
        if launch.policy == "random" and common is None:
            self._random = Draws(self._seed, self._common.words)
        self.only = self._common if self._random is None else None
        """The queue that is always chosen, if there is one."""

    def share(self, turns: CompiledTurns, operations: CompiledOperations | None = None) -> None:
        """Let compiled code begin turns of the warps that can run, and issue and perform operations."""
        self._turns, self.operations = turns, operations
        if operations is not None:
            self._common.share(operations)
        if self._random is None:
            self._common.ready = turns.queue(self._common.words, turns.most_warps)
        else:
            turns.words[TurnWord.CHOICES] = self._common.address
            self._tell()

    def of_cluster(self, index: int) -> Queue:
        """The queue of a cluster that starts."""
        if self._random is None:
            return self._common
        queue = Queue(f"{self._seed}, cluster {index}")
        if self._turns is not None:
            queue.ready = self._turns.queue(queue.words, self._launch.cluster_size * self._launch.warps_per_cta)
        if self.operations is not None:
            queue.share(self.operations)
        return queue

    def resident(self) -> list[Queue]:
        """The queues of all clusters that have not ended."""
        return [self._common] if self._random is None else list(dict.fromkeys(cta.group.queue for cta in self._launch.resident))

    def enter(self, queue: Queue) -> None:
        """Choose a queue too, which now has something to do."""
        if not queue.listed and self._random is not None:
            queue.listed = True
            self._listed.append(queue)
            self._tell()

    def choose(self) -> Queue:
        """The queue whose turn it is."""
        if self._random is None or not self._listed:
            return self._common
        if self._turns is not None and (address := self._turns.words[_CHOSEN]):
            self._turns.words[_CHOSEN] = 0
            chosen = next(queue for queue in self._listed if queue.address == address)
            chosen.has_performed = True
            return chosen
        return self._listed[self._random.randrange(len(self._listed))]

    def drop(self, queue: Queue) -> bool:
        """Do not choose a queue until it has something to do; whether there are others."""
        if queue.listed:
            queue.listed = False
            self._listed.remove(queue)
            self._tell()
        return bool(self._listed)

    def _tell(self) -> None:
        """Tell compiled code from which queues it chooses."""
        if self._turns is not None:
            self._turns.list_queues([queue.address for queue in self._listed])
