"""Tests that compile CUDA C++ skip without its compilers."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from ptxlab.interop import nvcc


def require_nvcc(version: str = "") -> None:
    """Skip a test that needs nvcc, of a release if one is given, and a host compiler."""
    try:
        found = nvcc.find_nvcc()
    except nvcc.NvccError:
        pytest.skip("needs nvcc")
    if shutil.which("g++") is None:
        pytest.skip("needs a host compiler")
    if version and f"release {version}," not in subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout:
        pytest.skip(f"needs nvcc {version}")
