"""Tests that compile CUDA C++ skip without its compilers."""

from __future__ import annotations

import shutil

import pytest

from ptxlab.interop import nvcc


def require_nvcc() -> None:
    """Skip a test that needs nvcc and a host compiler."""
    try:
        nvcc.find_nvcc()
    except nvcc.NvccError:
        pytest.skip("needs nvcc")
    if shutil.which("g++") is None:
        pytest.skip("needs a host compiler")
