"""Loads whose value matters only to the thread that stores it back.

Compilers let all threads of a CTA execute a program of few elements: every thread loads, computes, and only one stores to the same place.
In the others the value is dead, so that the load is no race with that store; in a thread that does store, the store itself would be one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from ptxlab.engine.lowering.register_use import operand_registers
from ptxlab.engine.program import Program
from ptxlab.isa.native_ops import LaneAccess
from ptxlab.isa.operands import Addr, Op, Reg

__all__ = ["dead_loads"]

_MOST = 256
"""Registers through which a value is traced."""


@dataclass(slots=True)
class _Flow:
    """Where registers are defined and used."""

    program: Program
    definitions: Counter[int] = field(default_factory=Counter)
    uses: dict[int, list[Op]] = field(default_factory=lambda: defaultdict(list))
    guards: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for op in self.program.ops:
            self.definitions.update(self.program.writes[op.index])
            for register in set(self.program.reads[op.index]):
                self.uses[register].append(op)
            if op.guard is not None:
                self.guards.add(op.guard.index)


def _place(op: Op, position: int) -> tuple[int, int] | None:
    """The address register and offset of an access."""
    operand = op.operands[position]
    return (operand.base.index, operand.offset) if isinstance(operand, Addr) and isinstance(operand.base, Reg) else None


def _stored_back(flow: _Flow, op: Op, place: tuple[int, int], register: int) -> bool:
    """Whether an op is a weak store of the register to the place."""
    native = flow.program.natives.get(op.index)
    if not isinstance(native, LaneAccess) or not native.write or _place(op, native.address) != place:
        return False
    return register in operand_registers(op.operands[native.value]) and register != place[0]


def _is_dead(flow: _Flow, load: Op, native: LaneAccess) -> bool:
    place = _place(load, native.address)
    if place is None or flow.definitions[place[0]] != 1:
        return False
    work = list(flow.program.writes[load.index])
    seen = set(work)
    while work:
        register = work.pop()
        if flow.definitions[register] != 1 or register in flow.guards or len(seen) > _MOST:
            return False
        for op in flow.uses[register]:
            if op.row.kind == "pure":
                new = [r for r in flow.program.writes[op.index] if r not in seen]
                seen.update(new)
                work += new
            elif not _stored_back(flow, op, place, register):
                return False
    return True


def dead_loads(program: Program) -> frozenset[int]:
    """Indices of such loads."""
    loads = [
        (program.ops[index], native)
        for index, native in program.natives.items()
        if isinstance(native, LaneAccess) and not native.write and native.space in ("global", "generic", "shared", "shared::cta")
    ]
    stored = {
        place
        for index, native in program.natives.items()
        if isinstance(native, LaneAccess) and native.write and (place := _place(program.ops[index], native.address)) is not None
    }
    loads = [(op, native) for op, native in loads if _place(op, native.address) in stored]
    if not loads:
        return frozenset()
    flow = _Flow(program)
    return frozenset(op.index for op, native in loads if _is_dead(flow, op, native))
