"""Places of instructions: in the text, found on demand, and in the program that was compiled to it (``.file`` and ``.loc``)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from ptxlab.diagnostics import Place, clean_line
from ptxlab.ptx._cursor import OPCODE, Cursor, PtxSyntaxError, line_starts
from ptxlab.ptx._operands import operand
from ptxlab.ptx.ast import Block, Function, Instruction, Location, Module, Statement

__all__ = ["SourceMap", "line_text", "opcode_span", "operand_span", "place"]

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


_ESCAPE = re.compile(r"\\(?:([0-7]{3})|([^\n]))")
_INLINE_ASM = re.compile(r"^\s*// (begin|end) inline asm", re.MULTILINE)
_LONGEST_CHAIN = 256


def _unescape(name: str) -> str:
    """A file name as written in quotes: backslash escapes, with octal for the bytes of UTF-8."""
    if "\\" not in name:
        return name
    latin = _ESCAPE.sub(lambda m: chr(int(m[1], 8) & 255) if m[1] else m[2], name.encode().decode("latin-1"))
    return latin.encode("latin-1").decode("utf-8", "replace")


def _statements(block: Block) -> Iterator[Statement]:
    for statement in block.statements:
        if isinstance(statement, Block):
            yield from _statements(statement)
        else:
            yield statement


def _inline_asm(text: str) -> list[int]:
    """The lines on which inline assembly starts and ends, in turn."""
    edges: list[int] = []
    line = at = 0
    for mark in _INLINE_ASM.finditer(text):
        line += text.count("\n", at, mark.start(1))
        at = mark.start(1)
        if (mark[1] == "begin") == (len(edges) % 2 == 0):
            edges.append(line + 1)
    return edges


class _Lines:
    """Where in the source the lines of one function come from; ``first`` is the line at which its text begins."""

    def __init__(self, text: str, first: int) -> None:
        self._inline_asm = [line + first - 1 for line in _inline_asm(text)]
        self._starts: list[int] = []
        self._chains: list[tuple[tuple[int, int, int], ...]] = []

    def chain(self, line: int) -> tuple[tuple[int, int, int], ...]:
        """The place in force at a line, and the places that it was inlined at."""
        i = bisect_right(self._starts, line) - 1
        return self._chains[i] if i >= 0 else ()

    def enter(self, function: Function) -> None:
        """Enter the ``.loc`` directives of a function."""
        # The chain of inlining: inlined_at names the place of an earlier .loc, which may have been inlined in turn.
        known: dict[tuple[int, int, int], tuple[tuple[int, int, int], ...]] = {}
        for statement in _statements(function.body) if function.body is not None else ():
            if not isinstance(statement, Location):
                continue
            here = (statement.file, statement.line_number, statement.column_number)
            outer: tuple[tuple[int, int, int], ...] = ()
            if statement.inlined_at is not None:
                outer = (statement.inlined_at, *known.get(statement.inlined_at, ()))[:_LONGEST_CHAIN]
            known[here] = outer
            if statement.line_number and bisect_right(self._inline_asm, statement.line) % 2 == 0:
                self._add(statement.line, (here, *outer))

    def _add(self, line: int, chain: tuple[tuple[int, int, int], ...]) -> None:
        if self._starts and self._starts[-1] == line:
            self._chains[-1] = chain
        else:
            self._starts.append(line)
            self._chains.append(chain)


class SourceMap:
    r"""The source places of a module's instructions.

    A ``.loc`` holds for the instructions after it in the text, up to the next ``.loc`` or the end of its function. A
    ``.loc`` of line 0 (code without a line) leaves the one before it in force; so does one inside inline
    assembly, where LLVM counts the lines of the assembly as lines of the source.

    Examples
    --------
    >>> from ptxlab.ptx import parse
    >>> module = parse('''.version 9.0
    ... .target sm_100a
    ... .func f {
    ...   .loc 1 7 3
    ...   ret;
    ... }
    ... .file 1 "kernel.py"
    ... ''')
    >>> print(SourceMap(module).at(5))
    kernel.py:7:3
    """

    def __init__(self, module: Module) -> None:
        self._files = {index: _unescape(name) for index, name in module.files.items()}
        self._module = module
        self._functions = [item for item in module.items if isinstance(item, Function) and item.body is not None]
        self._first = [function.line for function in self._functions]
        self._entered: dict[int, _Lines] = {}

    def _lines(self, line: int) -> _Lines:
        """The lines of the function that a line of the text lies in; only then is its body looked at."""
        number = bisect_right(self._first, line) - 1
        if number < 0:
            return _Lines("", 1)
        found = self._entered.get(number)
        if found is None:
            starts = line_starts(self._module.text)
            first, after = self._first[number], self._first[number + 1 : number + 2]
            end = starts[after[0] - 1] if after and 0 < after[0] <= len(starts) else len(self._module.text)
            text = self._module.text[starts[first - 1] : end] if 0 < first <= len(starts) else ""
            found = self._entered[number] = _Lines(text, first)
            found.enter(self._functions[number])
        return found

    def _place(self, position: tuple[int, int, int]) -> Place:
        file, line, column = position
        return Place(self._files.get(file, f"<file {file}>"), line, column)

    def _chain(self, line: int) -> tuple[tuple[int, int, int], ...]:
        return self._lines(line).chain(line)

    def at(self, line: int) -> Place | None:
        """The source place in force at a line of the PTX text, or None.

        Of code that was inlined from a library's header it is the place that it was inlined at.
        """
        places = [self._place(position) for position in self._chain(line)]
        return next((place for place in places if "/include/" not in place.file), places[0] if places else None)

    def inlined(self, line: int) -> tuple[Place, ...]:
        """The places that the code at a line of the PTX text was inlined at, innermost first."""
        return tuple(map(self._place, self._chain(line)[1:]))

    def callers(self, line: int) -> tuple[Place, ...]:
        """Of these places those behind the one that `at` gives."""
        here, inlined = self.at(line), self.inlined(line)
        return inlined[inlined.index(here) + 1 :] if here in inlined else inlined

    def instructions(self, function: Function) -> tuple[Place | None, ...]:
        """The source place of each instruction of a function, in the order of the text."""
        body = function.body
        if body is None:
            return ()
        return tuple(self.at(s.line) for s in _statements(body) if isinstance(s, Instruction))
