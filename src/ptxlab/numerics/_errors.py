"""What a wrong argument raises."""

from __future__ import annotations

from ptxlab.diagnostics import CodeInfo, PtxlabError, diagnose, register_codes

__all__ = ["NumericsError"]

register_codes(CodeInfo("N101", "error", "an argument that an arithmetic function cannot take"))


class NumericsError(PtxlabError, ValueError):
    """An argument that an arithmetic function cannot take; the text says what was expected."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(diagnose("N101", message, fix=fix))
