"""Frameworks without an adapter package of their own: cuda.core with numba-cuda, TileLang; and CuPy, which is refused."""

from __future__ import annotations

from ptxlab.interop import _cuda_core, _cupy, _tilelang

__all__ = ["install_on_import"]


def install_on_import() -> None:
    """Prepare the process for a program that may import one of them, to the program's end."""
    for framework in (_cuda_core, _cupy, _tilelang):
        framework.install_on_import()
