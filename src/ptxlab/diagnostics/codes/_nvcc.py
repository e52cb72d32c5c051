"""CUDA C++: compilation (I20x) and host code (I21x)."""

from __future__ import annotations

from ptxlab.diagnostics.codes._info import CodeInfo

__all__ = ["CODES"]


CODES = (
    CodeInfo("I201", "error", "nvcc is not installed"),
    CodeInfo("I202", "error", "the CUDA compiler refuses the program"),
    CodeInfo("I203", "error", "the CUDA compiler cannot run"),
    CodeInfo("I211", "error", "host code calls a CUDA function that ptxlab does not have"),
    CodeInfo("I212", "error", "the host code has no such function"),
    CodeInfo("I213", "error", "an argument that a host function cannot take"),
)
