"""One execution of a launch, in a thread of its own, which stands still at points that the session chooses.

A point is a moment at which the launch can stand still: before each instruction of converged lanes, before an asynchronous operation
performs, at a finding, when only frozen warps could go on, and at the end. Points are numbered from 0. The same choices give the same
points.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.debug._order import ChosenOrder, OrderObserver
from ptxlab.debug._points import Author, Change, Choice, Event, Point, WarpName, refuse, warp_name
from ptxlab.debug._snapshots import Snapshot, Snapshots
from ptxlab.debug._stepper import Stepper
from ptxlab.engine import Word
from ptxlab.machine.launch.execution import execute
from ptxlab.machine.launch.launch import Launch
from ptxlab.machine.observe.observer import EarlierAccess, Observer

if TYPE_CHECKING:
    from ptxlab.diagnostics import Diagnostic
    from ptxlab.isa.operands import Op
    from ptxlab.isa.operations import AsyncOperation
    from ptxlab.isa.operations.products import Product
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.result import Result
    from ptxlab.machine.replay.replay import Replay
    from ptxlab.machine.warp.warp import Warp

__all__ = ["NEVER", "Decision", "Execution", "Look"]

Decision = Callable[[Point], bool]
"""Whether to stand still at a point."""

NEVER = 1 << 62
_LONGEST_RUN, _LONGEST_NOTED_RUN = 50_000, 500


class Look(NamedTuple):
    """The points about which is decided; compiled code executes what lies between them.

    Attributes
    ----------
    ops : instructions; None for all
    events : whether operations that perform count
    thread : one whose instructions all count: the name of a warp, and a lane
    until : the number of a point
    crossed : called when compiled code has changed a watched value: with the number of a point from which on it has executed; True to look
        at every point from now on. Without it nobody is told
    passed : called with what compiled code has executed: the number of the first point, how many points, the warp, and the lanes that have
        executed all of them
    """

    ops: frozenset[int] | None = None
    events: bool = True
    thread: tuple[WarpName, int] | None = None
    until: int = NEVER
    crossed: Callable[[int], bool] | None = None
    passed: Callable[[int, int, WarpName, int], None] | None = None


_KEPT = ("written", "numbers", "issuers", "author", "_before", "_issued", "_ended", "_step")
"""The attributes of an execution that belong to the point where it stands."""


class _Left(BaseException):
    """Leaves all that the launch is in the middle of: the execution is not wanted any more, or goes back."""


class Execution(OrderObserver):
    """An execution of a launch, which can go back to snapshots.

    Parameters
    ----------
    replay : the launch
    stepper : executes the program
    choices : made at points, by the number of the point; the session may add some while the execution stands still
    marked : numbers of points about which is decided
    counts : belong to the point where the execution stands
    changed : called at each point with who has executed since the last one; returns which watched values have changed

    Attributes
    ----------
    order : the scheduler
    point : where the execution stands
    result : of the launch, once it has ended
    """

    order: ChosenOrder
    point: Point
    result: Result | None = None

    def __init__(
        self,
        replay: Replay,
        stepper: Stepper,
        choices: Mapping[int, Choice],
        marked: Collection[int],
        counts: dict[int, int],
        changed: Callable[[Execution, Author], list[Change]],
    ) -> None:
        self.stepper, self.program = stepper, stepper.program
        self._launch: Launch | None = None
        self._choices = choices
        self.written: dict[int, NDArray[np.uint32]] = {}
        """By the address of a warp's context: for each register the lanes that have been written."""
        self.numbers: dict[AsyncOperation, int] = {}
        """The operations that are outstanding, by the number of issue."""
        self.issuers: dict[AsyncOperation, Author] = {}
        self.snapshots = Snapshots()
        self.multiplied_hook: Callable[[Product], None] | None = None
        """Called with each product of one warp."""
        self._replay = replay
        self._marked, self._counts = marked, counts
        self._changed = changed
        self._changes: list[Change] = []
        self._issued = 0
        self._ended: set[tuple[int, int, int]] = set()
        self._lives: dict[tuple[int, int, int], tuple[int, int]] = {}
        """By CTA: the first point behind its start, and the first one behind its end; as the choices had it that were made last."""
        self._step = -1
        self.author = self._before = Author()
        self._decide: Decision = lambda point: True
        self._look = Look()
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._error: BaseException | None = None
        self._abandoned = self._interrupted = False
        self._back_to: Snapshot | None = None
        self._thread = threading.Thread(target=self._run, name="ptxlab.debug", daemon=True)
        self._thread.start()
        self._wait()

    # ------------------------------------------------------------------------------------------------------ the session's thread

    def advance(self, decide: Decision, look: Look) -> Point:
        """Go on to the next point at which ``decide`` returns True, or to the end; it is asked about asynchronous events, too."""
        if self.closed:
            raise refuse("G104", "the session is closed", fix="make another `Session` of the launch")
        if self.result is None:
            self._decide, self._look = decide, look
            self.stepper.look_at(frozenset() if look.ops is None else look.ops)
            self._go.release()
            self._wait()
        return self.point

    def go_back(self, snapshot: Snapshot, decide: Decision, look: Look) -> Point:
        """Go on from a snapshot instead of from here."""
        self._back_to, self.result = snapshot, None
        return self.advance(decide, look)

    def interrupt(self, wanted: bool = True) -> None:
        """Stand still at the next point, or no longer if that has come too late."""
        self._interrupted = wanted

    def close(self) -> None:
        """Give the execution up."""
        self._abandoned = True
        self._go.release()
        self._thread.join()

    @property
    def closed(self) -> bool:
        """Whether the execution has been given up."""
        return self._abandoned

    def _wait(self) -> None:
        try:
            self._stopped.acquire()
        except KeyboardInterrupt:
            self._interrupted = True
            self._stopped.acquire()
            self._interrupted = False
        error, self._error = self._error, None
        if error is not None:
            raise error

    # ------------------------------------------------------------------------------------------------------ the launch's thread

    def _run(self) -> None:
        started = time.perf_counter()
        while not self._abandoned:
            try:
                if self._back_to is not None:
                    self._restore(self._back_to)
                result = execute(self._launched(), started, None, None)
                self._changes += self._changed(self, self.author)
                self._step += 1
                self.point = Point(self._step, Event.ENDED, changes=self._take_changes())
                self.result = result
            except _Left:
                continue
            except BaseException as error:
                self._error = error
            self._stopped.release()
            self._go.acquire()

    def _launched(self) -> Launch:
        """The launch, made when it is first wanted."""
        if self._launch is None:
            replay = self._replay
            self.stepper.begin(self)
            options = replace(replay.options, trace=None, outside=None, progress=None)
            addresses = replay.parameters, replay.variables
            where = replay.restored(), replay.kernel.module.ast, self.program, self.stepper.executable
            launch = Launch(*where, options, *addresses, self._observe, scheduler=ChosenOrder)
            assert isinstance(launch.scheduler, ChosenOrder)
            self.order = launch.scheduler
            self.stepper.share()
        return self.launch

    def between_turns(self) -> None:
        if self.snapshots.wanted(self._step):
            self.order.take_over_all()
            kept = {name: vars(self)[name] for name in _KEPT}
            roots = self.launch, kept, self._counts, self.stepper.arrived
            self.snapshots.take(self._step, roots, (self, self.stepper, self._replay), kept)

    def _restore(self, snapshot: Snapshot) -> None:
        snapshot.restore()
        vars(self).update(snapshot.attributes)
        self._back_to = None
        self._changed(self, self.author)
        self._changes = []

    def _observe(self, launch: Launch) -> Observer:
        self._launch = launch
        return self

    @property
    def launch(self) -> Launch:
        """The machine."""
        assert self._launch is not None
        return self._launch

    def _visit(self, event: Event, **about: Any) -> None:
        """Stand still if that is wanted, then apply what is chosen here. After a choice the same moment is a point again."""
        self._leave()
        self._changes += self._changed(self, self.author)
        again = False
        while True:
            self._step += 1
            self.point = Point(self._step, event, changes=self._take_changes(), again=again, interrupted=self._interrupted, **about)
            if self._decide(self.point) or self._interrupted:
                self._interrupted = False
                self.order.take_over_all()
                self._stopped.release()
                self._go.acquire()
                self._leave()
            choice = self._choices.get(self._step)
            if choice is None:
                return
            self.order.take_over_all()
            self.order.apply(choice, self.numbers)
            self._changes += self._changed(self, self.author)
            again = True

    def _leave(self) -> None:
        if self._abandoned or self._back_to is not None:
            raise _Left

    def skippable(self, warp: Warp) -> int:
        """How many instructions the current warp may execute before one about which is decided or chosen something."""
        if self._look.thread is not None:
            name, lane = self._look.thread
            found = self.find(name)
            gone = name[0] in self._ended if found is None else not found.live >> lane & 1
            if gone or found is warp:
                return 0
        return self._points_ahead()

    def _points_ahead(self) -> int:
        """How many points follow before one about which is decided or chosen something, if no instruction that counts is among them."""
        if self._look.ops is None or self._changes or self._interrupted or self._abandoned or self._back_to is not None:
            return 0
        until = self._look.until
        if self._choices or self._marked:
            until = min((step for step in (*self._choices, *self._marked) if self._step < step < until), default=until)
        return until - 1 - self._step

    @property
    def only_awaits_ops(self) -> bool:
        """Whether nothing but instructions and events is looked at, whichever warps execute."""
        look = self._look
        return look.thread is None and look.passed is None and look.crossed is None and not self.order.chooses

    def skip(self, warp: Warp, count: int, lanes: int, op: Op | None, active: int) -> None:
        """The current warp has executed instructions in compiled code; ``op``, the last one, if it is known."""
        first = self._step + 1
        if self._look.passed is not None:
            self._look.passed(first, count, warp_name(warp), lanes)
        self._step += count
        self.author = Author(warp, op, active)
        if self._look.crossed is not None and self._changed(self, self.author) and self._look.crossed(first):
            self._look = Look()

    def executed(self, op: Op) -> int:
        """The instructions that the launch has executed, with one at which the current warp stands."""
        return self.order.now() - self.stepper.behind(op.index)

    @property
    def longest_run(self) -> int:
        """How many instructions compiled code may execute at once: one node where a watched value may change."""
        return 1 if self._look.crossed is not None else _LONGEST_RUN if self._look.passed is None else _LONGEST_NOTED_RUN

    def find(self, name: WarpName) -> Warp | None:
        """A warp by name, if its CTA is resident."""
        return next((w for cta in self.launch.resident if cta.ctaid == name[0] for w in cta.warps if w.warp_id == name[1]), None)

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
        written = self.written[warp.context.address] = np.zeros(len(self.program.registers), np.uint32)
        warp.words[Word.WRITTEN] = written.ctypes.data

    def started(self, ctas: tuple[CtaState, ...]) -> None:
        self._lives |= {cta.ctaid: (self._step + 1, NEVER) for cta in ctas}

    def ended(self, cta: CtaState) -> None:
        self._ended.add(cta.ctaid)
        self._lives[cta.ctaid] = self._lives[cta.ctaid][0], self._step + 1

    def life(self, cta: tuple[int, int, int]) -> tuple[int, int]:
        """The points of a CTA: the first one, and the one behind the last, or `NEVER` if that has not come."""
        began, ended = self._lives.get(cta, (0, NEVER))
        return began, ended if cta in self._ended else NEVER

    def retire_hook(self, op: Op) -> None:
        return None

    def allows_direct_completion(self, op: Op) -> bool:
        return True

    def issued(self, operation: AsyncOperation) -> None:
        self.numbers[operation] = self._issued
        self.issuers[operation] = self.author
        self._issued += 1

    @property
    def issued_operations(self) -> int:
        """How many operations have been issued."""
        return self._issued

    def multiplied(self, warp: Warp, details: Callable[[], Product]) -> None:
        if self.multiplied_hook is not None:
            self.multiplied_hook(details())

    def performing(self, operation: AsyncOperation) -> None:
        look = self._look
        if look.events or look.crossed is not None or self._points_ahead() < 1:
            self._visit(Event.PERFORMING, warp=self.order.current, operation=operation, op=operation.op)
        else:
            self._step += 1
        self._before, self.author = self.author, Author(op=operation.op, operation=operation, number=self.numbers[operation])

    def performed(self, operation: AsyncOperation) -> None:
        self._changes += self._changed(self, self.author)
        self.author = self._before
        del self.numbers[operation], self.issuers[operation]

    def reported(self, finding: Diagnostic, op: Op | None, earlier: EarlierAccess | None) -> None:
        self._visit(Event.FINDING, warp=self.order.current, op=self.author.op, mask=self.author.mask, finding=finding)

    def blocked(self) -> None:
        """Only frozen warps could go on."""
        self._visit(Event.BLOCKED)
