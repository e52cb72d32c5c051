"""Whole kernels for sm_90a of CUDA C++, Triton, Gluon and CuTe DSL: sources, the PTX that their compilers make, and cases.

``build.py`` compiles the sources. ``python -m tests.hardware record whole_kernels`` records the cases on a GPU.
"""

from __future__ import annotations

import importlib

from tests.hardware.suite._kernel import Kernel

CASES = (
    "algorithm_cases",
    "attention_cases",
    "cluster_cases",
    "copy_cases",
    "cute_cases",
    "gemm_cases",
    "probe_cases",
    "row_cases",
    "sparse_cases",
    "triton_cases",
    "warp_gemm_cases",
)


def every() -> list[Kernel]:
    """All cases."""
    modules = [importlib.import_module(f"tests.hardware.kernels.{name}") for name in CASES]
    return [kernel for module in modules for kernel in module.kernels()]
