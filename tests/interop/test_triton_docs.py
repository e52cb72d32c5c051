"""The programs of docs/triton.md run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = pytest.mark.compiler

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "triton.md"
COMMANDS = [
    line
    for page in (PAGE, DOCS / "trace.md")
    for language, block in re.findall(r"^```([^\n]*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if not language and line.startswith("ptxlab exec ")
]
SCRIPT = """
import sys
import torch
from double_kernel import double

x = torch.ones(512)
double[(4,)](x, 512, BLOCK=128)
print(sys.argv[1:], x[::128].tolist())
"""


def test_programs(tmp_path: Path) -> None:
    program, kernel, more, test = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "double_kernel.py").write_text(kernel)
    (tmp_path / "test_program.py").write_text(f"def test_program():\n{re.sub('^', '    ', program + more, flags=re.MULTILINE)}\n\n{test}")
    variables = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_program.py"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command: str, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "double_kernel.py").write_text(next(block for block in blocks if "@triton.jit" in block))
    (tmp_path / "script.py").write_text(SCRIPT)
    words = shlex.split(command.replace("[arguments]", "one two"))
    program = [sys.executable, "-W", "ignore", "-c", "from ptxlab.cli import main; main()", *words[1:]]
    variables = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(program, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    only = "--only" in words
    assert done.stdout == f"{['one', 'two'] if 'one' in words else []} {[2.0, 1.0, 1.0, 2.0] if only else [2.0] * 4}\n"
    assert done.stderr.endswith(f"ptxlab: 1 launch on {'sm_90a' if 'sm_90a' in words else 'sm_100a'}, nothing found\n")
    if "--trace" in words:
        assert json.loads((tmp_path / "timeline.json").read_text())


def test_there_are_commands() -> None:
    assert len(COMMANDS) == 3
