"""Instructions that use registers of a wgmma.mma_async which has not been waited for.

Section "Asynchronous wgmma Instructions: wgmma.mma_async": the registers of D belong to the operation until wgmma.wait_group. A forward
data-flow analysis finds the registers in flight before each instruction: those that are in flight on some path that leads there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from ptxlab.engine.lowering.register_use import operand_registers
from ptxlab.engine.program import Program
from ptxlab.isa.effects import CommitGroup, Completion, WaitGroup, WgmmaFence
from ptxlab.isa.operands import Const, Group, Op, Reg

__all__ = [
    "Early",
    "Registers",
    "early",
    "early_uses",
    "entry_states",
    "lends_registers",
    "overwritten_sources",
    "states",
    "unfenced",
    "unfenced_values",
]

_MOST_GROUPS = 8
"""Older groups count as one."""

Registers = frozenset[int]
State = TypeVar("State")
_NONE: Registers = frozenset()


class Early(NamedTuple):
    """An op that uses registers in flight, and all that is in flight there: registers, and ``~index`` of the asynchronous operations."""

    op: Op
    registers: tuple[int, ...]
    held: Registers

    def names(self, program: Program, most: int) -> str:
        """The names of the registers, of no more than so many."""
        return ", ".join(program.registers[r].name for r in self.registers[:most]) + ", ..." * (len(self.registers) > most)


class _InFlight(NamedTuple):
    """Registers of operations that no group holds yet, and of the groups, newest first."""

    open: Registers = _NONE
    groups: tuple[Registers, ...] = ()

    def joined(self, other: _InFlight) -> _InFlight:
        pairs = zip_longest(self.groups, other.groups, fillvalue=_NONE)
        return _InFlight(self.open | other.open, tuple(one | two for one, two in pairs))

    def committed(self) -> _InFlight:
        groups = (self.open, *self.groups)
        if len(groups) > _MOST_GROUPS:
            groups = (*groups[: _MOST_GROUPS - 1], _NONE.union(*groups[_MOST_GROUPS - 1 :]))
        return _InFlight(_NONE, groups)

    def waited(self, op: Op) -> _InFlight:
        count = op.operands[0]
        return _InFlight(self.open, self.groups[: count.value]) if isinstance(count, Const) else self


def entry_states(
    program: Program, first: State, after: Callable[[Op, State], State], join: Callable[[State, State], State]
) -> dict[int, State]:
    """Solve a forward data-flow problem: the state at the start of each basic block that can be reached."""
    entries: dict[int, State] = {0: first}
    work = [0]
    while work:
        block = program.blocks[work[-1]]
        state = entries[work.pop()]
        for op in program.ops[block.start : block.stop]:
            state = after(op, state)
        for to in block.successors:
            new = join(entries[to], state) if to in entries else state
            if to not in entries or new != entries[to]:
                entries[to] = new
                work.append(to)
    return entries


def states(
    program: Program, first: State, after: Callable[[Op, State], State], join: Callable[[State, State], State]
) -> Iterator[tuple[Op, State]]:
    """Yield each op that can be reached, with the state before it."""
    for number, entry in sorted(entry_states(program, first, after, join).items()):
        state = entry
        for op in program.ops[program.blocks[number].start : program.blocks[number].stop]:
            yield op, state
            state = after(op, state)


def _in_flight(program: Program, registers: Callable[[Op], tuple[int, ...]]) -> Iterator[tuple[Op, Registers]]:
    """Yield each op that can be reached, with what is in flight before it: asynchronous operations, as ``~index``, and their registers."""

    def after(op: Op, state: _InFlight) -> _InFlight:
        if op.row.updates:
            return _InFlight(state.open.union(registers(op), (~op.index,)), state.groups)
        match op.effects:
            case CommitGroup(of=Completion.WGMMA_GROUP):
                return state.committed()
            case WaitGroup(of=Completion.WGMMA_GROUP):
                return state.waited(op)
        return state

    before, held = _InFlight(), _NONE
    for op, state in states(program, before, after, _InFlight.joined):
        if state is not before:
            before, held = state, state.open.union(*state.groups)
        yield op, held


def lends_registers(program: Program) -> bool:
    """Whether an instruction works on registers after it has been issued: none has early uses else."""
    return any(op.row.updates for op in program.ops)


def _targets(op: Op) -> tuple[int, ...]:
    return tuple(r for operand in op.operands[: op.row.updates] for r in operand_registers(operand))


def _sources(op: Op) -> tuple[int, ...]:
    """Registers of A and of the sparsity metadata, which the operation reads as long as it runs."""
    return tuple(r for operand in op.operands[op.row.updates :] if isinstance(operand, Group) for r in operand_registers(operand))


def early(op: Op, registers: Registers, held: Registers) -> Iterator[Early]:
    """An op that uses registers too early, if there are any."""
    if registers:
        yield Early(op, tuple(sorted(registers)), held)


def early_uses(program: Program) -> Iterator[Early]:
    """Find ops that read or write a register which an asynchronous operation may still be working on."""
    accumulators = {frozenset(_targets(op)) for op in program.ops if op.row.updates}
    if not accumulators:
        return
    for op, held in _in_flight(program, _targets):
        if op.row.updates:
            # Instructions in a row may work on the same D, not on a part of it, and read nothing else of it.
            sources = (r for operand in op.operands[op.row.updates :] for r in operand_registers(operand))
            mine = frozenset(_targets(op))
            parts = (d for d in accumulators if d != mine and d <= held and not d.isdisjoint(mine))
            yield from early(op, held.intersection(sources).union(*(mine & d for d in parts)), held)
        elif held:
            yield from early(op, held.intersection((*program.reads[op.index], *program.writes[op.index])), held)


def overwritten_sources(program: Program) -> Iterator[Early]:
    """Find ops that write a register of A which an asynchronous operation may still read."""
    if any(op.row.updates and _sources(op) for op in program.ops):
        for op, held in _in_flight(program, _sources):
            if not op.row.updates:
                yield from early(op, held.intersection(program.writes[op.index]), held)


class _Unfenced(NamedTuple):
    """Registers written since the last wgmma.fence, those that wgmma.mma_async has named since then (None: no fence), and constants."""

    written: Registers
    named: Registers | None = None
    constants: Registers = _NONE

    def joined(self, other: _Unfenced) -> _Unfenced:
        named = None if self.named is None or other.named is None else self.named | other.named
        return _Unfenced(self.written | other.written, named, self.constants & other.constants)


def unfenced(program: Program) -> Iterator[Early]:
    """Find each wgmma.mma_async whose registers were written since the last wgmma.fence, on some path: section "wgmma.fence"."""
    return _unfenced(program, constants=False)


def unfenced_values(program: Program) -> Iterator[Early]:
    """Find the `unfenced` without constants that are written between the fence and the first operation on the registers.

    Compilers move the zeros of an accumulator there, because nothing ties them to the fence, and the assembler knows them.
    """
    return _unfenced(program, constants=True)


def _is_constant(op: Op) -> bool:
    """Whether an op computes a constant if the registers that it reads hold some."""
    return op.row.kind == "pure" and op.guard is None and all(isinstance(operand, Const | Reg) for operand in op.operands)


def _unfenced(program: Program, constants: bool) -> Iterator[Early]:
    named = frozenset(r for op in program.ops if op.row.updates for r in (*_targets(op), *_sources(op)))
    if not named:
        return

    def after(op: Op, state: _Unfenced) -> _Unfenced:
        if isinstance(op.effects, WgmmaFence):
            return _Unfenced(_NONE, _NONE)
        writes = program.writes[op.index]
        if op.row.updates:
            used = None if state.named is None else state.named.union(_targets(op), _sources(op))
            return _Unfenced(state.written, used, state.constants.difference(writes))
        early = constants and state.named is not None and state.named.isdisjoint(writes)
        if early and _is_constant(op) and state.constants.issuperset(program.reads[op.index]):
            return state._replace(constants=state.constants.union(writes)) if writes else state
        return state._replace(written=state.written.union(named.intersection(writes)), constants=state.constants.difference(writes))

    for op, state in states(program, _Unfenced(named), after, _Unfenced.joined):
        if op.row.updates:
            yield from early(op, state.written.intersection((*_targets(op), *_sources(op))), state.written)
