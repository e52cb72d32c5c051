"""How a session moves backwards: it executes again from a snapshot, and finds the last point that is wanted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from ptxlab.debug._execution import NEVER, Look
from ptxlab.debug._points import Interrupted, Point, WarpName
from ptxlab.debug._report import Stop
from ptxlab.debug.motion.forwards import Forwards, interruptible

__all__ = ["Motion"]

_PIECES = 50, 400
"""Instructions of a thread among which the begin of a line is looked for: at first, and at most."""


def _pieces(runs: list[tuple[int, int]]) -> Iterator[int]:
    """The points at which pieces of the instructions of a thread begin, the last first."""
    count, (size, most) = 0, _PIECES
    for first, many in reversed(runs):
        count += many
        if count >= size or first == runs[0][0]:
            count, size = 0, min(2 * size, most)
            yield first


class Motion(Forwards):
    """Positions, steps, runs, and the same backwards."""

    def _scan(self, see: Callable[[Point], object], look: Look, first: int, end: int) -> None:
        """Execute again, and see the points from ``first`` to before ``end`` that are looked at."""

        def decide(point: Point) -> bool:
            self._hits = self.stops.hit(self._execution, point)
            if point.step < end:
                see(point)
            return point.step >= end

        focus = self.focus
        self._travel(first)
        self.focus = focus
        if self.point.step < end:
            see(self.point)
            ops = None if look.ops is None else look.ops | self.stops.places
            self._execution.advance(decide, look._replace(ops=ops, until=end))
            if self.point.interrupted:
                raise Interrupted

    def _back_to(self, step: int | None, reason: str) -> Stop:
        """Go to an earlier point; to the start if there is none that is wanted."""
        self._travel(step or 0)
        return self._stop("start" if step is None else reason)

    def _stretches(self, began: int = 0, ended: int = NEVER) -> list[tuple[int, int]]:
        """What lies before here, between the snapshots, the last first: the first point, and the one behind the last.

        Nothing is wanted before ``began``, and from ``ended`` on.
        """
        here = min(self.point.step, ended)
        firsts = [each.step + 1 for each in self._execution.snapshots.taken if began < each.step + 1 < here]
        return list(pairwise([began, *firsts, here]))[::-1] if began < here else []

    @interruptible
    def step_back(self, count: int = 1) -> Stop:
        """Undo instructions of the chosen thread."""
        name, lane = self._focused
        found: list[int] = []
        for first, end in self._stretches(*self._execution.life(self.focus.cta)):
            here: deque[int] = deque(maxlen=count)

            def see(point: Point, here: deque[int] = here) -> None:
                if self._is_focus(point):
                    here.append(point.step)

            def passed(first: int, many: int, warp: WarpName, lanes: int, here: deque[int] = here) -> None:
                if warp == name and lanes >> lane & 1:
                    here.extend(range(max(first, first + many - count), first + many))

            self._scan(see, Look(frozenset(), events=False, passed=passed), first, end)
            found = [*here, *found]
            if len(found) >= count:
                break
        return self._back_to(found[-count] if len(found) >= count else None, "step")

    @interruptible
    def step_any_back(self, count: int = 1) -> Stop:
        """Go back by points."""
        self._travel(max(self.point.step - count, 0))
        return self._stop("step" if self.point.step else "start")

    @interruptible
    def step_line_back(self) -> Stop:
        """Go back to where the chosen thread began its line, or the line before."""
        name, lane = self._focused
        behind = 0
        """Before which a begin is looked for: there the thread executes, if this is not 0."""
        for first, end in self._stretches(*self._execution.life(self.focus.cta)):
            runs: list[tuple[int, int]] = []
            """The points at which the thread executes, and how many they are: one, or more in compiled code."""

            def see(point: Point, runs: list[tuple[int, int]] = runs) -> None:
                if self._is_focus(point):
                    runs.append((point.step, 1))

            def passed(first: int, many: int, warp: WarpName, lanes: int, runs: list[tuple[int, int]] = runs) -> None:
                if warp == name and lanes >> lane & 1:
                    runs.append((first, many))

            self._scan(see, Look(frozenset(), events=False, passed=passed), first, end)
            behind = behind or (sum(runs[-1]) if runs else 0)
            for start in _pieces(runs):
                begins = self._line_begins(start, behind)
                if begins:
                    return self._back_to(begins[-1], "step")
                behind = start + 1
        return self._back_to(behind - 1 if behind else None, "step")

    def _line_begins(self, first: int, end: int) -> list[int]:
        """The points from one to another at which the chosen thread begins a line that differs from that of its instruction before."""
        found: list[int] = []
        before: tuple[Any, ...] | None = None

        def see(point: Point) -> None:
            nonlocal before
            if self._is_focus(point) and point.op is not None:
                last, before = before, self._line_of(point.op)
                if last not in (None, before):
                    found.append(point.step)

        self._scan(see, Look(frozenset(), events=False, thread=self._focused), first, end)
        return found

    @interruptible
    def run_back(self) -> Stop:
        """Go back to the last breakpoint, watchpoint or error, or to the start."""
        found: list[int] = []
        crossed: list[int] = []

        def see(point: Point) -> None:
            if self._stops_at(point):
                found.append(point.step)

        def cross(first: int) -> bool:
            crossed.append(first)
            return False

        for first, end in self._stretches():
            self._scan(see, Look(frozenset(), events=False, crossed=cross if self.stops.watching else None), first, end)
            last = found[-1] if found else -1
            while crossed and last < crossed[-1]:
                before = crossed.pop()
                self._scan(see, Look(), max(before - 1, 0), min(before + self._stepper.longest + 1, end))
                last = max(last, found[-1] if found else -1)
            if last >= 0:
                return self._back_to(last, "ended")
        return self._back_to(None, "ended")
