"""The error of CUDA C++ compilation and host code."""

from __future__ import annotations

from ptxlab.diagnostics import PtxlabError

__all__ = ["NvccError"]


class NvccError(PtxlabError):
    """CUDA C++ that cannot be compiled or called; the diagnostics carry the compiler's messages with their places."""
