"""How a session moves through a launch: to positions, and forwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ptxlab.debug._execution import Execution, Look
from ptxlab.debug._inspection import Focus, Inspection
from ptxlab.debug._points import Choice, DebugError, Event, Interrupted, Point, Position, WarpName, refuse, warp_name
from ptxlab.debug._report import Stop, describe
from ptxlab.debug._stepper import Stepper
from ptxlab.debug._stops import Breakpoint, Stops
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

__all__ = ["Forwards", "interruptible"]

_BARRIERS = (CtaBarrier, ClusterArrive, ClusterWait, MbarrierArrive, MbarrierTransactions, MbarrierWait, WaitGroup)
_ASYNCHRONOUS = (Asynchronous, CommitGroup, CompletionArrival)

P = ParamSpec("P")
M = TypeVar("M", bound="Forwards")


def interruptible(move: Callable[Concatenate[M, P], Stop]) -> Callable[Concatenate[M, P], Stop]:
    """Let a motion to an earlier point end where it began if it is interrupted."""

    @wraps(move)
    def moved(session: M, /, *args: P.args, **named: P.kwargs) -> Stop:
        here, focus, hits = session.point.step, session.focus, session._hits
        try:
            return move(session, *args, **named)
        except Interrupted:
            session._return_to(here)
            session.focus, session._hits = focus, hits
            return replace(session.where(), reason="interrupted", breakpoints=(), changes=())

    return moved


class Forwards(Inspection):
    """Positions, steps and runs."""

    _stepper: Stepper
    _choices: dict[int, Choice]
    _hits: list[Breakpoint]
    stops: Stops

    def _start(self) -> None:
        """Execute from the start, up to the first point."""
        self._execution = Execution(self._replay, self._stepper, self._choices, self.stops.found, self.stops.counts, self.stops.changed)
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

    @interruptible
    def go_to(self, position: Position) -> Stop:
        """Go to a position, perhaps of another session with the same launch."""
        options = self._replay.options
        if (position.policy, position.seed) != (options.policy, options.seed):
            own = f"policy {options.policy} and seed {options.seed}"
            message = f"the position belongs to policy {position.policy} and seed {position.seed}, the session to {own}"
            raise refuse("G104", message, fix="begin a session with that policy and seed")
        before, here = dict(self._choices), self.point.step
        try:
            self._travel(position.step, self._choose_all({choice.step: choice for choice in position.choices}))
            if self.point.step != position.step:
                raise refuse("G104", f"the launch has no point {position.step}; it ends at {self.point.step}")
        except DebugError:
            self._choose_all(before)
            self._return_to(here, anew=True)
            raise
        return self._stop("position")

    def _choose_all(self, choices: dict[int, Choice]) -> bool:
        """Replace the choices of the session; return whether they differ before where the launch stands."""
        differ = [step for step in {*choices, *self._choices} if choices.get(step) != self._choices.get(step)]
        self._choices.clear()
        self._choices.update(choices)
        if not differ:
            return False
        self._execution.snapshots.forget_from(min(differ))
        self.stops.found.clear()
        return min(differ) <= self.point.step

    def _travel(self, step: int, anew: bool = False) -> None:
        """Go to a point, from here if it lies ahead, or ``anew`` from a snapshot."""
        execution = self._execution
        snapshot = execution.snapshots.before(step - 1 if self.stops.watching else step)

        def decide(point: Point) -> bool:
            self._hits = self.stops.hit(execution, point)
            return point.step >= until

        for until in (step - 1, step) if self.stops.watching and step else (step,):
            look = Look(self.stops.places, events=False, until=until)
            if anew or not snapshot.step <= execution.point.step <= until:
                execution.go_back(snapshot, decide, look)
            elif execution.point.step < until:
                execution.advance(decide, look)
            else:
                continue
            anew = False
            if self.point.interrupted:
                raise Interrupted
        self._look_at(self.point)

    def _return_to(self, step: int, anew: bool = False) -> None:
        """Go to a point, also if that is interrupted."""
        while True:
            try:
                return self._travel(step, anew)
            except Interrupted:
                anew = False

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

    def _forward(self, wanted: Callable[[Point], bool], reason: str, look: Look) -> Stop:
        """Go on to the next point that is wanted, or that a breakpoint, a watchpoint, a finding or an end makes interesting."""
        crossed: list[int] = []

        def decide(point: Point) -> bool:
            self._hits = self.stops.hit(self._execution, point)
            return bool(crossed) or self._stops_at(point) or point.event is Event.BLOCKED or wanted(point)

        def cross(first: int) -> bool:
            crossed.append(first)
            return True

        if self.result is None:
            self._hits = []
            if look.ops is not None:
                look = look._replace(ops=look.ops | self.stops.places, crossed=cross if self.stops.watching else None)
            self._execution.advance(decide, look)
            if crossed:
                self._return_to(crossed.pop() - 1)
                self._execution.advance(decide, Look())
        self._look_at(self.point)
        return self._stop(reason)

    def _stops_at(self, point: Point) -> bool:
        failed = any(finding.severity != "note" for finding in self.stops.findings(point))
        return bool(self._hits or point.changes or failed)

    def run(self) -> Stop:
        """Go on to the next breakpoint, watchpoint or error, or to the end."""
        return self._forward(lambda point: False, "ended", Look(frozenset(), events=False))

    def step(self, count: int = 1) -> Stop:
        """Execute instructions of the chosen thread."""
        return self._repeat(count, lambda: self._thread(lambda op: True))

    def step_any(self, count: int = 1) -> Stop:
        """Go on by points: one instruction of whatever warp is next, or one asynchronous operation."""
        return self._repeat(count, lambda: self._forward(lambda point: True, "step", Look()))

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
        issuing = frozenset(op.index for op in self.launch.program.ops if isinstance(op.effects, _ASYNCHRONOUS))

        def wanted(point: Point) -> bool:
            issued = point.event is Event.INSTRUCTION and bool(point.mask) and point.op is not None
            return point.event is Event.PERFORMING or (issued and point.op is not None and point.op.index in issuing)

        return self._forward(wanted, "step", Look(issuing))

    def _repeat(self, count: int, move: Callable[[], Stop]) -> Stop:
        stop = move()
        for _ in range(count - 1):
            if stop.reason != "step":
                break
            stop = move()
        return stop

    @property
    def _focused(self) -> tuple[WarpName, int]:
        """The chosen thread."""
        return (self.focus.cta, self.focus.warp), self.focus.lane

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
            warp = self._execution.find((focus.cta, focus.warp))
            gone = warp is None or not warp.live >> focus.lane & 1
            return gone or (self._is_focus(point) and point.op is not None and wanted(point.op))

        stop = self._forward(decide, "step", Look(frozenset(), thread=self._focused))
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
