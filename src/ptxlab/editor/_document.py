"""One text of the editor, with what has been found out about it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Lock

from lsprotocol import types

from ptxlab import ptx
from ptxlab.check import Checked, Followed
from ptxlab.diagnostics import Diagnostic, PtxlabError
from ptxlab.editor._positions import Positions
from ptxlab.editor._structure import Definition, Statement, Structure, read_structure
from ptxlab.editor._values import Values

__all__ = ["Document"]

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}


class Document:
    """A text that does not change; each edit makes a new one, which knows what has been found in the kernels of the one ``before``."""

    def __init__(self, text: str, file: str = "<ptx>", encoding: str = "utf-16", before: Document | None = None) -> None:
        self.text = text
        self.followed: Followed = Followed() if before is None else before.followed
        self.file = file
        self.positions = Positions(text, encoding)
        self._lock = Lock()
        self._checked: Checked | None = None
        self._findings: list[Diagnostic] | None = None

    @cached_property
    def structure(self) -> Structure:
        """Functions, names and instructions, also of a text that is not complete."""
        return read_structure(self.text)

    @cached_property
    def values(self) -> Values:
        """The constant values of registers."""
        return Values(self.structure)

    @property
    def instruction_findings(self) -> list[Diagnostic]:
        """What the linter finds without following the paths."""
        with self._lock:
            return self._check().instruction_findings

    @property
    def findings(self) -> list[Diagnostic]:
        """What the linter finds."""
        return self.find(lambda: True)

    def find(self, wanted: Callable[[], bool]) -> list[Diagnostic]:
        """What the linter finds; raises `Abandoned` when ``wanted`` says no."""
        with self._lock:
            if self._findings is None:
                checked, self._checked = self._check(), None
                self._findings = checked.findings(self.followed, wanted)
            return self._findings

    def _check(self) -> Checked:
        if self._checked is None:
            self._checked = Checked(self.text, self.file)
        return self._checked

    @cached_property
    def source_map(self) -> ptx.SourceMap | None:
        """The map to the source; None while the text is malformed."""
        try:
            return ptx.SourceMap(ptx.parse(self.text, self.file))
        except PtxlabError:
            return None

    def diagnostics(self, dataflow: bool = True, wanted: Callable[[], bool] = lambda: True) -> list[types.Diagnostic]:
        """The findings as the protocol has them, or those that need no data flow; raises `Abandoned` when ``wanted`` says no."""
        return [self.diagnostic(finding) for finding in (self.find(wanted) if dataflow else self.instruction_findings)]

    def diagnostic(self, finding: Diagnostic) -> types.Diagnostic:
        """One finding as the protocol has it."""
        place = finding.place
        where = self.positions.of_place(place.line, place.column, place.length) if place else self._header()
        lines = [finding.message]
        lines += [f"{name}: {value}" for name, value in (("why", finding.reason), ("fix", finding.fix)) if value]
        return types.Diagnostic(where, "\n".join(lines), severity=_SEVERITIES[finding.severity], code=finding.code, source="ptxlab")

    def _header(self) -> types.Range:
        """The line of ``.target``, for what concerns the whole module."""
        target = next((token for token in self.structure.tokens if token.text == ".target"), None)
        if target is None:
            return self.positions.range(0, 0)
        line = self.positions.position(target.start).line
        return self.positions.of_place(line + 1, 1, 0)

    def range_of(self, token: int) -> types.Range:
        """The range of a token."""
        found = self.structure.tokens[token]
        return self.positions.range(found.start, found.end)

    def token_at(self, position: types.Position) -> int:
        """The token at a position; -1 if there is none."""
        return self.structure.token_at(self.positions.offset(position))

    def definition_at(self, position: types.Position) -> Definition | None:
        """What the name at a position means."""
        token = self.token_at(position)
        return self.structure.used.get(token) if token >= 0 else None

    def line_of(self, statement: Statement) -> int:
        """The line of an instruction, from 1."""
        return self.positions.position(self.structure.tokens[statement.first].start).line + 1

    def statement_text(self, statement: Statement) -> str:
        """An instruction as it is written, on one line."""
        tokens = self.structure.tokens
        return " ".join(self.text[tokens[statement.first].start : tokens[statement.last].end].split())
