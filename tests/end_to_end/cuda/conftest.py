"""These tests compile CUDA C++; without nvcc they are skipped."""

from __future__ import annotations

import pytest

from ptxlab.interop import nvcc
from tests.end_to_end.schedule_helpers import EVERY, Schedules, in_turn


@pytest.fixture(params=["in turn", pytest.param("every", marks=pytest.mark.slow)])
def schedules(request: pytest.FixtureRequest) -> Schedules:
    """Schedules by the number of a case, and how many of them."""
    return in_turn if request.param == "in turn" else lambda number, count=1: EVERY


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    try:
        nvcc.find_nvcc()
    except nvcc.NvccError as error:
        for item in items:
            if "tests/end_to_end/cuda" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason=str(error)))
