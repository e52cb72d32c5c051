"""A cursor over the tokens of a PTX text, which knows their lines and columns and raises syntax errors.

Every pattern is possessive or unambiguous, so that scanning takes linear time for any text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NoReturn, TypeVar

from ptxlab.diagnostics import Place, PtxlabError, clean_line, diagnose

__all__ = ["COMMENT", "MAX_DEPTH", "NAME", "OPCODE", "SPACE", "Cursor", "PtxSyntaxError", "line_starts", "short"]

T = TypeVar("T")


class PtxSyntaxError(PtxlabError):
    """The text is not PTX; ``diagnostic`` says where, what was found and what was expected."""


MAX_DEPTH = 64
"""How deeply blocks, braces, brackets and parentheses may nest."""

COMMENT = r"(?>//[^\n]*+|/\*[^*]*+\*++(?:[^/*][^*]*+\*++)*+/)"
"""A comment (as a pattern). An atomic group, since ``re`` before Python 3.11.5 gets backtracking in a possessive group wrong."""

SPACE = rf"(?:[ \t\r\n\f\v]++|{COMMENT})*+"
"""White space and comments (as a pattern)."""

NAME = r"(?:[A-Za-z][\w$]*+|[%$_][\w$]++)"
"""An identifier (section "Identifiers")."""

OPCODE = re.compile(r"[A-Za-z]\w*+(?:(?:\.|::)\w++)*+", re.ASCII)

_TOKEN = re.compile(
    SPACE
    + rf"""(?:
      (?P<name>{NAME}(?:\.\w++)?+)
    | (?P<sink>_)
    | (?P<directive>\.[A-Za-z_]\w*+(?:::\w++)*+)
    | (?P<number>(?:\d++(?:\.\d*+)?+|\.\d++)[eE][+-]?+\d++(?![\w.])|\.?+\d[\w.]*+)
    | (?P<string>"(?:[^"\\\n]++|\\[^\n])*+")
    | (?P<punctuation><<|>>|<=|>=|==|!=|&&|\|\||@@|/(?!\*)|[-+*%!~<>=?:;,|&^(){{}}\[\]@.])
    | (?P<end>\Z)
    )""".replace("\n", "").replace(" ", ""),
    re.ASCII,
)
_SPACE = re.compile(SPACE)
_LONGEST_EXCERPT = 2000
_LONGEST_TOKEN = 40


@lru_cache(maxsize=8)
def line_starts(text: str) -> tuple[int, ...]:
    """The offset at which each line of a text begins."""
    return (0, *(m.end() for m in re.finditer("\n", text)))


def short(text: str) -> str:
    """A token for a message: a long one is cut."""
    return text if len(text) <= _LONGEST_TOKEN else text[:_LONGEST_TOKEN] + "..."


class Cursor:
    """The current token of a text: ``kind``, ``value``, and its ``start`` and ``end`` offsets.

    ``kind`` is name, sink, directive, number, string, punctuation or end.
    """

    __slots__ = ("_column_base", "_counted", "_line", "end", "file", "kind", "previous_end", "start", "text", "value")

    def __init__(self, text: str, file: str = "<ptx>", offset: int = 0) -> None:
        self.text = text
        self.file = file
        self.value = ""
        self._line, self._counted, self._column_base = 1, 0, 0
        self.seek(offset)

    # --------------------------------------------------------------------------------------- moving

    def seek(self, offset: int) -> None:
        """Make the token at or after an offset the current one."""
        self.end = offset
        self.start = offset
        self.advance()

    def advance(self) -> str:
        """Make the next token the current one; return the text of the one before."""
        before = self.value
        self.previous_end = self.end
        m = _TOKEN.match(self.text, self.end)
        if m is None:
            self._unreadable()
        kind = m.lastgroup
        assert kind is not None
        self.kind = kind
        self.value = m[kind]
        self.start, self.end = m.span(kind)
        return before

    def peek(self) -> tuple[str, str]:
        """The kind and the text of the token after the current one."""
        m = _TOKEN.match(self.text, self.end)
        if m is None or m.lastgroup is None:
            return "end", ""
        return m.lastgroup, m[m.lastgroup]

    def take(self, value: str) -> bool:
        """Whether the current token is this one; if it is, take it."""
        if self.value == value and self.kind != "string":
            self.advance()
            return True
        return False

    def at(self, value: str) -> bool:
        """Whether the current token is this one."""
        return self.value == value and self.kind != "string"

    def expect(self, value: str, *more: str) -> None:
        """Take this token, which must be the current one; ``more`` are others that an error message names as possible."""
        if not self.take(value):
            self.expected(*(repr(v) for v in (*more, value)))

    def finish(self, value: str, *more: str) -> int:
        """Check that this token ends the statement and return its end offset; it stays the current token."""
        if not self.at(value):
            self.expected(*(repr(v) for v in (*more, value)))
        return self.end

    def name(self, what: str) -> str:
        """Take an undotted identifier."""
        if self.kind != "name" or "." in self.value:
            self.expected(what)
        return self.advance()

    def token(self, what: str, *kinds: str) -> str:
        """Take a token of one of these kinds."""
        if self.kind not in kinds:
            self.expected(what)
        return self.advance()

    def separated(self, item: Callable[[], T]) -> list[T]:
        """Take one or more items with commas between them; ``item`` takes one."""
        found = [item()]
        while self.take(","):
            found.append(item())
        return found

    # --------------------------------------------------------------------------------------- places

    def locate(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset; cheap when called with growing offsets."""
        if offset < self._counted:
            self._line, self._counted, self._column_base = 1, 0, 0
        lines = self.text.count("\n", self._counted, offset)
        if lines:
            self._line += lines
            self._column_base = self.text.rfind("\n", self._counted, offset) + 1
        self._counted = offset
        return self._line, offset - self._column_base + 1

    def place(self, start: int, end: int) -> tuple[Place, str]:
        """The place of a stretch of text, and the line it begins on."""
        line, column = self.locate(start)
        stop = self.text.find("\n", start)
        stop = len(self.text) if stop < 0 else stop
        length = max(min(end, stop) - start, 1)
        excerpt = ""
        if column <= _LONGEST_EXCERPT:
            first = start - column + 1
            excerpt = clean_line(self.text[first : min(stop, first + _LONGEST_EXCERPT)])
        return Place(self.file, line, column, length), excerpt

    # --------------------------------------------------------------------------------------- errors

    def fail(
        self,
        code: str,
        message: str,
        start: int | None = None,
        end: int | None = None,
        *,
        reason: str = "",
        fix: str = "",
    ) -> NoReturn:
        """Raise a syntax error at a stretch of text, by default the current token."""
        if start is None:
            start, end = self.start, self.end
        place, excerpt = self.place(start, start + 1 if end is None else end)
        raise PtxSyntaxError(diagnose(code, message, reason=reason, fix=fix).at(place, excerpt))

    def expected(self, *what: str) -> NoReturn:
        """Raise a syntax error with what was expected here and what was found."""
        wanted = what[0] if len(what) == 1 else ", ".join(what[:-1]) + " or " + what[-1]
        message = f"expected {wanted}, found {self.found()}"
        if "';'" in what and "\n" in self.text[self.previous_end : self.start]:
            self.fail("S101", message, self.previous_end, fix="end the statement with ';'")
        self.fail("S101", message)

    def found(self) -> str:
        """The current token in words."""
        if self.kind == "end":
            return "the end of the text"
        return f"the string {short(self.value)}" if self.kind == "string" else repr(short(self.value))

    def too_deep(self, what: str) -> NoReturn:
        """Raise the error for nesting beyond the limit."""
        self.fail("S110", f"{what} nest more than {MAX_DEPTH} deep", fix="split the expression or block")

    def _unreadable(self) -> NoReturn:
        m = _SPACE.match(self.text, self.end)
        assert m is not None
        offset = m.end()
        if self.text.startswith("/*", offset):
            self.fail("S103", "this comment has no end", offset, offset + 2, fix="close it with '*/'")
        if self.text[offset] == '"':
            self.fail("S103", "this string has no end on its line", offset, fix="close it with '\"'")
        character = self.text[offset]
        shown = repr(character) if character.isprintable() else f"U+{ord(character):04X}"
        reason = "" if character.isascii() else "PTX text is ASCII (Source Format)"
        self.fail("S102", f"unexpected character {shown}", offset, reason=reason)
