"""Diagnostic codes of CUDA C++: compilation (I20x), host code (I21x)."""

from __future__ import annotations

from ptxlab.diagnostics import CodeInfo, PtxlabError, register_codes

__all__ = ["NvccError"]

register_codes(
    CodeInfo("I201", "error", "nvcc is not installed"),
    CodeInfo("I202", "error", "the CUDA compiler refuses the program"),
    CodeInfo("I203", "error", "the CUDA compiler cannot run"),
    CodeInfo("I211", "error", "host code calls a CUDA function that ptxlab does not have"),
    CodeInfo("I212", "error", "the host code has no such function"),
    CodeInfo("I213", "error", "an argument that a host function cannot take"),
)


class NvccError(PtxlabError):
    """CUDA C++ that cannot be compiled or called; the diagnostics carry the compiler's messages with their places."""
