"""The example: its demo, its launch file, its compilation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

GEMM = Path(__file__).resolve().parents[3] / "examples" / "gemm"


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_demo_reports_a_correct_result() -> None:
    report = run(str(GEMM / "demo.py"))
    assert "correct" in report
    assert "262,144 of 262,144 elements equal the bits of tcgen05.mma" in " ".join(report.split())


def test_launch_file_meets_its_expectation() -> None:
    found = json.loads(run("-c", "from ptxlab.cli import main; main()", "run", str(GEMM / "launch.toml"), "--json"))
    assert found["ok"] is True
    assert found["diagnostics"] == []
    assert found["stats"]["ctas"] == 16


@pytest.mark.slow
def test_every_schedule_gives_the_same_bits() -> None:
    command = ("-c", "from ptxlab.cli import main; main()", "check", str(GEMM / "launch.toml"), "--seeds", "10", "--json")
    assert json.loads(run(*command)) == {"ok": True, "schedules": 12, "diagnostics": []}


@pytest.mark.oracle
def test_compiling_the_source_again_gives_the_committed_text() -> None:
    triton = pytest.importorskip("triton")
    if triton.__version__ != "3.9.0":
        pytest.skip(f"the example was compiled by triton 3.9.0, not {triton.__version__}")
    program = f"import sys; sys.path.insert(0, {str(GEMM)!r}); import build; sys.stdout.write(build.compile_matmul())"
    compiled = run("-c", program)
    _, _, text = compiled.partition("shared memory\n")
    assert text == (GEMM / "matmul.ptx").read_text()
