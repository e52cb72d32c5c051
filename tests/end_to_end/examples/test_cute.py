"""The examples of CuTe DSL, as programs, under ``ptxlab exec``."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[3] / "examples" / "cute"
EXAMPLES = {
    "dense_gemm": (["sm_100a"], 2, "512 x 256 x 256 by 1 CTA: ok\n512 x 256 x 256 by 2 CTAs: ok\n"),
    "block_scaled_gemm": (["sm_100a"], 1, "256 x 128 x 512, scales of 32 elements: ok\n"),
    "persistent_gemm": (["sm_100a"], 1, "1024 x 256 x 192 by persistent pairs of CTAs: ok\n"),
    "fused_attention": (["sm_100a"], 2, "2 heads of 256 x 64: ok\n2 heads of 256 x 64, causal: ok\n"),
    "hopper_gemm": (["sm_90a"], 1, "512 x 128 x 256 by clusters of 2: ok\n"),
}


@pytest.mark.skipif(not importlib.util.find_spec("nvidia_cutlass_dsl"), reason="needs nvidia-cutlass-dsl")
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    pytest.importorskip("torch")
    targets, launches, output = EXAMPLES[name]
    for target in targets:
        command = [sys.executable, "-c", "from ptxlab.cli import main; main()", "exec", "--target", target, str(HERE / f"{name}.py")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout == output
        plural = "es" if launches > 1 else ""
        assert f"ptxlab: {launches} launch{plural} on {target}, nothing found" in done.stderr


def test_every_example_is_run() -> None:
    assert {path.stem for path in HERE.glob("*.py")} == set(EXAMPLES)
