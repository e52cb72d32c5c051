"""A long kernel starts soon: parsing and lowering are fast, and only what is executed is compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from tests.time_helpers import quickest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.sweep
def test_sixty_thousand_lines_start_within_ten_seconds(tmp_path: Path) -> None:
    """Cold: a new process and an empty cache. CPU seconds are compared, so that other work on the machine does not count."""
    command = [sys.executable, "-m", "benchmarks.worker", "first_instruction", "60000"]
    caches = count()

    def seconds() -> float:
        environment = os.environ | {"PTXLAB_CACHE_DIR": str(tmp_path / str(next(caches)))}
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        found = json.loads(run.stdout)
        assert found["lines"] > 60_000
        assert 0 < found["instructions"] < 100
        return float(found["cpu_s"])

    assert quickest(seconds, 10) < 10
