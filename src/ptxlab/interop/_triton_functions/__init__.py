"""Functions that Triton's programs call beside their kernels: benchmarks, autotuning, the profiler, cuBLAS, and ``breakpoint()``.

Diagnostics say what is not measured, because times in ptxlab mean nothing for a GPU.
"""

from __future__ import annotations

from contextlib import ExitStack

from ptxlab.interop._triton_functions import _breakpoint, _cublas, _measurements, _profiler

__all__ = ["change_functions"]


def change_functions(stack: ExitStack) -> None:
    """Change all of them until the stack is closed."""
    for part in (_breakpoint, _cublas, _measurements, _profiler):
        part.change(stack)
