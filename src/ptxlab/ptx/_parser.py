"""From text to `Module`: one regular expression for usual statements, the exact parser for the rest."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from ptxlab.native.collection import collection_paused
from ptxlab.ptx import _debug as debug
from ptxlab.ptx import _declarations as declarations
from ptxlab.ptx._cursor import MAX_DEPTH, NAME, SPACE, Cursor, line_starts, short
from ptxlab.ptx._operands import GuardTable, Irregular, instruction, operand_table
from ptxlab.ptx._scope import Scope
from ptxlab.ptx.ast import Alias, Block, Function, Instruction, Label, Location, Module, Pragma, Statement, TopLevel

__all__ = ["Parser", "parse"]

_STATEMENT = re.compile(
    SPACE
    + r"(?:"
    + rf"(?:@(\s*+!?+\s*+{NAME})\s++)?+"  # 1 guard
    + r"([A-Za-z]\w*+(?:(?:\.|::)\w++)*+)(?=[\s;({\[])\s*+(?!:)"  # 2 opcode
    + r"([^;/\"]*+);"  # 3 operands
    + r"|\.loc[ \t]++(\d{1,9})[ \t]++(\d{1,9})[ \t]++(\d{1,9})"  # 4, 5, 6 location
    + rf"(?>,[ \t]*+function_name[ \t]++({NAME}|\.[A-Za-z_]\w*+)"  # 7 name of the inlined function
    + r",[ \t]*+inlined_at[ \t]++(\d{1,9})[ \t]++(\d{1,9})[ \t]++(\d{1,9}))?"  # 8, 9, 10 where it is inlined
    + r"(?=[ \t\r]*+(?:\n|//))"
    + rf"|({NAME})\s*+:(?!:)"  # 11 label
    + r"|(\{)"  # 12 begin of block
    + r"|(\})"  # 13 end of block
    + r"|(\.[A-Za-z_]\w*+)"  # 14 directive
    + r")",
    re.ASCII,
)
_LABELLED = frozenset({".branchtargets", ".calltargets", ".callprototype"})
_DEBUG: dict[str, Callable[[Cursor, int, int], TopLevel]] = {
    ".file": debug.file,
    ".section": debug.section,
    ".nv_intermediate_source_section": debug.intermediate_source,
}
_MODULE_DIRECTIVES = frozenset({".version", ".target", ".address_size", ".entry", ".func", ".pragma", ".alias", *_DEBUG})
_AFTER_LABEL = re.compile(SPACE + r"(\.(?:branchtargets|calltargets|callprototype)\b)", re.ASCII)
_BODY_DIRECTIVES = frozenset({".reg", ".loc", ".loc_intermediate", ".pragma"} | _LABELLED)
_DEFAULT_ADDRESS_SIZE = 64
"""The section ".address_size" says 32, but no tool chain of ISA 8.0 or later builds for 32 bits."""


def parse(text: str, file: str = "<ptx>") -> Module:
    r"""Parse a PTX text.

    Parameters
    ----------
    text : the whole text
    file : the name that diagnostics give it

    Raises
    ------
    PtxSyntaxError
        with the place, what was found and what was expected

    Examples
    --------
    >>> module = parse(".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k() { ret; }")
    >>> module.functions["k"].body.statements
    [Instruction(opcode='ret', operands=(), guard=None, line=4, column=23)]
    """
    with collection_paused():
        return Parser(text, file).module()


class Parser:
    """One parse of a text."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.cursor = Cursor(text, file)
        self.operands = operand_table()
        self.guards = GuardTable()
        self.version: tuple[int, int] | None = None
        self.targets: dict[str, None] = {}
        self.address_size: int | None = None
        self.items: list[TopLevel] = []
        self.scope = Scope()
        self.functions: dict[str, bool] = {}

    # --------------------------------------------------------------------------------------- module

    def module(self) -> Module:
        c = self.cursor
        while c.kind != "end":
            self._item()
        self._check_header("the module")
        assert self.version is not None
        size = self.address_size or _DEFAULT_ADDRESS_SIZE
        return Module(self.version, tuple(self.targets), size, self.items, self.text, c.file)

    def _check_header(self, what: str) -> None:
        c = self.cursor
        before = "" if what == "the module" else " before it"
        if self.version is None:
            c.fail("S104", f"{what} has no '.version' directive{before}", fix="begin the module with '.version 9.0' or another version")
        if not self.targets:
            c.fail("S105", f"{what} has no '.target' directive{before}", fix="write '.target sm_100a' or another target after '.version'")

    def _item(self) -> None:
        c = self.cursor
        line, column = c.locate(c.start)
        if c.at("@@"):
            self._check_header("'@@DWARF'")
            self.items.append(debug.dwarf_lines(c, line, column))
            return
        if c.kind != "directive":
            if c.take(";"):
                return
            if c.at("}"):
                c.fail("S101", "this '}' has no matching '{'")
            c.expected("a directive")
        header = {".version": self._version, ".target": self._target, ".address_size": self._address_size}
        if c.value in header:
            header[c.value]()
        else:
            self._check_header(repr(short(c.value)))
            self._declaration(c.value, line, column)

    def _declaration(self, value: str, line: int, column: int) -> None:
        c = self.cursor
        if value in _DEBUG:
            self.items.append(_DEBUG[value](c, line, column))
        elif value == ".pragma":
            self.items.append(self._pragma(line, column))
            c.advance()
        elif value == ".alias":
            c.advance()
            name = c.name("a function name")
            c.expect(",")
            self.items.append(Alias(name, c.name("a function name"), line=line, column=column))
            c.expect(";")
        else:
            linkage = ""
            if value in declarations.LINKAGES:
                linkage = c.advance()[1:]
            if c.value in (".entry", ".func"):
                self._function(linkage, line, column)
            elif c.value in declarations.SPACES - {".param"}:
                self._variables(linkage, line, column)
            elif linkage:
                c.expected("'.entry'", "'.func'", "a state space")
            else:
                self._unknown(value, inside=False)

    def _unknown(self, value: str, *, inside: bool) -> NoReturn:
        """Refuse a directive that does not exist, or not here."""
        here = _BODY_DIRECTIVES | declarations.SPACES if inside else _MODULE_DIRECTIVES | declarations.SPACES
        there = _MODULE_DIRECTIVES | declarations.LINKAGES if inside else _BODY_DIRECTIVES
        if value in there:
            scope = "at module scope" if inside else "in a function body"
            self.cursor.fail("S106", f"directive {value!r} is allowed only {scope}")
        known = here if inside else here | declarations.LINKAGES
        self.cursor.fail("S106", f"unknown directive {short(value)!r}", fix=declarations.suggestion(value, known))

    def _version(self) -> None:
        c = self.cursor
        c.advance()
        m = re.fullmatch(r"(\d{1,3})\.(\d{1,3})", c.value, re.ASCII)
        if m is None:
            c.expected("a version such as 9.0")
        version = (int(m[1]), int(m[2]))
        if self.version not in (None, version):
            c.fail("S113", "a second '.version' that differs from the first")
        self.version = version
        c.advance()

    def _target(self) -> None:
        c = self.cursor
        if self.version is None:
            self._check_header("'.target'")
        c.advance()
        self.targets |= dict.fromkeys(c.separated(lambda: c.name("a target such as sm_100a")))

    def _address_size(self) -> None:
        c = self.cursor
        self._check_header("'.address_size'")
        c.advance()
        if c.value not in ("32", "64"):
            c.expected("'32'", "'64'")
        if self.address_size not in (None, int(c.value)):
            c.fail("S113", "a second '.address_size' that differs from the first")
        self.address_size = int(c.value)
        c.advance()

    def _pragma(self, line: int, column: int) -> Pragma:
        """Take ``.pragma "text"`` up to its semicolon, which stays the current token."""
        c = self.cursor
        c.advance()
        texts = c.separated(lambda: c.token("a string", "string")[1:-1])
        c.finish(";", ",")
        return Pragma(tuple(texts), line=line, column=column)

    # ------------------------------------------------------------------------------------ variables

    def _declare(self, scope: Scope, what: str, name: str, at: tuple[int, int], count: int | None = None) -> None:
        """Enter a name, which is at or after a line and column."""
        if name == "_":
            return
        line, column = at
        earlier = scope.declare(name, line) if count is None else scope.declare_range(name, count, line)
        if earlier is not None:
            shown = short(name) if count is None else f"{short(name)}<{count}>"
            start = line_starts(self.text)[line - 1] + column - 1
            found = re.compile(r"(?<![\w$%])" + re.escape(name) + r"(?![\w$])", re.ASCII).search(self.text, start)
            span = found.span() if found else (start, start + 1)
            self.cursor.fail("S107", f"{what} {shown!r} is already declared on line {earlier}", *span)

    def _variables(self, linkage: str, line: int, column: int) -> None:
        c = self.cursor
        found = declarations.variable_declaration(c, linkage, line, column, self.operands)
        if linkage != "extern":
            for v in found:
                self._declare(self.scope, "variable", v.name, (line, column))
        self.items += found
        c.advance()

    # ------------------------------------------------------------------------------------ functions

    def _function(self, linkage: str, line: int, column: int) -> None:
        c = self.cursor
        kind = c.advance()[1:]
        attributes = declarations.attributes(c) if c.at(".attribute") else ()
        returns = declarations.parameters(c) if kind == "func" and c.at("(") else ()
        start = c.start
        name = c.name("a function name")
        params = declarations.parameters(c) if c.at("(") else ()
        directives = declarations.function_directives(c)
        if attributes:
            directives = (("attribute", attributes), *directives)
        function = Function(kind, name, params, returns, linkage, directives, None, line=line, column=column)
        scope = Scope()
        for p in (*returns, *params):
            self._declare(scope, "parameter", p.name, (p.line, p.column))
        if name not in self.functions:
            self._declare(self.scope, "function", name, (line, column))
            self.functions[name] = False
        self.items.append(function)
        if c.take(";"):
            return
        if not c.at("{"):
            c.expected(*(() if params else ("'('",)), "a function directive", "';'", "'{'")
        if self.functions[name]:
            place = c.text.find(name, start)
            c.fail("S107", f"function {short(name)!r} has a second body", place, place + len(name))
        self.functions[name] = True
        function.body, end = self.function_body()
        c.seek(end)

    def function_body(self) -> tuple[Block, int]:
        """The body at the cursor, and the offset after it."""
        c = self.cursor
        line, column = c.locate(c.start)
        body = Block([], line=line, column=column)
        return body, self.statements(body, c.start, c.end)

    def statements(self, body: Block, start: int, position: int) -> int:
        """Parse the statements of a body whose brace is at ``start``, from ``position`` on; return the offset after its closing brace."""
        c, text, match = self.cursor, self.text, _STATEMENT.match
        count, find_last = text.count, text.rfind
        operands, guards, opcodes = self.operands, self.guards, dict[str, str]()
        line, column = c.locate(start)
        last, line_start = start, start - column + 1
        outer: list[tuple[Block, Scope]] = []
        block, scope = body, Scope()
        statements = block.statements
        while True:
            m = match(text, position)
            if m is None:
                c.seek(position)
                start, kind = c.start, 0
            else:
                kind = m.lastindex or 0
                if kind == 3:
                    guard_text, opcode, operand_text = m.group(1, 2, 3)
                    start = m.start(2) if guard_text is None else m.start(1) - 1
                elif kind == 6 or kind == 10:
                    start = find_last(".", position, m.start(4))
                else:
                    start = m.start(kind)
            lines = count("\n", last, start)
            if lines:
                line += lines
                line_start = find_last("\n", last, start) + 1
            last = start
            column = start - line_start + 1

            if kind == 3:
                assert m is not None
                try:
                    guard = None if guard_text is None else guards[guard_text]
                    if "{" in operand_text or "(" in operand_text:
                        items = operands.split(operand_text, opcode == "call" or opcode.startswith("call."))
                    elif operand_text:
                        comma = ", " if ", " in operand_text else ","
                        items = tuple([operands[piece] for piece in operand_text.split(comma)])
                    else:
                        items = ()
                except Irregular:
                    c.seek(start)
                    statements.append(instruction(c, line, column))
                    position = c.end
                    continue
                opcode = opcodes.setdefault(opcode, opcode)
                statements.append(Instruction(opcode, items, guard, line, column))
                position = m.end()
            elif kind == 6 or kind == 10:
                assert m is not None
                inlined = None if kind == 6 else (int(m[8]), int(m[9]), int(m[10]))
                where = int(m[4]), int(m[5]), int(m[6])
                statements.append(Location(*where, m[7] or "", 0, inlined, None, line, column))
                position = m.end()
            elif kind == 11:
                assert m is not None
                position = self._label(m, scope, statements, line, column)
            elif kind == 12:
                if len(outer) == MAX_DEPTH:
                    c.seek(start)
                    c.too_deep("blocks")
                outer.append((block, scope))
                block, scope = Block([], line=line, column=column), Scope()
                statements.append(block)
                statements = block.statements
                position = start + 1
            elif kind == 13:
                position = start + 1
                if not outer:
                    return position
                block, scope = outer.pop()
                statements = block.statements
            elif kind == 14:
                assert m is not None
                c.seek(start)
                position = self._directive(m[14], statements, scope, line, column)
            elif c.at(";"):  # an empty statement, which inline assembly may leave
                position = c.end
            elif c.kind == "name" or c.at("@"):
                statements.append(instruction(c, line, column))
                position = c.end
            else:
                c.expected("a statement", "'}'")

    def _directive(self, value: str, statements: list[Statement], scope: Scope, line: int, column: int) -> int:
        """A directive in a body, at the cursor; return the offset after it."""
        c = self.cursor
        if value == ".loc":
            statements.append(debug.location(c, line, column))
            return c.previous_end
        if value == ".loc_intermediate":
            before = statements[-1] if statements else None
            if not isinstance(before, Location):
                c.fail("S106", "'.loc_intermediate' must directly follow a '.loc'")
            before.intermediate = debug.intermediate_location(c)
            return c.previous_end
        if value == ".reg":
            registers = declarations.register_declaration(c, line, column)
            for name, count in registers.names:
                self._declare(scope, "register", name, (line, column), count)
            statements.append(registers)
            return c.end
        linkage = c.advance()[1:] if value == ".extern" else ""
        if c.value in declarations.SPACES:
            found = declarations.variable_declaration(c, linkage, line, column, self.operands)
            for v in found:
                self._declare(scope, "variable", v.name, (line, column))
            statements += found
        elif value == ".pragma":
            statements.append(self._pragma(line, column))
        elif value in _LABELLED:
            c.fail("S106", f"directive {value!r} needs a label before it", fix=f"write 'name: {value} ...;'")
        else:
            self._unknown(c.value, inside=True)
        return c.end

    def _label(self, m: re.Match[str], scope: Scope, statements: list[Statement], line: int, column: int) -> int:
        """A label, or the directive that it names; return the offset after it."""
        c = self.cursor
        name = m[11]
        self._declare(scope, "label", name, (line, column))
        text, position = self.text, m.end()
        directive = _AFTER_LABEL.match(text, position)
        if directive is None:
            statements.append(Label(name, line=line, column=column))
            return position
        c.seek(directive.start(1))
        if c.value == ".callprototype":
            statements.append(declarations.call_prototype(c, name, line, column))
        else:
            statements.append(declarations.targets(c, name, line, column))
        return c.end
