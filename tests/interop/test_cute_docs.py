"""The programs of docs/cute.md run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cutlass.cute")
pytestmark = pytest.mark.compiler
PAGE = Path(__file__).parents[2] / "docs" / "cute.md"


def test_the_page_runs(tmp_path: Path) -> None:
    """As one program: CuTe DSL reads the source of its functions from a file."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
