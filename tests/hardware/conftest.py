"""The tests of this folder replay recordings of a GPU: `make quick` leaves them out. The recorders need
a GPU, the kernels their compilers."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
collect_ignore_glob = ["record_*.py", "kernels/build.py", "kernels/*_kernels.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.recording)
