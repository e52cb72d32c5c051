"""Functions, scopes, declarations and statements of a text that may be incomplete."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from ptxlab.ptx import Token, tokens

__all__ = ["Definition", "FunctionPart", "Scope", "Statement", "Structure", "read_structure"]

_SPACES = frozenset({".shared", ".global", ".const", ".local", ".param", ".tex", ".sreg"})
_BEFORE_VARIABLE = frozenset({".visible", ".extern", ".weak", ".common"})
_FUNCTIONS = frozenset({".entry", ".func"})
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_DIGITS = "0123456789"


@dataclass(slots=True, eq=False)
class Definition:
    """A name that the text declares: ``kind`` is register, variable, parameter, label or function; ``token`` is the place of its name."""

    kind: str
    name: str
    token: int
    scope: int
    type: str = ""
    uses: list[int] = field(default_factory=list)
    """The tokens that name it, its declaration left out."""


@dataclass(slots=True)
class Scope:
    """The names of a module, function or block; ``families`` are declarations such as ``%r<10>``, by what stands before the number."""

    parent: int
    names: dict[str, Definition] = field(default_factory=dict)
    families: dict[str, tuple[int, Definition]] = field(default_factory=dict)


@dataclass(slots=True)
class Statement:
    """An instruction: the positions of its first and last token, of its guard (-1: none), and of its opcode: ``head``."""

    first: int
    last: int
    scope: int
    guard: int
    head: int


@dataclass(slots=True)
class FunctionPart:
    """An ``.entry`` or ``.func``: its name, and the tokens of its head and of its last brace."""

    kind: str
    definition: Definition
    first: int
    last: int


@dataclass(slots=True)
class Structure:
    """What an editor knows of a text."""

    text: str
    tokens: list[Token]
    comments: list[Token]
    scopes: list[Scope]
    functions: list[FunctionPart] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    blocks: list[tuple[int, int]] = field(default_factory=list)
    """The first and last token of what stands in braces."""
    locations: list[int] = field(default_factory=list)
    """The tokens ``.loc``."""
    used: dict[int, Definition] = field(default_factory=dict)
    """The definition that a token names; a token that declares names its own."""

    def resolve(self, scope: int, name: str) -> Definition | None:
        """The definition that a name means in a scope."""
        at = scope
        while at >= 0:
            names = self.scopes[at]
            found = names.names.get(name) or self._member(at, name)
            if found is not None:
                return found
            at = names.parent
        base, dot, _ = name.partition(".")
        return self.resolve(scope, base) if dot and base else None

    def _member(self, scope: int, name: str) -> Definition | None:
        """One register of a family; it gets its own definition when it is first named."""
        families = self.scopes[scope].families
        if not families or name[-1:] not in _DIGITS:
            return None
        for end in range(len(name) - 1, 0, -1):
            if name[end] not in _DIGITS:
                return None
            family = families.get(name[:end])
            digits = name[end:]
            if family and (digits == "0" or digits[0] != "0") and int(digits) < family[0]:
                made = Definition("register", name, family[1].token, family[1].scope, family[1].type)
                self.scopes[scope].names[name] = made
                return made
        return None

    def operands(self, statement: Statement) -> list[tuple[int, int]]:
        """The first and last token of each operand of an instruction."""
        found = []
        depth, first = 0, statement.head + 1
        for at in range(first, statement.last + 1):
            text = self.tokens[at].text
            if text in _OPENING:
                depth += 1
            elif text in _CLOSING:
                depth -= 1
            elif text == "," and depth <= 0:
                found.append((first, at - 1))
                first = at + 1
        if first <= statement.last:
            found.append((first, statement.last))
        return found

    def statement_at(self, token: int) -> Statement | None:
        """The instruction that a token stands in."""
        at = bisect_left(self.statements, token, key=lambda statement: statement.last)
        if at < len(self.statements) and self.statements[at].first <= token:
            return self.statements[at]
        return None

    def token_at(self, offset: int) -> int:
        """The token that a place in the text touches, a word before punctuation; -1 if there is none."""
        first = bisect_left(self.tokens, offset, key=lambda token: token.end)
        touching = [at for at in (first, first + 1) if at < len(self.tokens) and self.tokens[at].start <= offset <= self.tokens[at].end]
        words = [at for at in touching if self.tokens[at].kind in ("word", "number", "directive")]
        return next(iter(words or touching), -1)


class _Reader:
    """Reads tokens into a `Structure`; what does not fit is passed over."""

    def __init__(self, text: str) -> None:
        everything = tokens(text)
        found = [token for token in everything if token.kind != "comment"]
        comments = [token for token in everything if token.kind == "comment"]
        self.result = Structure(text, found, comments, [Scope(-1)])
        self.tokens = found
        self.texts = [token.text for token in found]
        self.count = len(found)
        self.uses: list[tuple[int, int]] = []

    def read(self) -> Structure:
        at = 0
        while at < self.count:
            at = self._item(at)
        result = self.result
        for token, scope in self.uses:
            definition = result.resolve(scope, self.texts[token])
            if definition is not None:
                definition.uses.append(token)
                result.used[token] = definition
        return result

    def _declare(self, kind: str, token: int, scope: int, type: str = "") -> Definition:
        made = Definition(kind, self.texts[token], token, scope, type)
        self.result.scopes[scope].names.setdefault(made.name, made)
        self.result.used[token] = made
        return made

    # ----------------------------------------------------------------------------------- module

    def _item(self, at: int) -> int:
        text = self.texts[at]
        if text in _FUNCTIONS:
            return self._function(at)
        if text in _SPACES:
            return self._variables(at, 0)
        if text == ".section":
            while at < self.count and self.texts[at] not in ("{", ";"):
                at += 1
            return self._braces(at)
        return at + 1

    def _braces(self, at: int) -> int:
        """The token behind a group in braces."""
        first, depth = at, 0
        while at < self.count:
            depth += (self.texts[at] == "{") - (self.texts[at] == "}")
            at += 1
            if depth <= 0:
                break
        if at - 1 > first:
            self.result.blocks.append((first, at - 1))
        return at

    def _function(self, at: int) -> int:
        first, kind = at, self.texts[at][1:]
        scope = len(self.result.scopes)
        self.result.scopes.append(Scope(0))
        at += 1
        if kind == "func" and at < self.count and self.texts[at] == "(":
            at = self._parameters(at, scope)
        if at >= self.count or self.tokens[at].kind != "word":
            return at
        definition = self._declare("function", at, 0, kind)
        at += 1
        if at < self.count and self.texts[at] == "(":
            at = self._parameters(at, scope)
        while at < self.count and self.texts[at] not in ("{", ";", "}") and self.texts[at] not in _FUNCTIONS:
            at += 1
        last = min(at, self.count - 1)
        if at < self.count and self.texts[at] == "{":
            at = self._body(at, scope)
            last = at - 1
        self.result.functions.append(FunctionPart(kind, definition, first, last))
        return at

    def _parameters(self, at: int, scope: int) -> int:
        """Declare the parameters in parentheses; return the token after them."""
        at += 1
        while at < self.count and self.texts[at] not in (")", "{", ";"):
            if self.texts[at] in _SPACES or self.texts[at] == ".reg":
                name, type, depth, begin = -1, "", 0, at
                while at < self.count and (depth or self.texts[at] not in (",", ")", "{", ";")):
                    token = self.tokens[at]
                    depth += (token.text == "[") - (token.text == "]")
                    if token.kind == "word":
                        name = at
                    elif token.kind == "directive" and at > begin and name < 0 and not token.text.startswith((".align", ".ptr")):
                        type = type or token.text[1:]
                    at += 1
                if name >= 0:
                    self._declare("parameter", name, scope, type)
            else:
                at += 1
        return at + (at < self.count and self.texts[at] == ")")

    def _variables(self, at: int, scope: int) -> int:
        """Declare the variables, or the registers, of a declaration; return the token after it."""
        space = self.texts[at]
        kind = "register" if space == ".reg" else "variable"
        type, depth, fresh, begin = "", 0, True, at
        at += 1
        while at < self.count and self.texts[at] != ";":
            token = self.tokens[at]
            if token.text in _OPENING:
                depth += 1
            elif token.text in _CLOSING:
                if depth == 0:
                    return at
                depth -= 1
            elif depth == 0 and token.text == ",":
                fresh = True
            elif token.kind == "directive" and depth == 0:
                if token.text in _FUNCTIONS or self._begins_line(at, begin):
                    return at
                if not token.text.startswith((".align", ".attribute", ".v2", ".v4")):
                    type = token.text[1:]
            elif token.kind == "word":
                if depth == 0 and fresh:
                    self._name(kind, at, scope, type if kind == "register" else f"{space[1:]} .{type}")
                    fresh = False
                else:
                    self.uses.append((at, scope))
            at += 1
        return min(at + 1, self.count)

    def _name(self, kind: str, at: int, scope: int, type: str) -> None:
        counted = at + 2 < self.count and self.texts[at + 1] == "<" and self.texts[at + 2].isdecimal() and len(self.texts[at + 2]) < 10
        if kind == "register" and counted:
            made = Definition(kind, self.texts[at], at, scope, type)
            self.result.scopes[scope].families.setdefault(made.name, (int(self.texts[at + 2]), made))
            self.result.used[at] = made
        else:
            self._declare(kind, at, scope, type)

    def _begins_line(self, at: int, begin: int) -> bool:
        return at > begin + 1 and "\n" in self.result.text[self.tokens[at - 1].end : self.tokens[at].start]

    # ------------------------------------------------------------------------------------- body

    def _body(self, at: int, scope: int) -> int:
        """Read statements up to the brace that closes a body; return the token after it."""
        opened = [(at, scope)]
        at += 1
        while at < self.count:
            token = self.tokens[at]
            text, scope = token.text, opened[-1][1]
            if text == "{":
                self.result.scopes.append(Scope(scope))
                opened.append((at, len(self.result.scopes) - 1))
                at += 1
            elif text == "}":
                self.result.blocks.append((opened.pop()[0], at))
                at += 1
                if not opened:
                    return at
            elif token.kind == "directive":
                if text in _FUNCTIONS:
                    break
                at = self._directive(at, scope)
            elif token.kind == "word" or text == "@":
                if at + 1 < self.count and self.texts[at + 1] == ":" and token.kind == "word":
                    self._declare("label", at, scope)
                    at += 2
                else:
                    at = self._instruction(at, scope)
            else:
                at += 1
        return at

    def _directive(self, at: int, scope: int) -> int:
        text = self.texts[at]
        if text == ".reg" or text in _SPACES:
            return self._variables(at, scope)
        if text in _BEFORE_VARIABLE:
            return at + 1
        if text == ".loc":
            self.result.locations.append(at)
            end = self.result.text.find("\n", self.tokens[at].start)
            end = len(self.result.text) if end < 0 else end
            at += 1
            while at < self.count and self.tokens[at].start < end and self.texts[at] not in ("}", ";"):
                at += 1
            return at
        at += 1
        while at < self.count and self.texts[at] not in (";", "}") and not self._begins_line(at, 0):
            if self.tokens[at].kind == "word":
                self.uses.append((at, scope))
            at += 1
        return at

    def _instruction(self, at: int, scope: int) -> int:
        """Read one instruction; where its semicolon is missing, it ends before the line that begins the next statement."""
        first, guard = at, -1
        if self.texts[at] == "@":
            at += 1
            at += at < self.count and self.texts[at] == "!"
            if at >= self.count or self.tokens[at].kind != "word":
                return at
            guard = at
            self.uses.append((at, scope))
            at += 1
            if at >= self.count or self.tokens[at].kind != "word":
                return at
        opcode = at
        at += 1
        depth = 0
        while at < self.count:
            token = self.tokens[at]
            text = token.text
            if text == ";":
                break
            if text in _OPENING:
                depth += 1
            elif text in _CLOSING:
                depth -= 1
                if depth < 0:
                    break
            elif token.kind == "word":
                if depth == 0 and at > opcode + 1 and self._is_next_statement(at):
                    break
                self.uses.append((at, scope))
            elif (token.kind == "directive" or text == "@") and self._begins_line(at, 0):
                break
            at += 1
        self.result.statements.append(Statement(first, at - 1, scope, guard, opcode))
        return at + (at < self.count and self.texts[at] == ";")

    def _is_next_statement(self, at: int) -> bool:
        return self.texts[at - 1] not in (",", "|", "!", "-", "+", "(") and self._begins_line(at, 0)


def read_structure(text: str) -> Structure:
    """Read the structure of any text."""
    return _Reader(text).read()
