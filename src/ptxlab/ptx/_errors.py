"""The error of the PTX front end."""

from __future__ import annotations

from ptxlab.diagnostics import PtxlabError

__all__ = ["PtxSyntaxError"]


class PtxSyntaxError(PtxlabError):
    """The text is not PTX; ``diagnostic`` says where, what was found and what was expected."""
