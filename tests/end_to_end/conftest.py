"""Every test of this folder compiles programs or runs whole compiled programs: `make quick` leaves them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.end_to_end.schedule_helpers import EVERY, few

HERE = Path(__file__).parent


@pytest.fixture(params=["few", pytest.param("every", marks=pytest.mark.slow)])
def policies(request: pytest.FixtureRequest) -> tuple[dict[str, Any], ...]:
    """Eager, lazy and a random schedule, whose seed the name of the test chooses; in the slow run ten random ones."""
    return EVERY if request.param == "every" else few(crc32(request.node.name.encode()))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.compiler)
