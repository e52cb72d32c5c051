"""These tests compile CUDA C++; without nvcc they are skipped."""

from __future__ import annotations

import pytest

from ptxlab.interop import nvcc


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    try:
        nvcc.find_nvcc()
    except nvcc.NvccError as error:
        for item in items:
            if "tests/cuda" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason=str(error)))
