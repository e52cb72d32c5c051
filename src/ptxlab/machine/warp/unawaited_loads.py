"""Instructions that use registers of a tcgen05.ld before its tcgen05.wait::ld.

Section "tcgen05.wait instruction based completion mechanism": tcgen05.wait::ld observes the completion of tcgen05.ld. An instruction that
reads a register of the load gets the loaded value all the same (section "Register dependencies, same thread"). Compilers rely on that,
and move instructions above the wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ptxlab.diagnostics import Severity
from ptxlab.engine.program import Program
from ptxlab.isa.catalogue import Control
from ptxlab.isa.effects import TensorTransfer, TensorWait
from ptxlab.isa.operands import Op
from ptxlab.machine.warp.pending_registers import Early, Registers, early, states

__all__ = ["MissingWait", "missing_waits"]

_NONE: Registers = frozenset()


class MissingWait(NamedTuple):
    """Uses of registers of the same loads before a wait for these.

    Attributes
    ----------
    loads : the indices of the loads
    first : the use at which this is reported
    load : the last of the loads that write a register of it
    others : the other uses
    severity : "note" where a compiler may have moved the uses, and some path from them has no wait at all
    follows : whether a wait follows ``first`` on each path
    """

    loads: frozenset[int]
    first: Early
    load: Op
    others: tuple[Early, ...]
    severity: Severity
    follows: bool


def missing_waits(program: Program, strict: bool) -> tuple[MissingWait, ...]:
    """What is reported of the registers of tcgen05.ld; ``strict``: each use before the wait, by the rules of the model ``spec``.

    Otherwise a use is reported if its author has written it before the wait, or if some path from it has no wait.
    """
    uses: dict[Registers, list[Early]] = {}
    for use in _unawaited(program):
        uses.setdefault(use.held, []).append(use)
    lost = _without_wait(program) if uses else frozenset()
    found = []
    for held, every in uses.items():
        written = [] if strict else [use for use in every if _is_authors(program, use)]
        counted = every if strict else [use for use in every if use.op.index in lost or use in written]
        if counted:
            first = (written or counted)[0]
            others = tuple(use for use in counted if use is not first)
            severity: Severity = "error" if strict else "warning" if written else "note"
            loads = frozenset(~item for item in held)
            found.append(MissingWait(loads, first, _loads(program, first)[-1], others, severity, first.op.index not in lost))
    return tuple(found)


def _is_load(op: Op) -> bool:
    return isinstance(op.effects, TensorTransfer) and not op.effects.write


def _is_wait(op: Op) -> bool:
    return isinstance(op.effects, TensorWait) and not op.effects.write


def _unawaited(program: Program) -> Iterator[Early]:
    """Find ops that read or write a register of a tcgen05.ld before tcgen05.wait::ld. Another tcgen05.ld may write it.

    What is held are the loads: ``~index``.
    """
    if not any(map(_is_load, program.ops)):
        return

    def after(op: Op, held: Registers) -> Registers:
        if _is_wait(op):
            return _NONE
        if _is_load(op):
            return held.union(program.writes[op.index], (~op.index,))
        return held.difference(program.writes[op.index]) if held else held

    for op, held in states(program, _NONE, after, frozenset.union):
        guard = () if op.guard is None else (op.guard.index,)
        used = held.intersection((*program.reads[op.index], *guard, *(() if _is_load(op) else program.writes[op.index])))
        yield from early(op, used, frozenset(item for item in held if item < 0))


def _without_wait(program: Program) -> frozenset[int]:
    """The ops from which some path leads to the end of the thread without any tcgen05.wait::ld."""
    waits = {op.index for op in program.ops if _is_wait(op)}
    ends = (Control.EXIT, Control.RETURN)
    ending = {number for number, block in enumerate(program.blocks) if program.ops[block.stop - 1].row.semantics in ends}
    unwaiting = {number for number, block in enumerate(program.blocks) if waits.isdisjoint(range(block.start, block.stop))}
    lost = set[int]()
    new = ending & unwaiting
    while new:
        lost |= new
        new = {n for n in unwaiting - lost if not lost.isdisjoint(program.blocks[n].successors)}
    found = set[int]()
    for number, block in enumerate(program.blocks):
        if number in ending or not lost.isdisjoint(block.successors):
            last = max((index for index in range(block.start, block.stop) if index in waits), default=block.start - 1)
            found.update(range(last + 1, block.stop))
    return frozenset(found)


def _loads(program: Program, use: Early) -> list[Op]:
    """The loads that write a register of a use, in the order of the program."""
    return [program.ops[index] for index in sorted(~item for item in use.held) if _writes(program, index, use)]


def _writes(program: Program, load: int, use: Early) -> bool:
    return not set(program.writes[load]).isdisjoint(use.registers)


def _is_authors(program: Program, use: Early) -> bool:
    """Whether an author has written a use after the load, with no wait between."""
    loads = (program.ops[~item] for item in use.held)
    return any(program.text_order.is_authors(load.line, use.op.line) and _writes(program, load.index, use) for load in loads)
