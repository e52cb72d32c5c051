"""The operations of a queue that have not performed, where the machine issues and performs all of them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from ptxlab.engine.turns.words import QueueWord
from ptxlab.isa.operations import AsyncOperation

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.schedule.operations import Operations

__all__ = ["PendingOperations"]

_PENDING = int(QueueWord.PENDING)


class PendingOperations(list[AsyncOperation]):
    """Operations in the order of issue.

    Parameters
    ----------
    words : those of `QueueWord`
    """

    __slots__ = ("_words",)

    def __init__(self, words: memoryview) -> None:
        self._words = words

    def add(self, operation: AsyncOperation) -> None:
        """An operation that the machine has issued is to be performed."""
        self.append(operation)
        self._words[_PENDING] += 1

    def perform(self, at: int, operations: Operations) -> None:
        """Perform the operation at a position; or if it is in order with others, the oldest of these."""
        order = self[at].queue
        if order is not None:
            at = 0
            while self[at].queue != order:
                at += 1
        self._words[_PENDING] -= 1
        operations.do(self.pop(at))

    def first_of(self, cta: CtaState) -> int:
        """The position of the first operation of a CTA, -1 if there is none."""
        return next((at for at, operation in enumerate(self) if operation.cta is cta), -1)

    def of_thread(self, queue: Hashable, thread: Hashable) -> list[AsyncOperation]:
        """The operations of a thread that perform in a queue, in order."""
        return [operation for operation in self if operation.queue == queue and operation.thread == thread]

    def take_over_signals(self) -> None:
        """Let the machine perform the commits that compiled code has issued: there are none."""
