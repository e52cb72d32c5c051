"""Frameworks that programs may import: CuTe DSL, Triton, torch, cuda.core with numba-cuda, TileLang; and CuPy, which is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ptxlab.interop import _bindings_runtime, _cuda_core, _cupy, _tilelang, torch
from ptxlab.interop.cute import process as cute
from ptxlab.interop.optional_packages import after_import, before_import
from ptxlab.interop.triton import process as triton

__all__ = ["prepared"]


@contextmanager
def prepared() -> Iterator[None]:
    """Prepare the process for a program that may import one of them, until the ``with`` statement ends.

    A framework that the program has imported stays as it is. An import raises `BuildError` if it needs libraries, and there is no compiler
    for them.
    """
    with ExitStack() as stack:
        stack.callback(after_import(_bindings_runtime.MODULE, _bindings_runtime.install))
        stack.callback(before_import("cutlass", cute.prepare))
        stack.callback(before_import("triton", triton.prepare))
        stack.callback(after_import("cuda.core", _cuda_core.prepare))
        stack.callback(before_import("cupy", _cupy.report))
        stack.callback(before_import("tilelang", _tilelang.prepare))
        stack.callback(torch.install_on_import())
        yield
