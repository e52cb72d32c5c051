"""Registers that an asynchronous instruction has not written yet, and instructions that use them too early.

Section "Asynchronous wgmma Instructions: wgmma.mma_async": the registers of D belong to the operation until wgmma.wait_group. A forward
analysis over the basic blocks; a register is in flight where it is so on some path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ptxlab.engine.lowering.register_use import operand_registers
from ptxlab.engine.program import Program
from ptxlab.isa.operands import Const, Group, Op

__all__ = ["Early", "early_uses", "overwritten_sources", "unfenced"]

_MOST_GROUPS = 8
"""Older groups count as one."""

_Registers = frozenset[int]
Registers = Callable[[Op], tuple[int, ...]]
"""The registers of an instruction that stay in flight."""
_NONE: _Registers = frozenset()


class _State(NamedTuple):
    """Registers of instructions that no group holds yet, and of the groups, newest first."""

    open: _Registers = _NONE
    groups: tuple[_Registers, ...] = ()

    def joined(self, other: _State) -> _State:
        longest = max(len(self.groups), len(other.groups))
        pairs = zip(self._padded(longest), other._padded(longest), strict=True)
        return _State(self.open | other.open, tuple(one | two for one, two in pairs))

    def _padded(self, count: int) -> tuple[_Registers, ...]:
        return self.groups + (_NONE,) * (count - len(self.groups))

    def committed(self) -> _State:
        groups = (self.open, *self.groups)
        if len(groups) > _MOST_GROUPS:
            groups = (*groups[: _MOST_GROUPS - 1], frozenset().union(*groups[_MOST_GROUPS - 1 :]))
        return _State(_NONE, groups)

    def all(self) -> _Registers:
        return self.open.union(*self.groups)


class Early(NamedTuple):
    """An op that uses registers in flight."""

    op: Op
    registers: tuple[int, ...]


def _after(op: Op, state: _State, registers: Registers) -> _State:
    if op.row.updates:
        return _State(state.open.union(registers(op)), state.groups)
    if op.opcode.startswith("wgmma.commit_group"):
        return state.committed()
    count = op.operands[0] if op.opcode.startswith("wgmma.wait_group") else None
    return _State(state.open, state.groups[: count.value]) if isinstance(count, Const) else state


def _targets(op: Op) -> tuple[int, ...]:
    return tuple(r for operand in op.operands[: op.row.updates] for r in operand_registers(operand))


def _sources(op: Op) -> tuple[int, ...]:
    """Registers of A and of the sparsity metadata, which the operation reads as long as it runs."""
    return tuple(r for operand in op.operands[op.row.updates :] if isinstance(operand, Group) for r in operand_registers(operand))


def _entries(program: Program, registers: Registers) -> list[_State | None]:
    """The state at the start of each block that can be reached."""
    marked = [[i for i in range(b.start, b.stop) if program.ops[i].opcode.startswith("wgmma.")] for b in program.blocks]
    entries: list[_State | None] = [None] * len(program.blocks)
    entries[0] = _State()
    work = [0]
    while work:
        at = work.pop()
        state = entries[at]
        assert state is not None
        for i in marked[at]:
            state = _after(program.ops[i], state, registers)
        for to in program.blocks[at].successors:
            held = entries[to]
            new = state if held is None else held.joined(state)
            if new != held:
                entries[to] = new
                work.append(to)
    return entries


def early_uses(program: Program) -> Iterator[Early]:
    """Ops that read or write a register which an asynchronous instruction may still be working on."""
    accumulators = {frozenset(_targets(op)) for op in program.ops if op.row.updates}
    if not accumulators:
        return
    for block, entry in zip(program.blocks, _entries(program, _targets), strict=True):
        if entry is None:
            continue
        state = entry
        in_flight = state.all()
        for i in range(block.start, block.stop):
            op = program.ops[i]
            if op.row.updates:
                # Instructions in a row may work on the same D, not on a part of it, and read nothing else of it.
                sources = (r for operand in op.operands[op.row.updates :] for r in operand_registers(operand))
                mine = frozenset(_targets(op))
                parts = (d for d in accumulators if d != mine and d <= in_flight and not d.isdisjoint(mine))
                used = in_flight.intersection(sources).union(*(mine & d for d in parts))
            else:
                used = in_flight.intersection((*program.reads[i], *program.writes[i])) if in_flight else _NONE
            if used:
                yield Early(op, tuple(sorted(used)))
            if op.opcode.startswith("wgmma."):
                state = _after(op, state, _targets)
                in_flight = state.all()


def overwritten_sources(program: Program) -> Iterator[Early]:
    """Ops that write a register of A which an asynchronous instruction may still read."""
    if not any(op.row.updates and _sources(op) for op in program.ops):
        return
    for block, entry in zip(program.blocks, _entries(program, _sources), strict=True):
        state = entry
        for i in range(block.start, block.stop):
            op = program.ops[i]
            if state is None:
                break
            used = state.all().intersection(program.writes[i]) if not op.row.updates else _NONE
            if used:
                yield Early(op, tuple(sorted(used)))
            if op.opcode.startswith("wgmma."):
                state = _after(op, state, _sources)


def unfenced(program: Program) -> Iterator[Early]:
    """wgmma.mma_async whose registers were written since the last wgmma.fence, on some path: section "wgmma.fence"."""
    named = frozenset(r for op in program.ops if op.row.updates for r in (*_targets(op), *_sources(op)))
    if not named:
        return
    entries: list[_Registers | None] = [None] * len(program.blocks)
    entries[0], work = named, [0]
    while work:
        at = work.pop()
        written = entries[at] or _NONE
        for i in range(program.blocks[at].start, program.blocks[at].stop):
            written = _step(program, i, written, named)
        for to in program.blocks[at].successors:
            new = written | (entries[to] or _NONE)
            if entries[to] is None or new != entries[to]:
                entries[to] = new
                work.append(to)
    for block, entry in zip(program.blocks, entries, strict=True):
        written = entry or _NONE
        for i in range(block.start, block.stop):
            op = program.ops[i]
            if op.row.updates and (used := written.intersection((*_targets(op), *_sources(op)))):
                yield Early(op, tuple(sorted(used)))
            written = _step(program, i, written, named)


def _step(program: Program, index: int, written: _Registers, named: _Registers) -> _Registers:
    op = program.ops[index]
    if op.opcode.startswith("wgmma.fence"):
        return _NONE
    return written if op.row.updates else written.union(named.intersection(program.writes[index]))
