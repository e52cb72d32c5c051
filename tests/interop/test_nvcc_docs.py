"""The guide's examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.nvcc_helpers import require_nvcc

pytestmark = pytest.mark.compiler

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cuda.md"


@pytest.fixture(autouse=True)
def compilers() -> None:
    require_nvcc()


def execute(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(script)], cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_the_finding(tmp_path: Path) -> None:
    """The example reports what the page shows; with the barrier it reports nothing."""
    script = ROOT / "examples" / "cuda" / "reverse.py"
    kernel = script.with_suffix(".cu").read_text()
    section = PAGE.read_text().partition("## A finding")[2].partition("## Kernels")[0]
    (shown, finding) = re.findall(r"^```(?:cuda)?\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert [line for line in shown.splitlines() if f"  {line}\n" not in kernel] == []
    done = execute(script)
    assert done.returncode == 1, done.stderr
    assert done.stdout.replace(f"{ROOT}/", "").endswith(finding)
    corrected = tmp_path / "reverse.py"
    corrected.write_text(script.read_text())
    corrected.with_suffix(".cu").write_text(kernel.replace("// Missing: ", ""))
    done = execute(corrected)
    assert (done.returncode, done.stdout) == (0, "nothing found\n"), done.stderr


def test_the_examples_of_the_page() -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    assert names["host"].launches
