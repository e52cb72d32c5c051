"""The scheduler under a debugger: warps can be frozen, and operations performed when the user wants it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ptxlab.debug._points import Choice, WarpName, refuse, warp_name
from ptxlab.engine.context import Context, Word
from ptxlab.isa.operations import AsyncOperation
from ptxlab.machine.observe.observer import Observer
from ptxlab.machine.schedule.scheduler import Scheduler

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["ChosenOrder", "OrderObserver"]


class OrderObserver(Observer):
    """An observer of a launch whose warps can be frozen."""

    @abstractmethod
    def blocked(self) -> None:
        """Only frozen warps could go on."""

    @abstractmethod
    def between_turns(self) -> None:
        """No warp runs, and no operation performs."""


class ChosenOrder(Scheduler):
    """Schedules warps as a plain launch does, as long as nothing is chosen.

    Attributes
    ----------
    frozen : warps that do not run
    alone : the only warp that runs, if there is one
    held : frozen warps that could run
    """

    def __init__(self, launch: Launch, execute: Callable[[Context], int]) -> None:
        super().__init__(launch, execute)
        self.frozen: set[WarpName] = set()
        self.alone: WarpName | None = None
        self.held: list[Warp] = []
        self._not_executed = 0
        self.before_turn = self._order_observer.between_turns

    def is_frozen(self, warp: Warp) -> bool:
        """Whether a warp does not run."""
        if not self.frozen and self.alone is None:
            return False
        name = warp_name(warp)
        return name in self.frozen or self.alone not in (None, name)

    @property
    def chooses(self) -> bool:
        """Whether some warps do not run."""
        return bool(self.frozen or self.held) or self.alone is not None

    def enqueue(self, warp: Warp) -> None:
        if not self.is_frozen(warp):
            super().enqueue(warp)
        elif warp not in self.held:
            self.held.append(warp)

    def apply(self, choice: Choice, numbers: Mapping[AsyncOperation, int]) -> None:
        """Do what is chosen; ``numbers`` are those of the outstanding operations."""
        if choice.action == "perform":
            found = next((o for o in self.pending if numbers[o] == choice.operation), None)
            if found is None:
                raise refuse("G104", f"no operation {choice.operation} is outstanding at point {choice.step}", fix="use the same launch")
            self._perform_chosen(found)
            return
        if choice.action == "alone":
            self.alone = choice.warp
        elif choice.action == "thaw all":
            self.alone = None
            self.frozen.clear()
        else:
            assert choice.warp is not None
            (self.frozen.add if choice.action == "freeze" else self.frozen.discard)(choice.warp)
        for warp in [w for w in self.ready if self.is_frozen(w)]:
            warp.cta.group.queue.ready.remove(warp)
            warp.words[Word.QUEUED] = 0
            self.held.append(warp)
        for warp in [w for w in self.held if not self.is_frozen(w)]:
            self.held.remove(warp)
            super().enqueue(warp)

    def _perform_chosen(self, operation: AsyncOperation) -> None:
        """Perform an operation, perhaps while another one is about to perform."""
        outer = self.running, self.performing
        queue = self._queue_of(operation)
        self._perform(queue, queue.pending.index(operation))
        self.running, self.performing = outer

    @property
    def _order_observer(self) -> OrderObserver:
        observer = self.launch.observer
        assert isinstance(observer, OrderObserver)
        return observer

    def no_progress(self) -> None:
        if not self.held:
            super().no_progress()
        self._order_observer.blocked()

    # ------------------------------------------------------------------------------------------- the warp that runs is frozen

    def leave(self, granted: int) -> None:
        """Note that a warp with diverged lanes gives up instructions of its turn, which then do not count as executed."""
        self._not_executed += granted

    def _run_warp(self, warp: Warp) -> bool:
        used_up = super()._run_warp(warp)
        self.instructions -= self._not_executed
        self._not_executed = 0
        return used_up
