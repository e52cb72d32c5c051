"""Services that compiled code completes itself where their outcome is certain, without a call of the machine's handler.

These are a wait for a phase of an mbarrier that is complete, and groups of copies by cp.async, which perform at once. Elsewhere the handler
is called: for phases that are not complete, for lanes that name several mbarriers, for errors.
"""

from __future__ import annotations

from ptxlab.engine.program import Program
from ptxlab.isa.effects import CommitGroup, Completion, MbarrierWait, WaitGroup
from ptxlab.isa.operands import Addr, Const, Op, Reg, Resolved, Unused

__all__ = ["MBARRIER_TOKEN", "direct_services", "is_direct"]

MBARRIER_TOKEN = 0x6D62_6172_7269_6572
"""What shared memory holds where there is an mbarrier object."""


def is_direct(program: Program, op: Op) -> bool:
    """Whether compiled code may complete an instruction."""
    effects = op.effects
    if op.row.kind != "service" or program.stepped:
        return False
    if isinstance(effects, CommitGroup | WaitGroup):
        return effects.of is Completion.COPY_GROUP and all(type(operand) is Const for operand in op.operands)
    if not isinstance(effects, MbarrierWait) or op.row.flow is not None:
        return False
    complete, address, phase = op.operands[:3]
    base = address.base if isinstance(address, Addr) else address
    return (
        (isinstance(complete, Unused) or _is_register(program, complete, 1))
        and (not isinstance(base, Reg) or _is_register(program, base, 32, 64))
        and (type(phase) is Const or _is_register(program, phase, 32 if effects.parity else 64))
    )


def _is_register(program: Program, operand: Resolved, *bits: int) -> bool:
    return isinstance(operand, Reg) and not operand.negated and program.registers[operand.index].bits in bits


def direct_services(program: Program) -> tuple[Op, ...]:
    """The instructions of a program that compiled code may complete."""
    return tuple(op for op in program.ops if is_direct(program, op))
