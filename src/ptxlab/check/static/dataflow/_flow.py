"""The values of registers at each instruction, and the threads that may execute it, by fixpoint over the basic blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.static.dataflow._evaluate import Evaluator, State
from ptxlab.check.static.dataflow._exchange import Words
from ptxlab.check.static.dataflow._followed import Part, asked_for, asked_operands, calculates, followed
from ptxlab.check.static.dataflow._graph import loops_of
from ptxlab.check.static.dataflow._matches import Matches
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._threads import Threads
from ptxlab.check.static.dataflow._values import Symbols, Value
from ptxlab.engine import Program
from ptxlab.engine.lowering.frame import members
from ptxlab.isa.effects import Alloc
from ptxlab.isa.native_ops import Collective, LaneAccess
from ptxlab.isa.operands import Addr, Op, PairOf, Reg, Resolved, SymbolAddress

__all__ = ["Flow", "Solver", "flow_of"]

_MOST_OPTIONS = 4
_ZERO = Value(None, 0)
_VISITS = 24
"""A block that is processed more often than this keeps its values: the bound of the fixpoint."""


@dataclass(slots=True)
class Flow:
    """What is known of a program.

    Attributes
    ----------
    points : instructions with effects, accesses and control flow, by index
    reached : for each block, the threads that may execute it; None if nothing reaches it
    matches : which of these a test accepts
    loops : for each block that is the header of a loop, the blocks of the loop
    solver : executes instructions on states
    """

    program: Program
    threads: Threads
    points: dict[int, Point]
    matches: Matches
    reached: list[NDArray[np.bool_] | None]
    loops: dict[int, range]
    solver: Solver


@dataclass(slots=True)
class _Seen:
    """An instruction on certain values; ``written`` is None if it depends on more than these."""

    read: list[Value]
    operands: tuple[Value | None, ...]
    point: Point | None
    written: list[tuple[int, Value]] | None


class Solver:
    """The fixpoint, and the execution of instructions on states."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.threads = Threads(program)
        self.symbols = Symbols()
        self.evaluator = Evaluator(program, self.symbols)
        count = len(program.blocks)
        self.entry: list[State | None] = [None] * count
        self.reached: list[NDArray[np.bool_] | None] = [None] * count
        self.points: dict[int, Point] = {}
        self.slots: dict[int, Value] = {}
        self.visits = [0] * count
        self._parts: dict[int, list[Part]] = {}
        self._memory: dict[tuple[int, ...], _Seen] = {}
        self._live: dict[int, list[int]] = {}
        self._warps_led: dict[int, tuple[NDArray[np.bool_], bool]] = {}
        self._followed = followed(program)
        # The same values each time: what has been calculated from them is known by their identity.
        self._unknown: dict[int, list[tuple[int, Value]]] = {}
        self._parameters: dict[tuple[int, int], Value] = {}
        self._spreads: dict[tuple[int, int], tuple[Value, Value]] = {}
        self._first_lane = Value(None, self.threads.lane == 0)

    def solve(self) -> Flow:
        program = self.program
        state: State = {
            i: self.threads.special(register.special, self.symbols) for i, register in enumerate(program.registers) if register.special
        }
        self.specials = state
        self.entry[0] = {}
        self.reached[0] = self.threads.everything
        work = [0]
        queued = {0}
        while work:
            block = heappop(work)
            queued.discard(block)
            for following in self._block(block):
                if following not in queued and self.visits[following] < _VISITS:
                    queued.add(following)
                    heappush(work, following)
        by_block: list[list[Point]] = [[] for _ in program.blocks]
        for _, point in sorted(self.points.items()):
            by_block[point.block].append(point)
        return Flow(program, self.threads, self.points, Matches(by_block), self.reached, loops_of(program), self)

    def _block(self, number: int) -> list[int]:
        """Process a block; returns those whose entry has changed."""
        program = self.program
        block = program.blocks[number]
        self.visits[number] += 1
        state = dict(self.entry[number] or self.specials)
        threads = self.reached[number]
        assert threads is not None
        for point in self.execute(number, state, threads):
            self.points[point.op.index] = point
        last = program.ops[block.stop - 1]
        changed: list[int] = []
        guard = None if last.guard is None else self.evaluator.operand(last.guard, state, 1)
        for following in block.successors:
            into = self.into(last, guard, threads, following, block.fall)
            if self._merge(following, number, state, into):
                changed.append(following)
        return changed

    def into(self, last: Op, guard: Value | None, threads: NDArray[np.bool_], following: int, fall: int) -> NDArray[np.bool_]:
        """The threads that may go to a successor."""
        if last.row.kind != "control" or guard is None:
            return threads
        jumps, falls = self.program.blocks[following].start in last.targets, following == fall
        if jumps and falls:
            return threads
        if guard.symbol is None and isinstance(guard.data, int):
            return threads if bool(guard.data) == jumps else self.threads.nothing
        taken = _may_hold(guard if jumps else guard.inverse)
        return threads if taken is None else threads & taken

    def live_after(self, block: int) -> list[int]:
        """The registers whose values something asks for behind a block."""
        bits = self.program.live_out[block] & self._asked_for
        found = self._live.get(bits)
        if found is None:
            found = self._live[bits] = members(bits, self.program.crossing)
        return found

    @cached_property
    def _asked_for(self) -> int:
        """The registers that live across blocks and whose values are asked for anywhere, as bits in the order of ``crossing``."""
        return asked_for(self.program, (part for number in range(len(self.program.blocks)) for part in self.parts(number)))

    def live_state(self, block: int, state: State) -> State:
        """The values that something reads behind a block."""
        live = self.live_after(block)
        found = dict(self.specials)
        found.update([(register, value) for register, value in zip(live, map(state.get, live), strict=True) if value is not None])
        return found

    def _merge(self, block: int, before: int, state: State, threads: NDArray[np.bool_]) -> bool:
        old_threads = self.reached[block]
        if threads is not old_threads and not threads.any():
            return False
        entry = self.entry[block]
        live = self.live_after(before)
        if entry is None or old_threads is None:
            self.entry[block] = self.live_state(before, state)
            self.reached[block] = threads
            return True
        changed = threads is not old_threads and bool((threads & ~old_threads).any())
        if changed:
            self.reached[block] = threads | old_threads
        for register, old, new in zip(live, map(entry.get, live), map(state.get, live), strict=True):
            if old is new or new is None:
                continue
            if old is None:
                entry[register] = new
                changed = True
            elif not old.same(new):
                key = ("joined", block, register)
                if old.symbol is not None and old.symbol.key == key:
                    continue
                root = old.root if old.root == new.root else ""
                symbol = self.symbols.get(key, frozenset({-1 - block}), False, None, root)
                heads = self.program.blocks[block].loop == block
                symbol.options = (old.alternatives if heads else old.alternatives + new.alternatives)[:_MOST_OPTIONS]
                symbol.first = heads and old.first is not None
                entry[register] = Value(symbol, 0, root)
                changed = True
        return changed

    # ------------------------------------------------------------------------------------------------------ instructions

    def parts(self, number: int) -> list[Part]:
        """The instructions of a block that are executed."""
        found = self._parts.get(number)
        if found is None:
            found = self._parts[number] = self._followed_in(number)
        return found

    def execute(
        self, number: int, state: State, threads: NDArray[np.bool_], parts: list[Part] | None = None, words: Words | None = None
    ) -> list[Point]:
        """Execute a block, or parts of it, on a state; returns the instructions that the rules look at.

        ``words``: what threads have left in shared memory, if that is followed.
        """
        points: list[Point] = []
        evaluator = self.evaluator
        unwritten = evaluator.unwritten
        for part in self.parts(number) if parts is None else parts:
            op = part.op
            read = [state.get(register) or unwritten(register) for register in part.reads]
            if part.written is not None:
                written = part.written
            elif part.pure:
                written = evaluator.pure(op, read, state)
            else:
                seen = self._seen(part, number, read, state)
                if seen.point is not None:
                    points.append(seen.point)
                written = self._other(op, seen.operands, threads) if seen.written is None else seen.written
                if words is not None:
                    loaded = words.access(op, self.program.natives.get(op.index), seen.operands, threads, state)
                    written = written if loaded is None else [(register, loaded) for register, _ in written]
            if op.guard is not None:
                guard = evaluator.operand(op.guard, state, 1)
                assert guard is not None
                written = [(register, self._guarded(register, value, guard, state, op)) for register, value in written]
            for register, value in written:
                state[register] = value
        return points

    def _followed_in(self, number: int) -> list[Part]:
        program = self.program
        block = program.blocks[number]
        found = []
        for index in range(block.start, block.stop):
            if not self._followed[index]:
                continue
            op = program.ops[index]
            if op.row.kind == "pure":
                made = self._new(op) if calculates(op) else None
                found.append(Part(op, True, program.reads[index] if made is None else (), written=made))
                continue
            asked = asked_operands(op)
            bases = [operand.base if isinstance(operand, Addr) else operand for operand in (*asked, op.guard)]
            found.append(Part(op, False, tuple([base.index for base in bases if isinstance(base, Reg)]), asked))
        return found

    def _seen(self, part: Part, block: int, read: list[Value], state: State) -> _Seen:
        """An instruction that is not pure on the values that it reads."""
        op = part.op
        key = op.index, *map(id, read)
        found = self._memory.get(key)
        if found is None:
            operands = tuple([None if operand is None else self.evaluator.operand(operand, state) for operand in part.asked])
            native = self.program.natives.get(op.index)
            point = None
            if op.effects is not None or op.row.kind == "control" or native is not None:
                guard = None if op.guard is None else self.evaluator.operand(op.guard, state, 1)
                point = Point(op, block, guard, operands, isinstance(native, Collective) and native.name == "warpsync")
            varies = isinstance(native, LaneAccess | Collective) or isinstance(op.effects, Alloc)
            written = None if varies else self._other(op, operands, self.threads.everything)
            found = self._memory[key] = _Seen(read, operands, point, written)
        return found

    def _guarded(self, register: int, new: Value, guard: Value, state: State, op: Op) -> Value:
        old = state.get(register)
        if old is None or old.same(new) or guard.constant == 1:
            return new
        if guard.constant == 0:
            return old
        if guard.exact and new.exact and old.exact:
            return Value(None, np.where(np.asarray(guard.data, np.bool_), new.data, old.data))
        key = ("guarded", op.index, register, guard.key, new.key, old.key)
        leaves = frozenset({op.index}) | frozenset().union(*(v.symbol.leaves for v in (guard, new, old) if v.symbol is not None))
        root = new.root if new.root == old.root else ""
        symbol = self.symbols.get(key, leaves, False, None, root)
        symbol.options = (new.alternatives + old.alternatives)[:_MOST_OPTIONS]
        return Value(symbol, 0, root)

    def _other(self, op: Op, operands: tuple[Value | None, ...], threads: NDArray[np.bool_]) -> list[tuple[int, Value]]:
        """What an instruction that is not pure writes."""
        native = self.program.natives.get(op.index)
        found: list[tuple[int, Value]] | None = None
        match native:
            case LaneAccess(write=False, space="param"):
                found = self._parameter(op, operands, native)
            case LaneAccess(write=False, space="shared" | "generic" | "shared::cluster"):
                found = self._slot(op, operands, native)
            case Collective():
                found = self._collective(op, operands, native, threads)
        if found is not None:
            return found
        if isinstance(op.effects, Alloc) and (destination := operands[0]) is not None and destination.constant is not None:
            columns = operands[1].constant if operands[1] is not None else None
            self.slots[destination.constant & 0xFFFFFF] = Value(self.symbols.get(("columns", op.index, columns), uniform=True), 0)
        return self._new(op)

    def _new(self, op: Op) -> list[tuple[int, Value]]:
        """Values of which nothing is known but which execution has written them."""
        found = self._unknown.get(op.index)
        if found is None:
            leaf = frozenset({op.index})
            keys = [(register, ("written", op.index, i)) for i, register in enumerate(self.program.writes[op.index])]
            found = self._unknown[op.index] = [(register, Value(self.symbols.get(key, leaf), 0)) for register, key in keys]
        return found

    def _parameter(self, op: Op, operands: tuple[Value | None, ...], native: LaneAccess) -> list[tuple[int, Value]] | None:
        address = operands[native.address]
        at = op.operands[native.address]
        if native.count != 1 or address is None or address.constant is None or not _is_parameter(at):
            return None
        key = address.constant, native.bits
        value = self._parameters.get(key)
        if value is None:
            value = self._parameters[key] = Value(self.symbols.get(("parameter", *key), uniform=True), 0)
        return [(register, value) for register in self.program.writes[op.index]]

    def _slot(self, op: Op, operands: tuple[Value | None, ...], native: LaneAccess) -> list[tuple[int, Value]] | None:
        """A load of the word that an allocation has written."""
        address = operands[native.address]
        if native.count != 1 or native.bits != 32 or address is None or address.constant is None:
            return None
        found = self.slots.get(address.constant & 0xFFFFFF)
        return None if found is None else [(register, found) for register in self.program.writes[op.index]]

    def _leads_warps(self, reached: NDArray[np.bool_]) -> bool:
        """Whether the first lane of each warp of some threads is one of them."""
        known = self._warps_led.get(id(reached))
        if known is None:
            whole = bool(reached[self.threads.lane == 0][np.unique(self.threads.warp[reached])].all())
            known = self._warps_led[id(reached)] = reached, whole
        return known[1]

    def _collective(
        self, op: Op, operands: tuple[Value | None, ...], native: Collective, reached: NDArray[np.bool_]
    ) -> list[tuple[int, Value]] | None:
        if native.name == "elect" and self._leads_warps(reached):
            member = operands[native.member]
            if member is not None and member.constant == 0xFFFFFFFF:
                destination = op.operands[0]
                second = destination.second if isinstance(destination, PairOf) else None
                return [
                    (register, self._first_lane if isinstance(second, Reg) and second.index == register else _ZERO)
                    for register in self.program.writes[op.index]
                ]
        if native.name == "shfl" and native.mode == "idx":
            source, lane = operands[1], operands[2]
            destination = op.operands[0]
            if isinstance(destination, Reg) and source is not None and lane is not None and source.exact and lane.constant is not None:
                if isinstance(source.data, int):
                    return [(destination.index, source)]
                if self.threads.count % 32 == 0 and lane.constant < 32:
                    return [(destination.index, self._spread(source, source.data, lane.constant))]
        return None

    def _spread(self, source: Value, data: NDArray[Any], lane: int) -> Value:
        """The numbers that one lane of each warp gives to the others."""
        key = id(source), lane
        found = self._spreads.get(key)
        if found is None:
            spread = np.repeat(data.reshape(-1, 32)[:, lane], 32)
            found = source, Value(None, spread if (spread != spread[0]).any() else int(spread[0]), source.root)
            self._spreads[key] = found
        return found[1]


def _is_parameter(operand: Resolved) -> bool:
    return isinstance(operand, Addr) and isinstance(operand.base, SymbolAddress) and operand.base.space == "param"


def _may_hold(predicate: Value) -> NDArray[np.bool_] | None:
    """The threads in which a predicate may hold; None: any."""
    if predicate.symbol is not None:
        plain = isinstance(predicate.data, int) and predicate.data == 0
        return predicate.symbol.limits if plain else None
    if isinstance(predicate.data, int):
        return None if predicate.data else np.zeros(1, np.bool_)
    return np.asarray(predicate.data, np.bool_)


def flow_of(program: Program) -> Flow:
    """Solve a program."""
    return Solver(program).solve()
