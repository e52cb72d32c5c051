"""One execution of a kernel on known values: counted loops turn as often as they do, others a few times.

Threads that part at a branch go on apart, those that are furthest behind first, and join where they meet. A branch that is not known
leads into a loop, executes its loop once more, or falls through; what is found after it holds on one path only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.static.dataflow._evaluate import State
from ptxlab.check.static.dataflow._flow import Flow
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._values import Value
from ptxlab.isa.effects import MbarrierWait

__all__ = ["Execution", "Step"]

_TURNS = 6
"""How often a loop turns whose end is not known: once more than there are stages in most pipelines."""
_BUDGET = 2000
_SHARE = 3
"""The most instructions: the budget, and so many times those of the kernel."""

Threads = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction with the values of its operands at one execution.

    Attributes
    ----------
    threads : those that execute it; those that may, if its guard is not known
    reached : those that are there together
    certain : whether they surely come here with these values
    """

    point: Point
    threads: Threads
    reached: Threads
    certain: bool


@dataclass(slots=True)
class _Group:
    """Threads that are at the start of a block; what is assumed of their way holds up to a block, or to the end."""

    threads: Threads
    state: State
    until: int = 0
    turned: bool = False


class Execution:
    """The instructions that the rules look at, in an order in which a launch may execute them.

    Parameters
    ----------
    flow : what is known of the program
    guess : turn loops whose end is not known. Otherwise threads are followed up to the end of the first turn of such a loop: nothing after
        it is certain.

    Attributes
    ----------
    guessed : the headers of the loops that have been left though their end is not known
    lost : threads that have not been followed to their end
    """

    def __init__(self, flow: Flow, guess: bool = True) -> None:
        self.flow = flow
        self.guess = guess
        self.program = flow.program
        self.groups: dict[int, _Group] = {}
        self.turns: dict[int, int] = {}
        self.assumed: dict[int, bool] = {}
        self.joins = 0
        self.guessed: set[int] = set()
        self.lost = np.zeros(flow.threads.count, np.bool_)
        self._spinning: dict[int, bool] = {}

    def __iter__(self) -> Iterator[Step]:
        program, solver = self.program, self.flow.solver
        self.groups[0] = _Group(self.flow.threads.everything, dict(solver.specials))
        left = _BUDGET + _SHARE * len(program.ops)
        while self.groups and left > 0:
            number = min(self.groups)
            group = self.groups.pop(number)
            block = program.blocks[number]
            left -= block.stop - block.start
            certain = not group.turned and number >= group.until
            for point in solver.execute(number, group.state, group.threads):
                threads, known = _executing(point.guard, group.threads)
                if threads.any():
                    yield Step(point, threads, group.threads, certain and known)
            self._leave(number, group)
        for group in self.groups.values():
            self.lost |= group.threads

    def _leave(self, number: int, group: _Group) -> None:
        """Send the threads at the end of a block to its successors."""
        block = self.program.blocks[number]
        last = self.program.ops[block.stop - 1]
        guard = None if last.guard is None else self.flow.solver.evaluator.operand(last.guard, group.state, 1)
        live = {r: group.state[r] for r in self.flow.solver.live_after(number) if r in group.state}
        state = {**self.flow.solver.specials, **live}
        branches = last.row.kind == "control" and guard is not None
        if not branches and len(block.successors) > 1:
            self.lost |= group.threads
            return
        if branches and guard is not None and guard.symbol is not None and len(block.successors) > 1:
            chosen = self._chosen(number, guard, group)
            if group.turned and not self.guess:
                self.lost |= group.threads
                return
            self._send(number, chosen, _Group(group.threads, state, group.until, group.turned))
            return
        for following in block.successors:
            exact = None if guard is not None and guard.symbol is not None else guard
            threads = self.flow.solver.into(last, exact, group.threads, following, block.fall)
            if threads.any():
                self._send(number, following, _Group(threads, dict(state), group.until, group.turned))

    def _chosen(self, number: int, guard: Value, group: _Group) -> int:
        """The successor that threads take whose branch is not known."""
        block = self.program.blocks[number]
        around = self.flow.loops.get(block.loop)
        leaving = [each for each in block.successors if around is not None and each not in around]
        if leaving and around is not None:
            header = around.start
            if self._spins(header):
                return leaving[0]
            group.turned = True
            self.guessed.add(header)
            staying = [each for each in block.successors if each in around]
            if self.turns.get(header, 0) >= _TURNS or not staying:
                return leaving[0]
            return staying[0]
        symbol = guard.symbol
        assert symbol is not None
        jumps = next((each for each in block.successors if each != block.fall), block.fall)
        flipped = bool(guard.data) if isinstance(guard.data, int) else False
        chosen = jumps if self._enters_loop(jumps) and not self._enters_loop(block.fall) else block.fall
        if not symbol.leaves and isinstance(guard.data, int):
            holds = self.assumed.setdefault(id(symbol), (chosen == jumps) != flipped)
            chosen = jumps if holds != flipped else block.fall
        other = jumps if chosen == block.fall else block.fall
        group.until = max(group.until, other, chosen)
        return chosen

    def _enters_loop(self, number: int) -> bool:
        """Whether a block leads to a loop without another branch."""
        seen = set[int]()
        while number not in self.flow.loops:
            following = self.program.blocks[number].successors
            if len(following) != 1 or number in seen:
                return False
            seen.add(number)
            number = following[0]
        return True

    def _spins(self, header: int) -> bool:
        """Whether a loop only waits for an mbarrier."""
        found = self._spinning.get(header)
        if found is None:
            blocks = self.program.blocks
            loop = self.flow.loops[header]
            inside = range(blocks[loop.start].start, blocks[loop.stop - 1].stop)
            points = [self.flow.points[index] for index in inside if index in self.flow.points]
            waits = [point for point in points if isinstance(point.op.effects, MbarrierWait)]
            others = [point for point in points if point.op.row.kind != "control" and not isinstance(point.op.effects, MbarrierWait)]
            found = self._spinning[header] = bool(waits) and not others
        return found

    def _send(self, before: int, number: int, group: _Group) -> None:
        if number in self.flow.loops:
            self.turns[number] = self.turns.get(number, 0) + 1 if number <= before else 0
        there = self.groups.get(number)
        if there is None:
            self.groups[number] = group
            return
        there.until = max(there.until, group.until)
        there.turned = there.turned or group.turned
        for register, value in group.state.items():
            old = there.state.get(register)
            if old is None:
                there.state[register] = value
            elif not old.same(value):
                there.state[register] = self._joined(register, old, value, group.threads)
        there.threads = there.threads | group.threads

    def _joined(self, register: int, old: Value, new: Value, threads: Threads) -> Value:
        root = old.root if old.root == new.root else ""
        if old.exact and new.exact:
            return Value(None, np.where(threads, new.data, old.data), root)
        self.joins += 1
        return Value(self.flow.solver.symbols.get(("apart", register, self.joins), root=root), 0, root)


def _executing(guard: Value | None, threads: Threads) -> tuple[Threads, bool]:
    """The threads that execute an instruction, and whether that is known."""
    if guard is None:
        return threads, True
    if guard.symbol is None:
        return np.logical_and(threads, guard.data), True
    limits = guard.symbol.limits
    limited = limits is not None and isinstance(guard.data, int) and not guard.data
    return (threads & limits if limited and limits is not None else threads), False
