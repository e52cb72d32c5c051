"""One ``.cta_group`` in a kernel: section "Issue Granularity"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ptxlab import ptx
from ptxlab.check.static._operands import Finding

__all__ = ["mixed_groups"]

_SECTION = "Issue Granularity"
_GROUPS = ("cta_group::1", "cta_group::2")


class _Use(NamedTuple):
    group: str
    instruction: ptx.Instruction


def mixed_groups(module: ptx.Module) -> Iterator[tuple[ptx.Instruction, Finding]]:
    """For each entry whose tcgen05 instructions, those of called functions included, have both groups: the first of the second group."""
    for function in module.functions.values():
        if function.kind != "entry":
            continue
        uses = list(_uses(module, function, set()))
        for group, instruction in uses:
            first = uses[0]
            if group != first.group:
                message = f"kernel {function.name} uses .{group} here and .{first.group} at line {first.instruction.line}"
                fix = "give all tcgen05 instructions of a kernel and of the functions it calls one .cta_group"
                yield instruction, Finding("L115", message, section=_SECTION, fix=fix)
                break


def _uses(module: ptx.Module, function: ptx.Function, seen: set[str]) -> Iterator[_Use]:
    """The tcgen05 instructions that have a group, in the order of the text, calls followed once."""
    seen.add(function.name)
    for instruction in _instructions(function.body):
        words = instruction.opcode.split(".")
        if words[0] == "tcgen05":
            yield from (_Use(group, instruction) for group in _GROUPS if group in words)
        elif words[0] == "call":
            for name in (operand.text for operand in instruction.operands if isinstance(operand, ptx.Name)):
                callee = module.functions.get(name)
                if callee is not None and name not in seen:
                    yield from _uses(module, callee, seen)


def _instructions(block: ptx.Block | None) -> Iterator[ptx.Instruction]:
    for statement in block.statements if block else ():
        if isinstance(statement, ptx.Instruction):
            yield statement
        elif isinstance(statement, ptx.Block):
            yield from _instructions(statement)
