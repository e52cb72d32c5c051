"""How a session moves through a launch: to positions, forwards, and backwards by executing again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ptxlab.debug._execution import Execution
from ptxlab.debug._inspection import Focus, Inspection
from ptxlab.debug._points import Choice, DebugError, Event, Point, Position, refuse, warp_name
from ptxlab.debug._report import Stop, describe
from ptxlab.debug._stepper import Stepper
from ptxlab.debug._stops import Breakpoint, Stops, find_warp
from ptxlab.isa.effects import (
    Asynchronous,
    ClusterArrive,
    ClusterWait,
    CommitGroup,
    CompletionArrival,
    CtaBarrier,
    MbarrierArrive,
    MbarrierTransactions,
    MbarrierWait,
    WaitGroup,
)

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.result import Result

__all__ = ["Motion"]

_BARRIERS = (CtaBarrier, ClusterArrive, ClusterWait, MbarrierArrive, MbarrierTransactions, MbarrierWait, WaitGroup)
_ASYNCHRONOUS = (Asynchronous, CommitGroup, CompletionArrival)


class Motion(Inspection):
    """Positions, steps, runs, and the same backwards."""

    _stepper: Stepper
    _choices: dict[int, Choice]
    _hits: list[Breakpoint]
    stops: Stops

    def _start(self) -> None:
        """Execute from the start, up to the first point."""
        self.stops.begin()
        self._execution = Execution(self._replay, self._stepper, self._choices, self.stops.changed)
        self._hits = self.stops.hit(self._execution, self._execution.point)

    # ------------------------------------------------------------------------------------------------------------ positions

    @property
    def position(self) -> Position:
        """Where the launch stands."""
        options, step = self._replay.options, self.point.step
        return Position(step, options.policy, options.seed, tuple(c for at, c in sorted(self._choices.items()) if at < step))

    @property
    def result(self) -> Result | None:
        """The result of the launch, at its end."""
        return self._execution.result

    def go_to(self, position: Position) -> Stop:
        """Go to a position, perhaps of another session with the same launch."""
        options = self._replay.options
        if (position.policy, position.seed) != (options.policy, options.seed):
            own = f"policy {options.policy} and seed {options.seed}"
            message = f"the position belongs to policy {position.policy} and seed {position.seed}, the session to {own}"
            raise refuse("G104", message, fix="begin a session with that policy and seed")
        before, here = self._choices, self.point.step
        self._choices = {choice.step: choice for choice in position.choices}
        try:
            self._travel(position.step)
            if self.point.step != position.step:
                raise refuse("G104", f"the launch has no point {position.step}; it ends at {self.point.step}")
        except DebugError:
            self._choices = before
            self._travel(here)
            raise
        return self._stop("position")

    def _travel(self, step: int) -> None:
        """Execute again, to a point."""
        self._execution.close()
        self._start()

        def decide(point: Point) -> bool:
            self._hits = self.stops.hit(self._execution, point)
            return point.step >= step

        if self.point.step < step:
            self._execution.advance(decide)
        self._look_at(self.point)

    def _look_at(self, point: Point) -> None:
        """Choose a thread that executes next; the one that is chosen, if it does."""
        if point.event is not Event.INSTRUCTION or point.warp is None:
            return
        lanes = point.mask or point.converged
        for each in self._hits:
            if each.condition is not None:
                lanes = self.stops.lanes(self._execution, each.condition, point)
        cta, warp = warp_name(point.warp)
        if (cta, warp) != (self.focus.cta, self.focus.warp) or not lanes >> self.focus.lane & 1:
            self.focus = Focus(cta, warp, (lanes & -lanes).bit_length() - 1)

    def where(self) -> Stop:
        """Where the launch stands."""
        return self._stop("position")

    def _stop(self, reason: str) -> Stop:
        return describe(self._execution, self.stops, self._hits, self.position, reason)

    # -------------------------------------------------------------------------------------------------------------- forwards

    def _forward(self, wanted: Callable[[Point], bool], reason: str) -> Stop:
        """Go on to the next point that is wanted, or that a breakpoint, a watchpoint, a finding or an end makes interesting."""

        def decide(point: Point) -> bool:
            self._hits = self.stops.hit(self._execution, point)
            return self._stops_at(point) or point.event is Event.BLOCKED or wanted(point)

        if self.result is None:
            self._hits = []
            self._execution.advance(decide)
        self._look_at(self.point)
        return self._stop(reason)

    def _stops_at(self, point: Point) -> bool:
        failed = point.finding is not None and point.finding.severity == "error"
        return bool(self._hits or point.changes or failed)

    def run(self) -> Stop:
        """Go on to the next breakpoint, watchpoint or error, or to the end."""
        return self._forward(lambda point: False, "ended")

    def step(self, count: int = 1) -> Stop:
        """Execute instructions of the chosen thread."""
        return self._repeat(count, lambda: self._thread(lambda op: True))

    def step_any(self, count: int = 1) -> Stop:
        """Go on by points: one instruction of whatever warp is next, or one asynchronous operation."""
        return self._repeat(count, lambda: self._forward(lambda point: True, "step"))

    def step_line(self, count: int = 1) -> Stop:
        """Execute the chosen thread up to another line of the source, or of the PTX text where it names no source."""
        return self._repeat(count, lambda: self._line(deeper=True))

    def next(self, count: int = 1) -> Stop:
        """Execute instructions of the chosen thread; a call counts as one."""
        return self._repeat(count, lambda: self._to_depth(self._depth()))

    def next_line(self, count: int = 1) -> Stop:
        """As `step_line`, but lines of functions that are called do not count."""
        return self._repeat(count, lambda: self._line(deeper=False))

    def out(self) -> Stop:
        """Execute the chosen thread until it has left its function."""
        return self._to_depth(self._depth() - 1)

    def to_barrier(self) -> Stop:
        """Execute the chosen thread up to an instruction that arrives at a barrier or waits."""
        return self._thread(lambda op: isinstance(op.effects, _BARRIERS))

    def to_asynchronous(self) -> Stop:
        """Go on to the next moment at which an asynchronous operation is issued, committed, or performs."""

        def wanted(point: Point) -> bool:
            issued = point.event is Event.INSTRUCTION and bool(point.mask) and point.op is not None
            return point.event is Event.PERFORMING or (issued and point.op is not None and isinstance(point.op.effects, _ASYNCHRONOUS))

        return self._forward(wanted, "step")

    def _repeat(self, count: int, move: Callable[[], Stop]) -> Stop:
        stop = move()
        for _ in range(count - 1):
            if stop.reason != "step":
                break
            stop = move()
        return stop

    def _is_focus(self, point: Point) -> bool:
        focus = self.focus
        if point.event is not Event.INSTRUCTION or point.warp is None or not point.converged >> focus.lane & 1:
            return False
        return warp_name(point.warp) == (focus.cta, focus.warp) and not point.again

    def _thread(self, wanted: Callable[[Op], bool]) -> Stop:
        """Go on to an instruction of the chosen thread."""
        self._warp()
        focus = self.focus
        gone = False

        def decide(point: Point) -> bool:
            nonlocal gone
            warp = find_warp(self._execution, (focus.cta, focus.warp))
            gone = warp is None or not warp.live >> focus.lane & 1
            return gone or (self._is_focus(point) and point.op is not None and wanted(point.op))

        stop = self._forward(decide, "step")
        return replace(stop, reason="exited") if gone and stop.reason == "step" else stop

    def _depth(self) -> int:
        op = self.op()
        return 0 if op is None else len(op.calls)

    def _to_depth(self, depth: int) -> Stop:
        return self._thread(lambda op: len(op.calls) <= depth)

    def _line_of(self, op: Op) -> tuple[Any, ...]:
        """The line to which an instruction belongs: of the source, if that is known."""
        source = self.stops.sources.at(op.line)
        where = (op.line,) if source is None else (source.file, source.line)
        return (*where, op.calls)

    def _line(self, deeper: bool) -> Stop:
        op, depth = self.op(), self._depth()
        before = None if op is None else self._line_of(op)
        return self._thread(lambda other: self._line_of(other) != before and (deeper or len(other.calls) <= depth))

    # ------------------------------------------------------------------------------------------------------------- backwards

    def _back(self, wanted: Callable[[Point], bool], count: int, reason: str) -> Stop:
        """Go to the last earlier point that is wanted, or to the one that is ``count`` such points back."""
        here = self.point.step
        found: deque[int] = deque(maxlen=max(count, 1))

        def decide(point: Point) -> bool:
            self._hits = self.stops.hit(self._execution, point)
            if point.step < here and wanted(point):
                found.append(point.step)
            return point.step >= here

        self._execution.close()
        self._start()
        if not decide(self.point):
            self._execution.advance(decide)
        enough = len(found) == found.maxlen
        self._travel(found[0] if enough else 0)
        return self._stop(reason if enough else "start")

    def step_back(self, count: int = 1) -> Stop:
        """Undo instructions of the chosen thread."""
        return self._back(self._is_focus, count, "step")

    def step_any_back(self, count: int = 1) -> Stop:
        """Go back by points."""
        self._travel(max(self.point.step - count, 0))
        return self._stop("step" if self.point.step else "start")

    def step_line_back(self) -> Stop:
        """Go back to where the chosen thread began its line, or the line before."""
        before: tuple[Any, ...] | None = None

        def begins(point: Point) -> bool:
            nonlocal before
            if not self._is_focus(point) or point.op is None:
                return False
            last, before = before, self._line_of(point.op)
            return before != last

        return self._back(begins, 1, "step")

    def run_back(self) -> Stop:
        """Go back to the last breakpoint, watchpoint or error, or to the start."""
        return self._back(self._stops_at, 1, "ended")
