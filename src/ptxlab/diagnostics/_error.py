"""The exception that carries diagnostics."""

from __future__ import annotations

from ptxlab.diagnostics._diagnostic import Diagnostic

__all__ = ["PtxlabError"]


class PtxlabError(Exception):
    """Base of every error that ptxlab raises to a user: it carries the diagnostics. Its text has each cause once, causes first."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        from ptxlab.diagnostics._groups import grouped

        groups = grouped(diagnostics)
        super().__init__("\n\n".join(f"{g.first}\n  more like this: {g.others}" if g.others else str(g.first) for g in groups))
        self.diagnostics = diagnostics

    @property
    def diagnostic(self) -> Diagnostic:
        """The first diagnostic."""
        return self.diagnostics[0]
