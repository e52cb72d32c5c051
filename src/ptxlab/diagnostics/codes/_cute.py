"""CuTe DSL programs (I1xx)."""

from __future__ import annotations

from ptxlab.diagnostics.codes._info import CodeInfo

__all__ = ["CODES"]


CODES = (
    CodeInfo("I101", "error", "CuTe DSL is not installed"),
    CodeInfo("I102", "error", "CuTe DSL does not know the target"),
    CodeInfo("I103", "error", "an array that CuTe DSL cannot take"),
    CodeInfo("I104", "error", "an argument that differs from the one that the host function was compiled for"),
    CodeInfo("I105", "error", "the host function calls a CUDA function that ptxlab does not have"),
    CodeInfo("I106", "error", "the host function ended with an error"),
    CodeInfo("I107", "error", "CuTe DSL has written no PTX"),
)
