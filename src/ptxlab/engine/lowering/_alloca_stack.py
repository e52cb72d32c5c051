"""The stack of alloca: a part of each thread's local memory, above its variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxlab.engine.lowering.matching import HIDDEN, candidates
from ptxlab.engine.lowering.scope import instructions
from ptxlab.isa.operands import Const, Op, Reg
from ptxlab.ptx import ast

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxlab.engine.lowering.lower import Lowering

__all__ = ["begin_stack", "copy_stack_pointer", "uses_stack"]

STACK_BYTES = 16384
"""Bytes for each thread."""

_INSTRUCTIONS = ("alloca.", "stacksave.", "stackrestore.")
_LARGEST_ALIGNMENT = 1 << 23


def uses_stack(body: ast.Block) -> bool:
    """Whether a body moves the stack pointer."""
    return any(statement.opcode.startswith(_INSTRUCTIONS) for statement in instructions(body))


def _move(low: Lowering, place: ast.Instruction | ast.Function, to: Reg, value: Reg | Const) -> None:
    found = candidates("mov.u64")[0]
    low.add(Op(len(low.items), "mov.u64", found.row, found.q, (to, value), None, place.line, place.column))


def begin_stack(low: Lowering, function: ast.Function, bodies: Iterable[ast.Block], local_bytes: int) -> int:
    """Let the stack begin at the end of local memory, whose new size is returned."""
    for statement in (s for body in bodies for s in instructions(body)):
        if statement.opcode.startswith("alloca.") and len(statement.operands) == 3:
            align = statement.operands[2]
            if not isinstance(align, ast.Integer) or align.value.bit_count() != 1 or not 0 < align.value <= _LARGEST_ALIGNMENT:
                low.error(statement, "U206", f"{statement.opcode}: the alignment must be a power of two of at most 2^23", at=2)
    total = local_bytes + STACK_BYTES
    _move(low, function, Reg(low.table.hidden(*HIDDEN["stack"])), Const(total))
    return total


def copy_stack_pointer(low: Lowering, place: ast.Instruction, saved: Reg | None = None) -> Reg:
    """Keep the stack pointer in a new register, or set it to what was kept."""
    pointer = Reg(low.table.hidden(*HIDDEN["stack"]))
    if saved is None:
        saved = Reg(low.table.add("the stack pointer of the caller", "u64"))
        _move(low, place, saved, pointer)
    else:
        _move(low, place, pointer, saved)
    return saved
