"""Paths of threads through a kernel.

Threads for which every known predicate has the same value form a class. A class has a control-flow graph of its own: branches whose
predicate is known for it have one successor. The other branches are alternatives; those on the same symbol are decided alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.static.dataflow._flow import Flow
from ptxlab.check.static.dataflow._graph import Assumptions, Edge, Graph, behind
from ptxlab.check.static.dataflow._matches import Matches, Test
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._values import EVERYWHERE, Symbol, Value
from ptxlab.isa.catalogue import Control

__all__ = ["Paths", "never", "numbered_columns", "paths_of"]

_MOST_CLASSES = 16
_MOST_STATES = 6000
_Marked = Sequence[tuple[Point, bool]]


@dataclass(slots=True)
class _Accepted:
    """The instructions that a test accepts: their blocks as bits, and the last one in each block."""

    points: list[Point] = field(default_factory=list)
    blocks: int = 0
    last: dict[int, int] = field(default_factory=dict)


@dataclass
class Paths:
    """The graph of one class; ``thread`` is its first thread."""

    flow: Flow
    threads: NDArray[np.bool_]
    thread: int
    matches: Matches
    graph: Graph
    _tests: WeakKeyDictionary[Test, _Accepted] = field(default_factory=WeakKeyDictionary)
    """What each test accepts; tests of a rule often refer to the kernel, and end with the rule."""

    # -------------------------------------------------------------------------------------------------------------- edges

    @cached_property
    def edges(self) -> list[list[Edge]]:
        """The successors of each block that the class reaches."""
        found: list[list[Edge]] = []
        for reached, branch, plain in zip(self.flow.reached, self.graph.branches, self.graph.plain, strict=True):
            if reached is None or not reached[self.thread]:
                found.append([])
                continue
            if branch is None:
                found.append(plain)
                continue
            known, needs = self.decided(branch.guard)
            out: list[Edge] = []
            for following, jumps, falls in branch.ways:
                if jumps and falls:
                    out.append(Edge(following, None))
                elif known is None:
                    assert needs is not None
                    followed = needs[0] in self.graph.repeated
                    out.append(Edge(following, (needs[0], needs[1] == jumps) if followed else None))
                elif known == jumps:
                    out.append(Edge(following, None))
            found.append(out)
        return found

    def decided(self, guard: Value | None) -> tuple[bool | None, tuple[int, bool] | None]:
        """Whether a predicate holds in this class; if that is not known, the symbol and the value of it for which it holds."""
        if guard is None:
            return True, None
        if guard.symbol is None:
            return bool(guard.of(self.thread)), None
        if guard.symbol.limits is not None and not guard.symbol.limits[self.thread]:
            return bool(guard.data if isinstance(guard.data, int) else guard.data[self.thread]), None
        self.graph.symbols[id(guard.symbol)] = guard.symbol
        offset = guard.data if isinstance(guard.data, int) else int(guard.data[self.thread])
        return None, (id(guard.symbol), not offset)

    def executes(self, point: Point) -> bool | None:
        """Whether a thread of the class executes an instruction when it reaches it; None: that is not known."""
        return self.decided(point.guard)[0]

    @cached_property
    def reached(self) -> list[bool]:
        """The blocks that the class may reach."""
        found = [False] * len(self.edges)
        work = [0]
        found[0] = True
        while work:
            for edge in self.edges[work.pop()]:
                if not found[edge.block]:
                    found[edge.block] = True
                    work.append(edge.block)
        return found

    def points(self, test: Test) -> list[Point]:
        """The instructions that the class may execute, in scheduling order."""
        return [point for point in self._accepted(test).points if self._entering[point.block] is not None]

    def _accepted(self, test: Test) -> _Accepted:
        found = self._tests.get(test)
        if found is None:
            found = self._tests[test] = _Accepted()
            for point in self.matches(test):
                if self.executes(point) is not False:
                    found.points.append(point)
                    found.blocks |= 1 << point.block
                    found.last[point.block] = point.op.index
        return found

    # ------------------------------------------------------------------------------------------------------------- search

    @cached_property
    def _entering(self) -> list[Assumptions | None]:
        """What surely holds where a block is entered."""
        found: list[Assumptions | None] = [None] * len(self.edges)
        found[0] = frozenset()
        work = [0]
        while work:
            block = work.pop()
            held = found[block]
            assert held is not None
            for edge in self.edges[block]:
                free = edge.needs is None and (not held or edge.block not in self.flow.loops)
                now = held if free else self._enter(held, edge)
                if now is None:
                    continue
                old = found[edge.block]
                new = now if old is None else old & now
                if new != old:
                    found[edge.block] = new
                    work.append(edge.block)
        return found

    def _enter(self, held: Assumptions, edge: Edge) -> Assumptions | None:
        """What holds after an edge; None if it cannot be taken."""
        if edge.needs is not None:
            if (edge.needs[0], not edge.needs[1]) in held:
                return None
            held = held | {edge.needs}
        loop = self.flow.loops.get(edge.block)
        if loop is not None and held:
            key = held, edge.block
            found = self.graph.turned.get(key)
            if found is None:
                found = self.graph.turned[key] = frozenset([each for each in held if not self._varies(self.graph.symbols[each[0]], loop)])
            return found
        return held

    def _varies(self, symbol: Symbol, loop: range) -> bool:
        """Whether a symbol may have another value in the next turn of a loop."""
        key = id(symbol), loop.start
        found = self.graph.variation.get(key)
        if found is None:
            blocks = self.flow.program.blocks
            first, last = blocks[loop.start].start, blocks[loop.stop - 1].stop
            inside = (first <= leaf < last or -1 - leaf in loop for leaf in symbol.leaves)
            found = self.graph.variation[key] = bool(symbol.leaves & EVERYWHERE) or any(inside)
        return found

    def path(self, start: Point | None, stops: Test, goal: Test | None) -> Point | bool | None:
        """Search a path from after an instruction (None: from the entry) to one that is the goal, past none that stops it.

        Without a goal, the path leads to the end of the thread. An instruction that may be executed counts as executed.

        Returns
        -------
        The instruction that is the goal, True for the end of the thread, or None if there is no path, or too many to search: what
        follows from its absence is asked of `reaches`.
        """
        return next(self._found(start, stops, goal), None)

    def _found(self, start: Point | None, stops: Test, goal: Test | None) -> Iterator[Point | bool]:
        """Each goal to which a path leads, past no other goal."""
        if start is None:
            begin, position, held = 0, -1, Assumptions()
        else:
            begin, position = start.block, start.op.index
            entering = self._entering[begin] if self.reached[begin] else None
            if entering is None:
                return
            known, needs = self.decided(start.guard)
            held = entering | {needs} if known is None and needs is not None else entering
        marked: dict[int, _Marked] = {}
        stopping = self.matches.known(stops)
        aiming = None if goal is None else self.matches.known(goal)
        seen: set[tuple[int, Assumptions]] = set()
        work: list[tuple[int, int, Assumptions]] = [(begin, position, held)]
        while work:
            block, after, held = work.pop()
            if block not in marked:
                halts = self.matches.inside(stops, block, stopping)
                goals = () if goal is None or aiming is None else self.matches.inside(goal, block, aiming)
                marked[block] = _in_order(goals, halts)
            found = self._along(marked[block], after, held) if marked[block] else None
            if found is None and goal is None and self._ends(block, held):
                found = True
            if found is not None:
                if found is not False:
                    yield found
                continue
            for edge in self.edges[block]:
                free = edge.needs is None and (not held or edge.block not in self.flow.loops)
                now = held if free else self._enter(held, edge)
                if now is None or (edge.block, now) in seen:
                    continue
                if len(seen) > _MOST_STATES:
                    return
                seen.add((edge.block, now))
                work.append((edge.block, -1, now))

    def _along(self, marked: _Marked, after: int, held: Assumptions) -> Point | bool | None:
        """Go through a block: the goal, False where the path is stopped, or None at its end."""
        for point, is_goal in marked:
            if point.op.index <= after:
                continue
            known, needs = self.decided(point.guard)
            if known is False or (needs is not None and (needs[0], not needs[1]) in held):
                continue
            return point if is_goal else False
        return None

    def _ends(self, block: int, held: Assumptions) -> bool:
        """Whether the thread may end in a block."""
        last = self.flow.points.get(self.flow.program.blocks[block].stop - 1)
        if last is None or last.op.row.semantics not in (Control.EXIT, Control.RETURN):
            return False
        known, needs = self.decided(last.guard)
        return known is not False and (needs is None or (needs[0], not needs[1]) not in held)

    @cached_property
    def _after(self) -> list[int]:
        """For each block, the set of blocks that at least one edge leads to, as bits."""
        return behind([[edge.block for edge in edges] for edges in self.edges], [1 << block for block in range(len(self.edges))])

    def leads(self, start: Point, end: Point) -> bool:
        """Whether any way through the blocks leads from an instruction to another one, whatever the branches need."""
        later = start.block == end.block and start.op.index < end.op.index
        return later or bool(self._after[start.block] >> end.block & 1)

    def reaches(self, start: Point, goal: Test) -> bool:
        """Whether any way through the blocks leads from an instruction to a goal, whatever the branches need."""
        accepted = self._accepted(goal)
        return bool(self._after[start.block] & accepted.blocks) or accepted.last.get(start.block, -1) > start.op.index

    def enters(self, stops: Test, goal: Test) -> bool:
        """Whether any way through the blocks leads from the entry to a goal, past none that surely stops it, whatever the branches need."""
        return self._leads_past(0, -1, stops, goal, False)

    def avoids(self, start: Point, stops: Test, goal: Test) -> bool:
        """Whether any way leads from an instruction to a goal, or to the end of the thread, past none that surely stops it."""
        return self._leads_past(start.block, start.op.index, stops, goal, True)

    def _leads_past(self, block: int, after: int, stops: Test, goal: Test, or_end: bool) -> bool:
        seen, work = set[int](), [(block, after)]
        while work:
            block, after = work.pop()
            for point in self.matches.by_block[block]:
                if point.op.index <= after:
                    continue
                executes = self.executes(point)
                if executes is not False and goal(point):
                    return True
                if executes is True and stops(point):
                    break
            else:
                if or_end and self._ends(block, frozenset()):
                    return True
                new = {edge.block for edge in self.edges[block]} - seen
                seen |= new
                work += [(each, -1) for each in new]
        return False

    def comes_to(self, start: Point, end: Point) -> bool:
        """Whether any way through the blocks leads from an instruction to another one that the class may execute."""
        return self.leads(start, end) and self.executes(end) is not False

    def last_before(self, test: Test) -> dict[int, list[Point | None]]:
        """For each instruction that a test accepts, by its index, those of them that may be the last ones before it; None for the entry."""
        found: dict[int, list[Point | None]] = {}
        for start in (None, *self.points(test)):
            following = {each.op.index for each in self._found(start, never, test) if isinstance(each, Point)}
            for index in following:
                found.setdefault(index, []).append(start)
        return found

    def between(self, start: Point | None, end: Point, test: Test) -> bool:
        """Whether some path from an instruction, or the entry, to another one goes past one that the test accepts."""
        return any((start is None or self.leads(start, point)) and self.comes_to(point, end) for point in self.points(test))


def _in_order(goals: Sequence[Point], stops: Sequence[Point]) -> _Marked:
    """The instructions of a block that are the goal, or stop a path, and whether they are the goal."""
    if not goals:
        return [(point, False) for point in stops] if stops else ()
    found = {point.op.index: (point, False) for point in stops}
    found.update((point.op.index, (point, True)) for point in goals)
    return [each for _, each in sorted(found.items(), key=lambda item: item[0])]


def never(_: Point) -> bool:
    """Accept no instruction."""
    return False


def numbered_columns(rows: Iterable[NDArray[np.bool_]], width: int) -> NDArray[np.intp]:
    """The numbers of the columns of some rows; equal columns have one number."""
    wide = [np.broadcast_to(np.asarray(row, np.bool_), width) for row in {id(row): row for row in rows}.values()]
    matrix = np.stack(list({row.tobytes(): row for row in wide}.values()))
    return np.unique(np.packbits(matrix, axis=0), axis=1, return_inverse=True)[1].reshape(-1)


def _classes(flow: Flow) -> Iterable[NDArray[np.bool_]]:
    """The threads of each class."""
    rows = [reached for reached in flow.reached if reached is not None]
    for guard in {id(point.guard): point.guard for point in flow.points.values()}.values():
        if guard is not None and not isinstance(guard.data, int):
            rows.append(guard.data)
        if guard is not None and guard.symbol is not None and guard.symbol.limits is not None:
            rows.append(guard.symbol.limits)
    unique = numbered_columns(rows, flow.threads.count)
    if unique.max() >= _MOST_CLASSES:
        return
    for number in range(int(unique.max()) + 1):
        yield unique == number


def paths_of(flow: Flow) -> list[Paths]:
    """The graphs of all classes of threads; none if there are too many classes."""
    graph = Graph(flow.program, flow.points)
    found = [Paths(flow, members, int(np.flatnonzero(members)[0]), flow.matches, graph) for members in _classes(flow)]
    return sorted(found, key=lambda paths: paths.thread)
