"""How fast lint is, and how much memory it takes: the demands of ``benchmarks.required``, with room for a busy machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
BUSY = 3
"""How many times slower a processor may be that other programs use."""


def measured(*arguments: str) -> dict[str, Any]:
    """What a worker of the benchmarks prints."""
    command = [sys.executable, "-c", f"from benchmarks.worker import main; main(*{arguments!r})"]
    result: dict[str, Any] = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    return result


@pytest.mark.slow
def test_lines_a_second() -> None:
    rates = measured("lint", "2")
    assert max(rates["lines_per_s"]) > 100_000 / BUSY
    assert max(rates["dataflow_lines_per_s"]) > 20_000 / BUSY


@pytest.mark.slow
def test_a_long_module() -> None:
    found = measured("lint_long", "38")
    assert found["lines"] > 370_000
    assert found["cpu_s"] < 20 * BUSY
    assert found["peak_mib"] < 1500


@pytest.mark.sweep
def test_time_grows_with_the_length() -> None:
    """No rule looks at each pair of instructions: twice the kernels take no more than about twice the time."""
    one, three = (measured("lint_long", count)["cpu_s"] for count in ("1", "3"))
    assert three < 6 * one
