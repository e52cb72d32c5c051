"""Quick fixes: changes of the text for findings whose fix is exact."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from lsprotocol import types

from ptxlab.diagnostics import Diagnostic
from ptxlab.editor._document import Document

__all__ = ["quick_fixes"]


class _Change(NamedTuple):
    """The text between two offsets is replaced."""

    title: str
    start: int
    end: int
    text: str


_NEW_TARGET = re.compile(r"write (sm_\w+)")
_OLD_TARGET = re.compile(r"(sm_\w+) is called")
_TWICE = re.compile(r"(\.[\w:]+) is given twice")


def _meant(document: Document, finding: Diagnostic, start: int, end: int) -> _Change | None:
    """A misspelt word: ``did you mean NAME?``; the message names what stands in the text."""
    said = re.fullmatch(r"did you mean '?([^' ]+?)'?\?", finding.fix)
    if said is None:
        return None
    written = _WRITTEN[finding.code].search(finding.message)
    if written is None:
        return None
    # A name of an instruction stands for as many words of the opcode.
    words = written[1].split(".")[: said[1].count(".") + 1] if finding.code in _OPCODES else [written[1]]
    wrong = ".".join(words)
    at = document.text.find(wrong, start)
    if at < 0 or at > end:
        return None
    return _Change(f"write {said[1]}", at, at + len(wrong), said[1])


def _renamed(document: Document, finding: Diagnostic, start: int, end: int) -> _Change | None:
    """A target with a new name."""
    new, old = _NEW_TARGET.fullmatch(finding.fix), _OLD_TARGET.match(finding.message)
    at = document.text.find(old[1]) if old else -1
    return _Change(f"write {new[1]}", at, at + len(old[1]), new[1]) if new and old and at >= 0 else None


def _semicolon(document: Document, finding: Diagnostic, start: int, end: int) -> _Change | None:
    """A statement without its end."""
    return _Change("insert ';'", start, start, ";") if "';'" in finding.fix else None


def _version(document: Document, finding: Diagnostic, start: int, end: int) -> _Change | None:
    return _Change("insert '.version 9.0'", 0, 0, ".version 9.0\n") if "'.version 9.0'" in finding.fix else None


def _target(document: Document, finding: Diagnostic, start: int, end: int) -> _Change | None:
    line = re.search(r"^[ \t]*\.version[^\n]*\n?", document.text, re.MULTILINE)
    if line is None or "'.target sm_100a'" not in finding.fix:
        return None
    text = ".target sm_100a\n" if line[0].endswith("\n") else "\n.target sm_100a"
    return _Change("insert '.target sm_100a'", line.end(), line.end(), text)


def _offset(document: Document, finding: Diagnostic, start: int, end: int) -> _Change | None:
    """An offset that is subtracted."""
    at = document.text.find("-", start, end + 1)
    return _Change("add the negative offset", at, at, "+") if at >= 0 else None


def _twice(document: Document, finding: Diagnostic, start: int, end: int) -> _Change | None:
    """A modifier that is given twice."""
    named = _TWICE.match(finding.message)
    statement = document.structure.statement_at(document.structure.token_at(start))
    if named is None or statement is None:
        return None
    head = document.structure.tokens[statement.head]
    places = [m.start() for m in re.finditer(re.escape(named[1]) + r"(?![\w:])", document.text[head.start : head.end])]
    if len(places) < 2:
        return None
    at = head.start + places[-1]
    return _Change(f"remove the second {named[1]}", at, at + len(named[1]), "")


_WRITTEN = {
    "L101": re.compile(r"there is no instruction ([\w.:]+)"),
    "L102": re.compile(r"has no modifier (\.[\w:]+)"),
    "L108": re.compile(r"there is no target (\w+)"),
    "S106": re.compile(r"unknown (?:function )?directive '([^']+)'"),
    "S111": re.compile(r"unknown type '([^']+)'"),
    "U202": re.compile(r"there is no instruction ([\w.:]+)"),
    "U204": re.compile(r"the label ([%\w$]+) is not declared"),
    "U205": re.compile(r"([%\w$]+) is not declared"),
}
"""How the message of a misspelt word names what stands in the text."""

_OPCODES = frozenset({"L101", "U202"})
"""Codes whose message has a whole opcode, and whose fix the first words of another one."""

_FIXES: dict[str, Callable[[Document, Diagnostic, int, int], _Change | None]] = {
    **dict.fromkeys(_WRITTEN, _meant),
    "L104": _twice,
    "L123": _twice,
    "L127": _renamed,
    "S101": _semicolon,
    "S104": _version,
    "S105": _target,
    "S112": _offset,
}


def quick_fixes(document: Document, uri: str, wanted: types.Range) -> list[types.CodeAction]:
    """The fixes of the findings that touch a range."""
    positions = document.positions
    begin, end = positions.offset(wanted.start), positions.offset(wanted.end)
    found = []
    for finding in document.findings:
        fix = _FIXES.get(finding.code)
        shown = document.diagnostic(finding)
        start, stop = positions.offset(shown.range.start), positions.offset(shown.range.end)
        if fix is None or stop < begin or start > end:
            continue
        change = fix(document, finding, start, stop)
        if change is not None:
            edit = types.TextEdit(positions.range(change.start, change.end), change.text)
            found.append(
                types.CodeAction(
                    change.title,
                    kind=types.CodeActionKind.QuickFix,
                    diagnostics=[shown],
                    is_preferred=True,
                    edit=types.WorkspaceEdit(changes={uri: [edit]}),
                )
            )
    return found
