"""Waits of converged lanes: which groups of a launch wait, and how they go on when the wait is over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ptxlab.engine.context import Word
from ptxlab.engine.turns.words import QueueWord
from ptxlab.isa.context import Wait
from ptxlab.machine.observe.observer import overridden_hook
from ptxlab.machine.schedule.operations import Operations
from ptxlab.machine.warp.warp import RUN, WAIT, ConvergedLanes, Warp

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import Cluster
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Waits"]

_QUEUED, _POLLED = int(Word.QUEUED), int(QueueWord.POLLED)


class Waits(Operations):
    """Continues the groups whose wait is over."""

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch)
        observer, ops = launch.observer, launch.program.ops
        self._retire_hooks = [None] * len(ops) if observer is None else [observer.retire_hook(op) for op in ops]
        self._on_resumed = overridden_hook(launch.observer, "resumed")

    @property
    def ready(self) -> list[Warp]:
        """The warps that can run."""
        return [warp for queue in self.queues.resident() for warp in queue.ready]

    def block(self, group: ConvergedLanes, wait: Wait, op: int, active: int) -> None:
        """Let a group wait in an instruction, which the lanes of a mask execute."""
        group.state, group.wait, group.op, group.active = WAIT, wait, op, active
        waiters, cluster = getattr(wait.on, "waiters", None), group.warp.cta.group
        if waiters is None:
            waiters = cluster.polling
            cluster.queue.words[_POLLED] += 1
        waiters.append(group)

    def enqueue(self, warp: Warp) -> None:
        """Give a warp its turn."""
        if not warp.words[_QUEUED]:
            warp.words[_QUEUED] = 1
            queue = warp.cta.group.queue
            if queue.random is not None:
                self.queues.enter(queue)
            queue.ready.append(warp)

    def wake(self, waiters: list[Any]) -> None:
        """Continue the groups in the list whose wait is over."""
        groups: list[ConvergedLanes] = waiters[:]
        waiters.clear()
        waiters += self._still_waiting(groups)

    def _still_waiting(self, groups: list[ConvergedLanes]) -> list[ConvergedLanes]:
        """Continue the groups whose wait is over and return the others."""
        still = []
        asked, over = None, False
        for group in groups:
            wait = group.wait
            if wait is None:
                continue
            if wait is not asked:
                asked, over = wait, wait.ready()
            if over:
                self._resume(group, wait)
            else:
                still.append(group)
        return still

    def _resume(self, group: ConvergedLanes, wait: Wait) -> None:
        if self._on_resumed is not None:
            self._on_resumed(group)
        group.wait = None
        group.state = RUN
        warp = group.warp
        if wait.retry:
            group.again = True
            group.retried = wait
        else:
            retire_hook = self._retire_hooks[group.op]
            if retire_hook is not None:
                running, warp.mask = warp.mask, group.active
                retire_hook(warp, self.launch.program.ops[group.op])
                warp.mask = running
        self.enqueue(warp)

    def _poll(self, clusters: Iterable[Cluster]) -> bool:
        """Test the waits of clusters that have no list of waiters; return whether one is over."""
        over = False
        for cluster in clusters:
            waiting = cluster.polling
            if waiting:
                cluster.polling = self._still_waiting(waiting)
                ended = len(waiting) - len(cluster.polling)
                cluster.queue.words[_POLLED] -= ended
                over |= ended > 0
        return over

    def _poll_all(self) -> bool:
        return self._poll([cluster for queue in self.queues.resident() for cluster in queue.clusters])
