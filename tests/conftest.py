"""The mark `compiler` of whole folders, whose tests compile programs or run whole compiled programs: `make quick` leaves them out."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
WHOLE_PROGRAMS = {"cuda", "cute", "cutlass_cpp", "end_to_end", "examples", "kernels", "kernels_sm90"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(TESTS) and WHOLE_PROGRAMS & set(item.path.relative_to(TESTS).parts):
            item.add_marker(pytest.mark.compiler)
