"""The kit that times kernels with the driver alone, on the driver of ptxlab."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.profile.timing import kit
from tests.profile.timing.cluster_micro import CLUSTER_MICRO, launches


def test_a_kit_runs_on_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTX stands for the binaries: the driver compiles it."""

    def assembled(command: list[str], check: bool) -> Any:
        assert command[:2] == ["ptxas", "-arch=sm_90a"]
        return shutil.copy(command[2], command[4])

    monkeypatch.setattr(kit.subprocess, "run", assembled)
    made = kit.Kit(tmp_path / "kit")
    micro = CLUSTER_MICRO["mbarrier.round_trip.c2"]
    made.add("micro", micro.kernel, micro.count)
    made.add("time", next(launches()), None)
    made.write()
    monkeypatch.undo()
    command = [sys.executable, "-c", "from ptxlab.cli import main; main()", "exec", "--target", "sm_90a", "--check", "none"]
    program = [sys.executable, str(tmp_path / "kit" / "kit_runner.py"), str(tmp_path / "out")]
    done = subprocess.run([*command, *program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = dict(map(json.loads, (tmp_path / "out" / "results.jsonl").read_text().splitlines()))
    assert list(found) == ["about", "micro", "time"]
    assert found["about"]["sms"] == 132
    assert found["micro"]["count"] == micro.count
    assert len(found["micro"]["cycles"]) == 3
    assert len(found["time"]["ns"]) == 9
