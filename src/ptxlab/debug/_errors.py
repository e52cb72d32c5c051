"""What the debugger refuses."""

from __future__ import annotations

from ptxlab.diagnostics import PtxlabError, diagnose

__all__ = ["DebugError", "refuse"]


class DebugError(PtxlabError):
    """A request that the debugger refuses; the session stays as it is."""


def refuse(code: str, message: str, fix: str = "") -> DebugError:
    """Make the error of a refused request."""
    return DebugError(diagnose(code, message, fix=fix))
