"""One execution of a kernel on known values: counted loops turn as often as they do, others a few times.

Threads that part at a branch go on apart, those that are furthest behind first, and join where they meet. A branch that is not known
leads into a loop, executes its loop once more, or falls through; what is found after it holds on one path only.

In a kernel that loads bytes of shared memory, in which warps tell others what to do, barriers of the CTA hold threads, and constants that
they leave in shared memory are known where others load them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.static.dataflow._evaluate import State
from ptxlab.check.static.dataflow._exchange import Barriers, Words, holds, loads_byte
from ptxlab.check.static.dataflow._flow import Flow
from ptxlab.check.static.dataflow._followed import Part
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._values import Value
from ptxlab.isa.catalogue import Control
from ptxlab.isa.effects import CtaBarrier, MbarrierWait
from ptxlab.isa.operands import Op

__all__ = ["Execution", "Step"]

_TURNS = 6
"""How often a loop turns whose end is not known: once more than there are stages in most pipelines."""
_BUDGET = 2000
_SHARE, _SHARE_OF_WORKERS = 3, 8
"""The most instructions: the budget, and so many times those of the kernel; more if its warps tell others what to do: all loops turn."""

Threads = NDArray[np.bool_]


@dataclass(slots=True)
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
    """Threads that are at the start of a block; what is assumed of their way holds up to a block, or to the end.

    ``executed``: how many parts of the block they have executed, if a barrier has held them in it.
    """

    threads: Threads
    state: State
    until: int = 0
    turned: bool = False
    executed: int = 0


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
        self._holding: dict[int, list[int]] = {}
        self._spinning: dict[int, bool] = {}
        self._exchanges = any(map(loads_byte, self.program.natives.values()))
        self._words = Words(flow.solver.evaluator) if self._exchanges else None
        self._barriers: Barriers[tuple[int, _Group]] = Barriers(flow.threads.count)
        self._passed: list[tuple[int, _Group]] = []
        """The threads that barriers have let go on, with their blocks."""

    def __iter__(self) -> Iterator[Step]:
        program, solver = self.program, self.flow.solver
        self.groups[0] = _Group(self.flow.threads.everything, dict(solver.specials))
        left = _BUDGET + (_SHARE_OF_WORKERS if self._exchanges else _SHARE) * len(program.ops)
        while left > 0 and (following := self._following()) is not None:
            number, group = following
            parts = solver.parts(number)
            first, last = group.executed, self._held_after(number, parts, group.executed)
            left -= 0 if first else program.blocks[number].stop - program.blocks[number].start
            certain = not group.turned and number >= group.until
            group.executed = last
            held = False
            for point in solver.execute(number, group.state, group.threads, parts[first:last], self._words):
                threads, known = self._executing(point.guard, group.threads)
                if point.guard is None or np.count_nonzero(threads):
                    yield Step(point, threads, group.threads, certain and known)
                if self._exchanges and isinstance(point.op.effects, CtaBarrier):
                    held = point.op.effects.waits and bool((threads == group.threads).all())
                    self._passed += self._barriers.arrive(point, threads, (number, group) if held else None)
            if not held and last < len(parts):
                self._passed.append((number, group))
            elif not held:
                self._leave(number, group)
        for group in (*self.groups.values(), *(group for _, group in (*self._passed, *self._barriers.give_up()))):
            self.lost |= group.threads

    def _executing(self, guard: Value | None, threads: Threads) -> tuple[Threads, bool]:
        """The threads that execute an instruction, and whether that is known."""
        if guard is None:
            return threads, True
        data = guard.data
        if guard.symbol is None:
            if isinstance(data, int):
                return threads if data else self.flow.threads.nothing, True
            return np.logical_and(threads, data), True
        limits = guard.symbol.limits
        limited = limits is not None and isinstance(data, int) and not data
        return (threads & limits if limited and limits is not None else threads), False

    def _following(self) -> tuple[int, _Group] | None:
        """The threads that go on next, with their block."""
        if not self._passed and not self.groups:
            self._passed = self._barriers.give_up()
        if self._passed:
            return self._passed.pop(0)
        if not self.groups:
            return None
        number = min(self.groups)
        return number, self.groups.pop(number)

    def _held_after(self, number: int, parts: list[Part], first: int) -> int:
        """How many parts of a block are executed before threads may be held."""
        if not self._exchanges:
            return len(parts)
        found = self._holding.get(number)
        if found is None:
            found = self._holding[number] = [at + 1 for at, part in enumerate(parts) if holds(part.op)]
        return next((at for at in found if at > first), len(parts))

    def _leave(self, number: int, group: _Group) -> None:
        """Send the threads at the end of a block to its successors."""
        block = self.program.blocks[number]
        last = self.program.ops[block.stop - 1]
        guard = None if last.guard is None else self.flow.solver.evaluator.operand(last.guard, group.state, 1)
        if last.row.semantics is Control.INDEXED_BRANCH:
            index = self.flow.solver.evaluator.operand(last.operands[0], group.state, 32) if guard is None else None
            self._spread(number, last, index, group)
            return
        branches = last.row.kind == "control" and guard is not None
        if not branches and len(block.successors) > 1:
            self.lost |= group.threads
            return
        if branches and guard is not None and guard.symbol is not None and len(block.successors) > 1:
            chosen = self._chosen(number, guard, group)
            if group.turned and not self.guess:
                self.lost |= group.threads
                return
            self._part(number, [(chosen, group.threads)], group)
            return
        exact = None if guard is not None and guard.symbol is not None else guard
        into = [(each, self.flow.solver.into(last, exact, group.threads, each, block.fall)) for each in block.successors]
        self._part(number, [(following, threads) for following, threads in into if np.count_nonzero(threads)], group)

    def _part(self, number: int, going: list[tuple[int, Threads]], group: _Group) -> None:
        """Send threads to blocks; only where they part, their state is copied."""
        for following, threads in going:
            state = group.state if len(going) == 1 else self.flow.solver.live_state(number, group.state)
            self._send(number, following, _Group(threads, state, group.until, group.turned))

    def _spread(self, number: int, branch: Op, index: Value | None, group: _Group) -> None:
        """Send threads to the targets of an indexed branch; if the index is not known, they are lost."""
        if index is None or not index.exact:
            self.lost |= group.threads
            return
        blocks = {self.program.blocks[each].start: each for each in self.program.blocks[number].successors}
        indices = np.broadcast_to(np.asarray(index.data), group.threads.shape)
        self.lost |= group.threads & (indices >= len(branch.targets))
        into = [(blocks[target], group.threads & (indices == position)) for position, target in enumerate(branch.targets)]
        self._part(number, [(following, threads) for following, threads in into if np.count_nonzero(threads)], group)

    def _chosen(self, number: int, guard: Value, group: _Group) -> int:
        """The successor that threads take whose branch is not known."""
        block = self.program.blocks[number]
        ahead = [each for each in block.successors if each != number]
        if len(ahead) == 1 < len(block.successors) and self._only_waits(range(number, number + 1)):
            return ahead[0]
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
            found = self._spinning[header] = self._only_waits(self.flow.loops[header])
        return found

    def _only_waits(self, loop: range) -> bool:
        blocks = self.program.blocks
        inside = range(blocks[loop.start].start, blocks[loop.stop - 1].stop)
        points = [self.flow.points[index] for index in inside if index in self.flow.points]
        waits = [point for point in points if isinstance(point.op.effects, MbarrierWait)]
        others = [point for point in points if point.op.row.kind != "control" and not isinstance(point.op.effects, MbarrierWait)]
        return bool(waits) and not others

    def _send(self, before: int, number: int, group: _Group) -> None:
        if number in self.flow.loops:
            self.turns[number] = self.turns.get(number, 0) + 1 if number <= before else 0
        there = self.groups.get(number)
        if there is None:
            self.groups[number] = group
            return
        there.until = max(there.until, group.until)
        there.turned = there.turned or group.turned
        for register in self.flow.solver.live_after(before):
            value, old = group.state.get(register), there.state.get(register)
            if old is value or value is None:
                continue
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
