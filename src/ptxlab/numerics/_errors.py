"""What a wrong argument raises."""

from __future__ import annotations

from ptxlab.diagnostics import PtxlabError, diagnose

__all__ = ["NumericsError"]


class NumericsError(PtxlabError, ValueError):
    """An argument that an arithmetic function cannot take; the text says what was expected."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(diagnose("N101", message, fix=fix))
