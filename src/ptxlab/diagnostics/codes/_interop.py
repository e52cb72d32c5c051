"""Programs around kernels: CuTe DSL (I1xx), CUDA C++ (I2xx), host memory, the Triton driver and ``ptxlab exec`` (I3xx)."""

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
    CodeInfo("I201", "error", "nvcc is not installed"),
    CodeInfo("I202", "error", "the CUDA compiler refuses the program"),
    CodeInfo("I203", "error", "the CUDA compiler cannot run"),
    CodeInfo("I211", "error", "host code calls a CUDA function that ptxlab does not have"),
    CodeInfo("I212", "error", "the host code has no such function"),
    CodeInfo("I213", "error", "an argument that a host function cannot take"),
    CodeInfo("I301", "error", "a package that the program needs is not installed"),
    CodeInfo("I302", "error", "an argument that a Triton kernel cannot take"),
    CodeInfo("I303", "error", "Triton cannot compile for the target"),
    CodeInfo("I304", "error", "a kernel that was compiled for a real device"),
    CodeInfo("I305", "note", "autotuning took the first valid configuration"),
    CodeInfo("I306", "warning", "a benchmark was asked for; its times mean nothing"),
    CodeInfo("I307", "note", "the program asks for a CUDA device; CPU memory is used"),
)
