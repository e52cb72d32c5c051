"""The Triton examples as programs, under ``ptxlab exec``: they pass, with nothing found, on every target that they are written for."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    not (importlib.util.find_spec("triton") and importlib.util.find_spec("torch")), reason="needs triton and torch"
)

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "triton"
LAUNCHES = {
    "01_vector_add": 1,
    "02_fused_softmax": 1,
    "03_matmul": 2,
    "04_dropout": 3,
    "05_layer_norm": 4,
    "06_fused_attention": 2,
    "07_grouped_gemm": 1,
    "08_persistent_matmul": 2,
    "09_block_scaled_matmul": 2,
    "10_gluon_warp_specialized": 1,
}
TCGEN05_ONLY = {"09_block_scaled_matmul", "10_gluon_warp_specialized"}
PORTABLE = sorted(set(LAUNCHES) - TCGEN05_ONLY)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Triton keeps what it has compiled."""
    return tmp_path_factory.mktemp("triton")


def passes(cache: Path, script: str, target: str, *options: str) -> None:
    path = FOLDER / f"{script}.py"
    program = [sys.executable, "-W", "ignore", "-c", "from ptxlab.cli import main; main()"]
    command = [*program, "exec", "--json", "--target", target, *options, str(path)]
    done = subprocess.run(command, env={**os.environ, "TRITON_CACHE_DIR": str(cache)}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["ok"] is True
    assert len(found["launches"]) == LAUNCHES[script]
    assert {d["code"] for d in found["diagnostics"]} <= {"I305", "X123"}
    verdicts = [line for line in done.stderr.splitlines() if "largest difference" in line]
    assert verdicts
    assert [line for line in verdicts if not line.endswith(": ok")] == []
    assert target in (ast.get_docstring(ast.parse(path.read_text())) or "") or target == "sm_90a"


def test_every_example_is_run() -> None:
    assert sorted(LAUNCHES) == sorted(path.stem for path in FOLDER.glob("[0-9]*.py"))
    assert [name[:2] for name in LAUNCHES] == [f"{i:02}" for i in range(1, 11)]


def sparing(of: Iterable[str], *scripts: str) -> list[Any]:
    """The others are slow."""
    return [script if script in scripts else pytest.param(script, marks=pytest.mark.slow) for script in of]


@pytest.mark.parametrize("script", LAUNCHES)
def test_passes_on_sm_100a(cache: Path, script: str) -> None:
    passes(cache, script, "sm_100a")


@pytest.mark.parametrize("script", sparing(PORTABLE, "02_fused_softmax", "07_grouped_gemm", "08_persistent_matmul"))
def test_passes_on_sm_90a(cache: Path, script: str) -> None:
    passes(cache, script, "sm_90a")


@pytest.mark.parametrize("script", sparing(LAUNCHES, *TCGEN05_ONLY))
def test_passes_on_sm_103a(cache: Path, script: str) -> None:
    passes(cache, script, "sm_103a")


def test_a_lock_orders_what_it_guards_under_a_random_schedule(cache: Path) -> None:
    """As the page of the examples runs it; what else it runs is run above."""
    plain, random = re.findall(r"^ptxlab exec (.*)$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert plain == "examples/triton/03_matmul.py"
    *options, script = random.split()
    assert options[:4] == ["--target", "sm_90a", "--policy", "random"]
    assert script == "examples/triton/05_layer_norm.py"
    passes(cache, "05_layer_norm", options[1], *options[2:])


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["lazy", *(f"random --seed {seed}" for seed in range(10))])
@pytest.mark.parametrize("script", LAUNCHES)
def test_passes_under_every_policy(cache: Path, script: str, schedule: str) -> None:
    passes(cache, script, "sm_100a", "--policy", *schedule.split())
