"""From lines of the PTX text to places in the program it was compiled from (``.file`` and ``.loc``)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from ptxlab.diagnostics import Place
from ptxlab.ptx.ast import Block, Function, Instruction, Location, Module, Statement

__all__ = ["SourceMap"]

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


class SourceMap:
    r"""The source places of a module's instructions.

    A ``.loc`` holds for the instructions after it in the text, up to the next ``.loc`` or the end of its function. A
    ``.loc`` of line 0 (code that belongs to no line) leaves the one before it in force; so does one in the midst of inline
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
        self._inline_asm = _inline_asm(module.text)
        self._lines: list[int] = []
        self._chains: list[tuple[tuple[int, int, int], ...]] = []
        for item in module.items:
            if isinstance(item, Function) and item.body is not None:
                self._enter(item.line, ())
                self._function(item.body)

    def _function(self, body: Block) -> None:
        # The chain of inlining: inlined_at names the place of an earlier .loc, which may have been inlined in turn.
        known: dict[tuple[int, int, int], tuple[tuple[int, int, int], ...]] = {}
        for statement in _statements(body):
            if not isinstance(statement, Location):
                continue
            here = (statement.file, statement.line_number, statement.column_number)
            outer: tuple[tuple[int, int, int], ...] = ()
            if statement.inlined_at is not None:
                outer = (statement.inlined_at, *known.get(statement.inlined_at, ()))[:_LONGEST_CHAIN]
            known[here] = outer
            if statement.line_number and bisect_right(self._inline_asm, statement.line) % 2 == 0:
                self._enter(statement.line, (here, *outer))

    def _enter(self, line: int, chain: tuple[tuple[int, int, int], ...]) -> None:
        if self._lines and self._lines[-1] == line:
            self._chains[-1] = chain
        else:
            self._lines.append(line)
            self._chains.append(chain)

    def _place(self, position: tuple[int, int, int]) -> Place:
        file, line, column = position
        return Place(self._files.get(file, f"<file {file}>"), line, column)

    def _chain(self, line: int) -> tuple[tuple[int, int, int], ...]:
        i = bisect_right(self._lines, line) - 1
        return self._chains[i] if i >= 0 else ()

    def at(self, line: int) -> Place | None:
        """The source place in force at a line of the PTX text, or None."""
        chain = self._chain(line)
        return self._place(chain[0]) if chain else None

    def inlined(self, line: int) -> tuple[Place, ...]:
        """The places that the code at a line of the PTX text was inlined at, innermost first."""
        return tuple(map(self._place, self._chain(line)[1:]))

    def instructions(self, function: Function) -> tuple[Place | None, ...]:
        """The source place of each instruction of a function, in the order of the text."""
        body = function.body
        if body is None:
            return ()
        return tuple(self.at(s.line) for s in _statements(body) if isinstance(s, Instruction))
