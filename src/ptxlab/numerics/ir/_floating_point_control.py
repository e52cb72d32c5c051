"""The control register of x86 for floating-point operations, while a function runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ptxlab.native import host
from ptxlab.native.builder import Function

__all__ = ["FLUSH_TO_ZERO", "TOWARD_ZERO", "floating_point_control"]

FLUSH_TO_ZERO, TOWARD_ZERO = 1 << 15, 3 << 13
"""Bits of MXCSR: subnormal results become zero, and results are rounded toward zero."""


@contextmanager
def floating_point_control(code: Function, bits: int) -> Iterator[None]:
    """Call functions with ``bits`` of MXCSR set, and cleared what is not among them of the two above; without MXCSR change nothing."""
    if not host().has_mxcsr:
        yield
        return
    for name in ("stmxcsr", "ldmxcsr"):
        code.module.declare(f"@llvm.x86.sse.{name}", f"declare void @llvm.x86.sse.{name}(ptr)")
    before, changed = (code.stack("i32", 4) for _ in range(2))
    code.call("llvm.x86.sse.stmxcsr", "void", before)
    changed.store(before.load("i32") & ~(FLUSH_TO_ZERO | TOWARD_ZERO) | bits)
    code.call("llvm.x86.sse.ldmxcsr", "void", changed)
    yield
    code.call("llvm.x86.sse.ldmxcsr", "void", before)
