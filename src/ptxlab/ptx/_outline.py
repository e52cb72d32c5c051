"""A module whose function bodies are parsed when they are first asked for: a text of many kernels of which one is launched."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

from ptxlab.native.collection import collection_paused
from ptxlab.ptx._cursor import COMMENT, PtxSyntaxError
from ptxlab.ptx._parser import Parser, parse
from ptxlab.ptx.ast import Block, Function, Module

__all__ = ["may_declare", "outline", "text_without_bodies"]

_LOCK = threading.RLock()
_STRING = r'"(?:[^"\\\n]++|\\[^\n])*+"'
_PLAIN = r'[^{}"/]*+'
_NEXT_BRACE = re.compile(rf"{_PLAIN}(?:(?:{COMMENT}|/(?!\*)|{_STRING}|\{{{_PLAIN}\}}){_PLAIN})*+([{{}}])")
"""The next brace outside comments and strings, which does not belong to a pair with plain text between them, as of a vector."""


class PendingBlock(Block):
    """A function body that is parsed when its statements are first asked for, which raises the errors that it has.

    Attributes
    ----------
    start, stop : offsets of its opening brace, and of the character after its closing brace
    """

    __slots__ = ("_file", "_text", "start", "stop")

    def __init__(self, text: str, file: str, start: int, stop: int, *, line: int, column: int) -> None:
        self._text: str | None = text
        self._file = file
        self.start, self.stop = start, stop
        self.line, self.column = line, column

    def __getattr__(self, name: str) -> Any:
        # Python calls this for `statements` as long as they have no value.
        if name != "statements":
            raise AttributeError(name)
        with _LOCK:
            if self._text is not None:
                body = Block([], line=self.line, column=self.column)
                with collection_paused():
                    Parser(self._text, self._file).statements(body, self.start, self.start + 1)
                self.statements, self._text = body.statements, None
        return self.statements

    def __eq__(self, other: object) -> bool:
        return self.statements == other.statements if isinstance(other, Block) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def mentions(self, word: str) -> bool:
        """Whether a word that is no part of an opcode occurs in the text of a body that is not yet parsed."""
        text = self._text
        at = -1 if text is None else text.find(word, self.start, self.stop)
        while text is not None and at >= 0:
            if text[at - 1] != "_" and not text[at - 1].isalnum():
                return True
            at = text.find(word, at + 1, self.stop)
        return text is None


class _Outliner(Parser):
    """Parses all but the bodies of functions."""

    def function_body(self) -> tuple[Block, int]:
        c = self.cursor
        stop = _closing_brace(c.text, c.start)
        if stop < 0:
            return super().function_body()
        line, column = c.locate(c.start)
        return PendingBlock(c.text, c.file, c.start, stop, line=line, column=column), stop


def _closing_brace(text: str, start: int) -> int:
    """The offset behind the brace that closes the one at ``start``; -1 if there is none."""
    match = _NEXT_BRACE.match
    depth, at = 1, start + 1
    while True:
        found = match(text, at)
        if found is None:
            return -1
        at = found.end()
        depth += 1 if found[1] == "{" else -1
        if not depth:
            return at


def outline(text: str, file: str = "<ptx>") -> Module:
    r"""Parse a PTX text, but each function body only when its statements are first asked for.

    Parameters
    ----------
    text : the whole text
    file : the name that diagnostics give it

    Raises
    ------
    PtxSyntaxError
        as `parse` does, if there is a mistake outside the bodies; a mistake in a body is reported when its statements are first asked for

    Examples
    --------
    >>> module = outline(".version 9.0\n.target sm_100a\n.address_size 64\n.entry a() { ret; }\n.entry b() { what is this; }")
    >>> module.functions["a"].body.statements
    [Instruction(opcode='ret', operands=(), guard=None, line=4, column=14)]
    """
    try:
        return _Outliner(text, file).module()
    except PtxSyntaxError:
        return parse(text, file)


def may_declare(body: Block) -> bool:
    """Whether a body may declare global or const variables; a body that is not parsed is searched as text."""
    return not isinstance(body, PendingBlock) or body.mentions(".global") or body.mentions(".const")


def text_without_bodies(module: Module, kept: Sequence[Function]) -> str:
    """The text of a module without the bodies that can be parsed alone, but with those of some functions."""
    named = {function.name for function in kept}
    pieces, at = [], 0
    for item in module.items:
        if isinstance(item, Function) and isinstance(item.body, PendingBlock) and item.name not in named:
            pieces.append(module.text[at : item.body.start])
            at = item.body.stop
    return "".join((*pieces, module.text[at:]))
