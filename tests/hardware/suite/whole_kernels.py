"""Whole kernels of CUDA C++, Triton, Gluon and CuTe DSL: those of ``tests/hardware/kernels``."""

from __future__ import annotations

from tests.hardware.kernels import every
from tests.hardware.suite._kernel import Kernel


def kernels() -> list[Kernel]:
    return every()
