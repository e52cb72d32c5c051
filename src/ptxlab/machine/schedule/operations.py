"""Asynchronous operations of a launch: issued by warps, performed now or later, as the policy says."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import TYPE_CHECKING, cast

from ptxlab.isa.operations import AsyncOperation
from ptxlab.machine.observe.observer import overridden_hooks
from ptxlab.machine.schedule.queues import Queue, Queues

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Operations"]


class Operations:
    """Issues and performs operations.

    Attributes
    ----------
    signals : operations that perform when others are done, in the order of issue; and how many of the others are not done, of those that
        perform in order only the last one
    running : the operation taken from a queue that is performing
    performing : the operation that is performing
    """

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.queues = Queues(launch)
        self.signals: dict[AsyncOperation, int] = {}
        self._signals_of: dict[AsyncOperation, list[AsyncOperation]] = {}
        self.running: AsyncOperation | None = None
        self.performing: AsyncOperation | None = None
        self._eager = launch.policy == "eager"
        self._on_issued, self._on_performing, self._on_performed = overridden_hooks(launch.observer, "issued", "performing", "performed")

    @property
    def pending(self) -> list[AsyncOperation]:
        """The operations that have not performed."""
        return [operation for queue in self.queues.resident() for operation in queue.pending]

    def issue(self, operation: AsyncOperation) -> None:
        """Issue an asynchronous operation; under ``eager`` it performs at once."""
        if self._on_issued is not None:
            self._on_issued(operation)
        if self._eager:
            operation.done = True
            self._carry_out(operation)
        elif operation.after is None:
            self._queue_of(operation).pending.add(operation)
        elif not (others := {other.queue or other: other for other in operation.after if not other.done}):
            self.do(operation)
        else:  # of operations that perform in order the last one
            self.perform_after(operation, others.values())

    def perform_after(self, operation: AsyncOperation, others: Collection[AsyncOperation]) -> None:
        """Let an operation perform when others are done."""
        self.signals[operation] = len(others)
        for other in others:
            self._signals_of.setdefault(other, []).append(operation)

    def _queue_of(self, operation: AsyncOperation) -> Queue:
        queue = cast("CtaState", operation.cta).group.queue
        self.queues.enter(queue)
        return queue

    def _perform(self, queue: Queue, at: int) -> None:
        queue.pending.perform(at, self)

    def do(self, operation: AsyncOperation) -> None:
        """Perform an operation, and those that wait for it."""
        self.running = operation
        operation.done = True
        self._carry_out(operation)
        self.running = None
        if operation.then is not None:
            then, operation.then = operation.then, None  # it refers to the operation
            then()
        self.signal_after(operation)

    def _carry_out(self, operation: AsyncOperation) -> None:
        self.performing = operation
        if self._on_performing is not None:
            self._on_performing(operation)
        operation.perform()
        if self._on_performed is not None:
            self._on_performed(operation)
        self.performing = None
        self.launch.progress += 1

    def signal_after(self, other: AsyncOperation) -> None:
        """Perform those of the operations for which another one was the last that was not done."""
        for operation in self._signals_of.pop(other, ()):
            self.signals[operation] -= 1
            if not self.signals[operation]:
                del self.signals[operation]
                self.do(operation)

    def perform_one(self, queue: Queue) -> bool:
        """Perform an operation of a queue that may perform now."""
        if not queue.pending:
            return False
        self._perform(queue, queue.next_operation())
        return True

    def finish_operations(self, cta: CtaState) -> None:
        """Perform the pending operations of a CTA that exits."""
        queue = cta.group.queue
        while queue.pending and (at := queue.pending.first_of(cta)) >= 0:
            self._perform(queue, at)

    def unperformed(self, cta: CtaState, queue: Hashable, thread: Hashable | None = None) -> list[AsyncOperation]:
        """The operations that perform in a queue, and have not: all, or those of a thread; see `ptxlab.isa.context.Machine`."""
        pending = cta.group.queue.pending
        return [o for o in pending if o.queue == queue] if thread is None else pending.of_thread(queue, thread)
