"""Frameworks that programs may import: CuTe DSL, Triton, torch, cuda.core with numba-cuda, TileLang; and CuPy, which is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ptxlab.interop import _bindings_runtime, _cuda_core, _cupy, _tilelang, torch
from ptxlab.interop.cute import process as cute
from ptxlab.interop.triton import process as triton

__all__ = ["prepared"]


@contextmanager
def prepared() -> Iterator[None]:
    """Prepare the process for a program that may import one of them, until the ``with`` statement ends.

    A framework that the program has imported stays as it is.
    """
    with ExitStack() as stack:
        for framework in (_bindings_runtime, cute, triton, _cuda_core, _cupy, _tilelang, torch):
            stack.callback(framework.install_on_import())
        yield
