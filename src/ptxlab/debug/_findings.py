"""What checks find: a plain run of the launch finds it, and notes when, so that the debugger finds the point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxlab.debug._points import Event, WarpName, warp_name
from ptxlab.isa.catalogue import Control
from ptxlab.machine.observe.observer import EarlierAccess, Observer, Tracing

if TYPE_CHECKING:
    from ptxlab.debug._execution import Execution
    from ptxlab.debug._points import Point
    from ptxlab.diagnostics import Diagnostic
    from ptxlab.isa.operands import Op
    from ptxlab.isa.operations import AsyncOperation
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.replay.replay import Replay
    from ptxlab.machine.warp.warp import ConvergedLanes, Warp

__all__ = ["CheckFinding", "check", "ends_threads", "is_access"]


@dataclass(slots=True)
class CheckFinding:
    """A finding of a check, and the point at which the instruction executes that it is about.

    Attributes
    ----------
    finding : as a plain run reports it
    op : the instruction; None if it is about none
    warp : that has executed it
    operation : the number of issue of the asynchronous operation that has performed; -1 if none did
    first, last : the instruction is one of those behind ``first``, up to ``last``, as the launch counts them
    earlier : of two accesses the first one
    step : the number of the point; -1 as long as it is not known
    """

    finding: Diagnostic
    op: Op | None
    warp: WarpName | None
    operation: int
    first: int
    last: int
    earlier: EarlierAccess | None
    step: int = -1

    def is_at(self, execution: Execution, point: Point) -> bool:
        """Whether the finding is made by what happens at a point."""
        if point.event is Event.PERFORMING:
            return point.operation is not None and execution.numbers[point.operation] == self.operation
        if point.event is not Event.INSTRUCTION or self.operation >= 0 or not point.mask or point.op is None or point.warp is None:
            return False
        known = ends_threads(point.op) or (self.op is not None and point.op.index == self.op.index)
        return known and warp_name(point.warp) == self.warp and self.first < execution.executed(point.op) <= self.last


def ends_threads(op: Op) -> bool:
    """Whether threads exit at an instruction; findings about what a CTA leaves behind are made there."""
    return op.row.semantics in (Control.EXIT, Control.RETURN)


def is_access(execution: Execution, point: Point, access: EarlierAccess) -> bool:
    """Whether an earlier access happens at a point: an asynchronous one when its operation performs."""
    name = access.cta, access.warp
    if point.event is Event.PERFORMING and point.operation is not None:
        author = execution.issuers[point.operation]
        return point.operation.op.index == access.op.index and author.warp is not None and warp_name(author.warp) == name
    executes = point.event is Event.INSTRUCTION and point.mask and point.op is not None and point.op.index == access.op.index
    return bool(executes) and point.warp is not None and warp_name(point.warp) == name


class _Log(Observer, Tracing):
    """Notes each finding of a launch with what executes when it is made."""

    def __init__(self) -> None:
        self.found: list[CheckFinding] = []
        self._numbers: dict[AsyncOperation, int] = {}
        self._first = self._issued = 0

    def observe(self, launch: Launch) -> Observer:
        self._launch = launch
        return self

    def running(self, warp: Warp, split: ConvergedLanes) -> None:
        self._first = self._launch.scheduler.now()

    def serviced(self, warp: Warp, op: Op) -> None:
        self._first = self._launch.scheduler.now()

    def issued(self, operation: AsyncOperation) -> None:
        self._numbers[operation] = self._issued
        self._issued += 1

    def reported(self, finding: Diagnostic, op: Op | None, earlier: EarlierAccess | None) -> None:
        order = self._launch.scheduler
        operation = -1 if order.performing is None else self._numbers[order.performing]
        warp = None if order.current is None else warp_name(order.current)
        self.found.append(CheckFinding(finding, op, warp, operation, self._first, order.now(), earlier))


def check(replay: Replay) -> list[CheckFinding]:
    """Run a launch with its checks; return what they find, as the result has it."""
    log = _Log()
    result, _ = replay.run(trace=log, progress=None)
    kept = {(each.code, each.place): each for each in result.diagnostics}
    found = []
    for each in log.found:
        finding = kept.pop((each.finding.code, each.finding.place), None)
        if finding is not None:
            each.finding = finding
            found.append(each)
    return found
