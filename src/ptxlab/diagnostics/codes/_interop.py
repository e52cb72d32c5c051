"""Programs that run in ptxlab: host memory, the Triton driver, ``ptxlab exec``."""

from __future__ import annotations

from ptxlab.diagnostics.codes._info import CodeInfo

__all__ = ["CODES"]


CODES = (
    CodeInfo("I301", "error", "a package that the program needs is not installed"),
    CodeInfo("I302", "error", "an argument that a Triton kernel cannot take"),
    CodeInfo("I303", "error", "Triton cannot compile for the target"),
    CodeInfo("I304", "error", "a kernel that was compiled for a real device"),
    CodeInfo("I305", "note", "autotuning took the first valid configuration"),
    CodeInfo("I306", "warning", "a benchmark was asked for; its times mean nothing"),
    CodeInfo("I307", "note", "the program asks for a CUDA device; CPU memory is used"),
)
