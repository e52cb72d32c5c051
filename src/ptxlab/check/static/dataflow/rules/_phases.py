"""Waits on mbarriers that no order of the threads lets pass, in one execution of the kernel.

Each class of threads has a sequence of arrivals and waits. All classes go on as far as they can; more arrivals are assumed than there may
be, and other synchronisation holds nobody up. A wait that still holds is reported if nothing arrives there, or if all threads that arrive
there are held by such waits themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.static.dataflow._kernel import Kernel, Report, is_supplier, mbarrier_operand
from ptxlab.check.static.dataflow._paths import Paths, numbered_columns
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._unrolled import Execution, Step
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.isa.effects import Asynchronous, Completion, CompletionArrival, MbarrierArrive, MbarrierInit, MbarrierWait

__all__ = ["Phases"]

_MANY = 1 << 40
"""Arrivals of an instruction that may make any number of them."""
_ANYWHERE = -1
"""The offset of an mbarrier that is not known: it may be any."""


@dataclass(slots=True)
class _Event:
    """An arrival on an mbarrier, or a wait for a parity of it; ``count`` is the number of arrivals of each thread."""

    point: Point
    offset: int
    threads: NDArray[np.bool_]
    parity: int | None
    count: int = 0


@dataclass(slots=True)
class _Class:
    """Threads with the same events; ``needed`` are the phases that the waits so far have needed, by mbarrier."""

    threads: NDArray[np.bool_]
    events: list[_Event]
    at: int = 0
    needed: dict[int, int] = field(default_factory=dict)

    @property
    def held(self) -> _Event | None:
        """The wait that holds these threads; None at their end."""
        return self.events[self.at] if self.at < len(self.events) else None


class Phases:
    """Collects the arrivals and waits of an execution."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.events: list[_Event] = []
        self.expected: dict[int, int | None] = {}
        """The arrivals of a phase by mbarrier; None if they are not known, or change."""
        self.suppliers = {point.op.index for point in kernel.points if _may_arrive(point)}
        self.unseen = set(self.suppliers)
        self.active = bool(kernel.paths)
        self._repeats: dict[int, bool] = {}

    def __call__(self, kernel: Kernel, step: Step) -> Iterator[Report]:
        """Follow a step; what is found is known at the end."""
        if self.active:
            self._follow(step)
        return iter(())

    def _follow(self, step: Step) -> None:
        point, effect = step.point, step.point.op.effects
        address = mbarrier_operand(point)
        arrives = point.op.index in self.suppliers
        low = None if address is None else address.low(SHARED_RANK_SHIFT)
        if low is None:
            self.active = self.active and not isinstance(effect, MbarrierInit)
            if arrives:
                self.unseen.discard(point.op.index)
                self.events.append(_Event(point, _ANYWHERE, step.threads, None, _MANY))
            return
        self.unseen.discard(point.op.index)
        for offset in [low] if isinstance(low, int) else np.unique(low[step.threads]).tolist():
            threads = step.threads if isinstance(low, int) else step.threads & (low == offset)
            if isinstance(effect, MbarrierInit):
                count = point.named("expected")
                self.expected[offset] = None if count is None or offset in self.expected else count.constant
            elif arrives:
                self.events.append(_Event(point, offset, threads, None, _arrivals(point)))
            elif isinstance(effect, MbarrierWait) and self._holds(point):
                parity = point.named("phaseParity")
                value = None if parity is None else parity.of(int(threads.argmax()))
                if value is not None:
                    self.events.append(_Event(point, offset, threads, value & 1))

    def _holds(self, point: Point) -> bool:
        """Whether threads surely repeat a wait until it succeeds."""
        found = self._repeats.get(point.op.index)
        if found is None:
            sure = point.guard is None or point.guard.exact
            found = self._repeats[point.op.index] = sure and self.kernel.repeats(point)
        return found

    def reports(self, execution: Execution) -> Iterator[Report]:
        """What the whole execution shows."""
        if not self.active or not any(event.parity is not None for event in self.events):
            return
        classes = self._classes()
        self._run(classes)
        held = [each for each in classes if each.held is not None]
        if not held or (execution.lost & ~np.logical_or.reduce([each.threads for each in held])).any() or self._may_have_arrived(held):
            return
        anywhere = self._unfinished_rings(execution)
        reported: set[int] = set()
        causes: list[Report] = []
        circle: list[tuple[bool, Report]] = []
        for each in held:
            wait = each.held
            assert wait is not None
            arrivals = [event for event in self.events if event.parity is None and event.offset in (wait.offset, _ANYWHERE)]
            blocked = all(other.held is not None for other in classes if _executes(other, [*arrivals, *anywhere]))
            elsewhere = any(self.kernel.arrives_elsewhere(event.point) for event in arrivals)
            if wait.offset in reported or not blocked or elsewhere:
                continue
            reported.add(wait.offset)
            if arrivals:
                circle.append((any(_announces_bytes(event) for event in arrivals), _report(wait, arrivals)))
            else:
                causes.append(_report(wait, arrivals))
        # Of a circle, the wait of the threads that fill a stage: the first time it has to succeed at once.
        yield from causes or [report for _, report in sorted(circle, key=lambda found: found[0])[:1]]

    def _may_have_arrived(self, held: list[_Class]) -> bool:
        """Whether threads may execute, on another way than the execution has taken, an arrival before the wait that holds them."""
        for index in self.unseen:
            arrival = self.kernel.flow.points[index]
            executing = self.kernel.executing(arrival)
            for each in held:
                if any(
                    _comes_before(paths, arrival, each) for paths in self.kernel.paths if (paths.threads & each.threads & executing).any()
                ):
                    return True
                executing = executing & ~each.threads
            if executing.any():
                return True
        return False

    def _classes(self) -> list[_Class]:
        inverse = numbered_columns((event.threads for event in self.events), self.kernel.flow.threads.count)
        found = []
        for number in range(int(inverse.max()) + 1):
            threads = inverse == number
            first = int(threads.argmax())
            found.append(_Class(threads, [event for event in self.events if event.threads[first]]))
        return found

    def _run(self, classes: list[_Class]) -> None:
        """Let all threads go on as far as they can."""
        arrived: dict[int, int] = {}
        moved = True
        while moved:
            moved = False
            for each in classes:
                before = each.at
                while (event := each.held) is not None:
                    if event.parity is None:
                        arrived[event.offset] = arrived.get(event.offset, 0) + int(each.threads.sum()) * event.count
                    elif not self._passes(each, event, arrived.get(event.offset, 0) + arrived.get(_ANYWHERE, 0)):
                        break
                    each.at += 1
                moved = moved or each.at > before

    def _passes(self, waiting: _Class, wait: _Event, arrived: int) -> bool:
        """Whether enough phases may be complete for a wait: those that it needs have its parity, and are no less than before."""
        needed = waiting.needed.get(wait.offset, 0)
        needed += (needed + 1 - (wait.parity or 0)) & 1
        expected = self.expected.get(wait.offset)
        if expected is not None and arrived < needed * expected:
            return False
        waiting.needed[wait.offset] = needed
        return True

    def _unfinished_rings(self, execution: Execution) -> list[_Event]:
        """Arrivals in loops whose end is not known that have not come back to their first mbarrier: they may come to any other one."""
        found: dict[int, list[_Event]] = {}
        for event in self.events:
            if event.parity is None:
                found.setdefault(event.point.op.index, []).append(event)
        loops = [self.kernel.flow.loops[header] for header in execution.guessed]
        unfinished = []
        for events in found.values():
            offsets = [event.offset for event in events]
            if len(set(offsets)) > 1 and offsets.count(offsets[0]) == 1 and any(events[0].point.block in loop for loop in loops):
                unfinished += events
        return unfinished


def _comes_before(paths: Paths, arrival: Point, held: _Class) -> bool:
    """Whether some way leads to an arrival without the wait that holds threads, or from there to that wait."""
    wait = held.held
    assert wait is not None
    return paths.leads(arrival, wait.point) or paths.enters(lambda point: point is wait.point, lambda point: point is arrival)


def _may_arrive(point: Point) -> bool:
    """Whether an instruction may arrive on an mbarrier: completed bytes alone are no arrival."""
    effect = point.op.effects
    return is_supplier(point) and not (isinstance(effect, Asynchronous) and effect.completion is Completion.BYTES)


def _arrivals(point: Point) -> int:
    """The most arrivals of a thread that executes an instruction once."""
    effect = point.op.effects
    if isinstance(effect, CompletionArrival):
        return 1 if effect.of is Completion.COMMIT else _MANY
    count = point.named("count")
    return 1 if count is None else count.constant or _MANY


def _announces_bytes(event: _Event) -> bool:
    effect = event.point.op.effects
    return isinstance(effect, MbarrierArrive) and effect.expects


def _executes(threads: _Class, events: list[_Event]) -> bool:
    wanted = {id(event) for event in events}
    return any(id(event) in wanted for event in threads.events)


def _report(wait: _Event, arrivals: list[_Event]) -> Report:
    message = (
        f"where loops turn a few times, {wait.point.op.short} waits for a phase of the mbarrier at shared offset {wait.offset:#x}, and "
    )
    if arrivals:
        first = arrivals[0].point.op
        message += f"all that arrives there, such as {first.short} at line {first.line}, stands behind waits that are not over"
        fix = "let something arrive on this mbarrier before the wait, or wait for the other parity first"
    else:
        message += "nothing arrives there"
        fix = "let a thread, a copy or a commit arrive on this mbarrier"
    # The execution has taken one way at each branch that is not known.
    return Report("H601", wait.point.op, message, fix, "warning")
