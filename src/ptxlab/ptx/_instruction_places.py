"""Places of instructions and their parts, found in the text on demand."""

from __future__ import annotations

from ptxlab.diagnostics import Place, clean_line
from ptxlab.ptx._cursor import OPCODE, Cursor, PtxSyntaxError, line_starts
from ptxlab.ptx._operands import operand
from ptxlab.ptx.ast import Instruction, Module

__all__ = ["line_text", "opcode_span", "operand_span", "place"]

_LONGEST_LINE = 2000


def line_text(module: Module, line: int) -> str:
    """A line of the module's text (1-based), tabs and control characters as blanks; empty if there is no such line.

    Characters keep their columns, so that a caret can be set under them. Very long lines are cut.
    """
    starts = line_starts(module.text)
    if not 1 <= line <= len(starts):
        return ""
    end = starts[line] - 1 if line < len(starts) else len(module.text)
    return clean_line(module.text[starts[line - 1] : min(end, starts[line - 1] + _LONGEST_LINE)])


def place(module: Module, instruction: Instruction) -> Place:
    """The place of an instruction, guard included, up to its semicolon or the end of its line."""
    offset = _offset(module, instruction.line, instruction.column)
    if offset is None:
        return Place(module.file, instruction.line, instruction.column)
    ends = [end for end in (module.text.find(";", offset), module.text.find("\n", offset)) if end >= 0]
    length = len(module.text[offset : min(ends, default=None)].rstrip())
    return Place(module.file, instruction.line, instruction.column, length)


def opcode_span(module: Module, instruction: Instruction) -> tuple[int, int, int]:
    """Line, column and length of an instruction's opcode."""
    c = _at_opcode(module, instruction)
    if c is None:
        return instruction.line, instruction.column, len(instruction.opcode)
    return *c.locate(c.start), len(instruction.opcode)


def operand_span(module: Module, instruction: Instruction, i: int) -> tuple[int, int, int]:
    """Line, column and length of an instruction's operand ``i``, found by scanning the text again.

    An instruction that is not in the text gives its own place, length 0.
    """
    nowhere = (instruction.line, instruction.column, 0)
    c = _at_opcode(module, instruction)
    if c is None or not 0 <= i < len(instruction.operands):
        return nowhere
    c.seek(c.start + len(instruction.opcode))
    call = instruction.opcode.split(".", 1)[0] == "call"
    for _ in range(i):
        operand(c, call=call)
        c.take(",")
    start = c.start
    operand(c, call=call)
    end = min(c.previous_end, module.text.find("\n", start) % (len(module.text) + 1))
    return *c.locate(start), end - start


def _offset(module: Module, line: int, column: int) -> int | None:
    starts = line_starts(module.text)
    if not 1 <= line <= len(starts) or column < 1:
        return None
    offset = starts[line - 1] + column - 1
    return offset if offset < len(module.text) else None


def _at_opcode(module: Module, instruction: Instruction) -> Cursor | None:
    """A cursor at the opcode, or None if the text there is another."""
    offset = _offset(module, instruction.line, instruction.column)
    if offset is None:
        return None
    try:
        c = Cursor(module.text, module.file, offset)
        if c.take("@"):
            c.take("!")
            c.name("a predicate")
    except PtxSyntaxError:
        return None
    m = OPCODE.match(module.text, c.start)
    return c if m and m[0] == instruction.opcode else None
