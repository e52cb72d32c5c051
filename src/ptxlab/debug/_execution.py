"""One execution of a launch, in a thread of its own, which stands still at points that the session chooses.

A point is a moment at which the launch can stand still: before each instruction of converged lanes, before an asynchronous operation
performs, at a finding, when only frozen warps could go on, and at the end. Points are numbered from 0. The same choices give the same
points.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.debug._order import ChosenOrder, OrderObserver
from ptxlab.debug._points import Author, Change, Choice, Event, Point
from ptxlab.debug._stepper import Stepper
from ptxlab.machine.launch.launch import Launch, execute
from ptxlab.machine.observe.observer import Observer

if TYPE_CHECKING:
    from ptxlab.diagnostics import Diagnostic
    from ptxlab.isa.context import AsyncOperation
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.result import Result
    from ptxlab.machine.replay.replay import Replay
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Decision", "Execution"]

Decision = Callable[[Point], bool]
"""Whether to stand still at a point."""


class _Abandoned(BaseException):
    """Ends the thread of an execution that is not wanted any more."""


class Execution(OrderObserver):
    """An execution of a launch from its start.

    Parameters
    ----------
    replay : the launch
    stepper : executes the program
    choices : made at points, by the number of the point; the session may add some while the execution stands still
    changed : called at each point with who has executed since the last one; returns which watched values have changed

    Attributes
    ----------
    launch : the machine
    point : where the execution stands
    result : of the launch, once it has ended
    """

    launch: Launch
    point: Point
    result: Result | None = None

    def __init__(
        self, replay: Replay, stepper: Stepper, choices: Mapping[int, Choice], changed: Callable[[Execution, Author], list[Change]]
    ) -> None:
        self.stepper, self.program = stepper, stepper.program
        self._choices = choices
        self.written: dict[int, NDArray[np.uint32]] = {}
        """By the address of a warp's context: for each register the lanes that have been written."""
        self.numbers: dict[AsyncOperation, int] = {}
        """The operations that are outstanding, by the number of issue."""
        self.issuers: dict[AsyncOperation, Author] = {}
        self._replay = replay
        self._changed = changed
        self._changes: list[Change] = []
        self._issued = 0
        self._step = -1
        self.author = Author()
        self._decide: Decision = lambda point: True
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._error: BaseException | None = None
        self._abandoned = self._interrupted = False
        self._thread = threading.Thread(target=self._run, name="ptxlab.debug", daemon=True)
        self._thread.start()
        self._wait()

    # ------------------------------------------------------------------------------------------------------ the session's thread

    def advance(self, decide: Decision) -> Point:
        """Go on to the next point at which ``decide`` returns True, or to the end."""
        if self.result is None:
            self._decide = decide
            self._go.release()
            self._wait()
        return self.point

    def close(self) -> None:
        """Give the execution up."""
        if self._thread.is_alive():
            self._abandoned = True
            self._go.release()
            self._thread.join()

    def _wait(self) -> None:
        try:
            self._stopped.acquire()
        except KeyboardInterrupt:
            self._interrupted = True
            self._stopped.acquire()
        if self._error is not None:
            raise self._error

    # ------------------------------------------------------------------------------------------------------ the launch's thread

    def _run(self) -> None:
        started = time.perf_counter()
        replay = self._replay
        try:
            self.stepper.begin(self)
            options = replace(replay.options, trace=None, outside=None, progress=None)
            launch = Launch(
                replay.restored(),
                replay.kernel.module.ast,
                self.program,
                self.stepper.executable,
                options,
                replay.parameters,
                replay.variables,
                self._observe,
                scheduler=ChosenOrder,
            )
            result = execute(launch, started, None, None)
            self._changes += self._changed(self, self.author)
            self._step += 1
            self.point = Point(self._step, Event.ENDED, changes=self._take_changes())
            self.result = result
        except _Abandoned:
            pass
        except BaseException as error:
            self._error = error
        self._stopped.release()

    def _observe(self, launch: Launch) -> Observer:
        self.launch = launch
        return self

    @property
    def order(self) -> ChosenOrder:
        """The scheduler."""
        order = self.launch.scheduler
        assert isinstance(order, ChosenOrder)
        return order

    def _visit(self, event: Event, **about: Any) -> None:
        """Stand still if that is wanted, then apply what is chosen here. After a choice the same moment is a point again."""
        if self._abandoned:
            raise _Abandoned
        self._changes += self._changed(self, self.author)
        again = False
        while True:
            self._step += 1
            self.point = Point(self._step, event, changes=self._take_changes(), again=again, interrupted=self._interrupted, **about)
            if self._decide(self.point) or self._interrupted:
                self._interrupted = False
                self._stopped.release()
                self._go.acquire()
                if self._abandoned:
                    raise _Abandoned
            choice = self._choices.get(self._step)
            if choice is None:
                return
            self.order.apply(choice, self.numbers)
            self._changes += self._changed(self, self.author)
            again = True

    def _take_changes(self) -> tuple[Change, ...]:
        found, self._changes = tuple(self._changes), []
        return found

    def arrive(self, op: Op, mask: int, converged: int, again: bool) -> None:
        """Converged lanes of the current warp are about to execute an instruction; ``again`` if they have been here before."""
        warp = self.order.current
        assert warp is not None
        if again:
            self._changes += self._changed(self, self.author)
        else:
            self._visit(Event.INSTRUCTION, warp=warp, op=op, mask=mask, converged=converged)
        self.author = Author(warp, op, mask)

    # ------------------------------------------------------------------------------------------------------------------- events

    def fill(self, warp: Warp) -> None:
        self.written[warp.context.address] = np.zeros(len(self.program.registers), np.uint32)

    def retire_hook(self, op: Op) -> None:
        return None

    def issued(self, operation: AsyncOperation) -> None:
        self.numbers[operation] = self._issued
        self.issuers[operation] = self.author
        self._issued += 1

    def performing(self, operation: AsyncOperation) -> None:
        self._visit(Event.PERFORMING, warp=self.order.current, operation=operation, op=operation.op)
        self._before, self.author = self.author, Author(op=operation.op, operation=operation, number=self.numbers[operation])

    def performed(self, operation: AsyncOperation) -> None:
        self._changes += self._changed(self, self.author)
        self.author = self._before
        del self.numbers[operation], self.issuers[operation]

    def reported(self, finding: Diagnostic) -> None:
        self._visit(Event.FINDING, warp=self.order.current, op=self.author.op, mask=self.author.mask, finding=finding)

    def blocked(self) -> None:
        """Only frozen warps could go on."""
        self._visit(Event.BLOCKED)
