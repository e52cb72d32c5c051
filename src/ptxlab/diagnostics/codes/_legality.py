"""Static legality."""

from __future__ import annotations

from ptxlab.diagnostics.codes._info import CodeInfo

__all__ = ["CODES"]

_SET = "Instruction Set"
_OPERANDS = "Instruction Operands"
_TARGET = "PTX Module Directives: .target"

CODES = (
    CodeInfo("L101", "error", "no instruction of this name", _SET),
    CodeInfo("L102", "error", "a modifier that the instruction does not have", _SET),
    CodeInfo("L103", "error", "a modifier is missing", _SET),
    CodeInfo("L104", "error", "a modifier is given twice, or two of which only one can be given", _SET),
    CodeInfo("L105", "error", "modifiers or operands that do not go together", _SET),
    CodeInfo("L106", "error", "the target does not have the instruction or feature", _TARGET),
    CodeInfo("L107", "error", "the PTX ISA version does not have the instruction or feature", "PTX Module Directives: .version"),
    CodeInfo("L108", "error", "the target is unknown, or younger than the PTX ISA version", _TARGET),
    CodeInfo("L109", "error", "there is no such PTX ISA version", "PTX Module Directives: .version"),
    CodeInfo("L110", "error", "the wrong number of operands", _OPERANDS),
    CodeInfo("L111", "error", "an operand of the wrong kind or type", _OPERANDS),
    CodeInfo("L112", "error", "a vector of the wrong length", _OPERANDS),
    CodeInfo("L113", "error", "a constant outside its range", _OPERANDS),
    CodeInfo("L114", "error", "a register stands twice in a destination vector", _OPERANDS),
    CodeInfo("L115", "error", "tcgen05 instructions with different .cta_group in one kernel", "Issue Granularity"),
    CodeInfo("L121", "note", "modifiers in another order than the specification's", _SET),
    CodeInfo("L122", "warning", "a modifier of other instructions, which the assembler ignores", _SET),
    CodeInfo("L123", "warning", "a repeated modifier, which the assembler takes", _SET),
    CodeInfo("L124", "note", "an operand form that the specification does not have but the assembler takes", _OPERANDS),
    CodeInfo("L125", "warning", "operands that the specification does not have but the assembler takes", _OPERANDS),
    CodeInfo("L126", "warning", "a modifier that the specification requires and the assembler does not", _SET),
    CodeInfo("L127", "note", "a target that has been renamed", _TARGET),
    CodeInfo("L128", "note", "a feature that the assembler has and the specification's text does not", _SET),
    CodeInfo("L130", "warning", "a PTX ISA version newer than those that ptxlab knows", "PTX Module Directives: .version"),
    CodeInfo("L129", "note", "an instruction that ptxlab does not execute and whose legality it does not know", _SET),
)
