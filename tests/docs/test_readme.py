"""The README and the pages that it leads to: the example's finding, its commands, its entry points; the report of a hang."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import ptxlab
from ptxlab.cli._main import COMMANDS, cli

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
PTX_PAGE = (DOCS / "ptx.md").read_text()
EXAMPLE = "examples/findings/missing_wait.py"


def test_report_of_missing_bytes() -> None:
    text = (ROOT / "tests" / "end_to_end" / "triton" / "gl_mm_fp16.ptx").read_text()
    assert text.count("], 32768;") == 2
    kernel = ptxlab.loads(text.replace("], 32768;", "], 36864;"), file="gl_mm_fp16.ptx").kernel()
    a, b, c = (np.zeros((128, n), np.float16) for n in (64, 128, 128))
    maps = [(ptxlab.TensorMap(x, box=(64, rows), swizzle="128B"), x) for x, rows in ((a, 128), (b[:64], 64), (c, 128))]
    args = [word for tensor, x in maps for word in (tensor, *x.shape, x.shape[1], 1)]
    result = kernel.launch(grid=1, block=128, shared_bytes=40000, args=[*args, 64, None, None])
    (found,) = result.diagnostics
    shown = (DOCS / "hangs.md").read_text().split("```\ngl_mm_fp16.ptx", 1)[1].split("```", 1)[0]
    report = " ".join(str(found).split())
    assert report.startswith(" ".join(f"gl_mm_fp16.ptx{shown}".split("\n  157 |")[0].split()))
    for part in shown.replace(" ...:", "\n").splitlines():
        assert " ".join(part.split()) in report, part


def test_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GEMM of the page about PTX, and a bundle of it as the page about wrong values makes one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (first,) = [block for block in re.findall(r"^```python\n(.*?)^```$", PTX_PAGE, re.MULTILINE | re.DOTALL) if "matmul.ptx" in block]
    names: dict[str, Any] = {"np": np, "ptxlab": ptxlab}
    exec(first, names)
    exact = names["A"].astype(np.float64) @ names["B"].astype(np.float64)
    assert np.allclose(names["C"], exact, rtol=2e-3, atol=2e-2)
    (arguments,) = re.findall(r"kernel\.launch\((.*)\)$", first, re.MULTILINE)
    more = f"""
result = kernel.launch({arguments}, keep_inputs=True)
found = str(result.provenance(C, (3, 17)))
result.save_bundle("bug.ptxlab")
"""
    exec(more, names)
    assert found_line(names["found"]) > 0
    assert (tmp_path / "bug.ptxlab").exists()


def found_line(provenance: str) -> int:
    return int(re.search(r"matmul\.ptx:(\d+):", provenance)[1])  # type: ignore[index]


FILES = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', PTX_PAGE, re.MULTILINE | re.DOTALL))
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", (DOCS / "reference" / "command-line.md").read_text(), re.MULTILINE | re.DOTALL)
LINES = [line.partition("#")[0].strip() for block in BLOCKS for line in block.splitlines()]
ROWS = re.findall(r"^\| `([^`]+)` \|", README.partition("## Entry points")[2].partition("## ")[0], re.MULTILINE)


@pytest.fixture
def beside_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the page about PTX, corrected, and others that the commands name."""
    monkeypatch.chdir(tmp_path)
    corrected = FILES["copy.ptx"].replace("[full], 256", "[full], 128")
    (tmp_path / "copy.ptx").write_text(corrected)
    (tmp_path / "kernel.ptx").write_text(corrected)
    (tmp_path / "launch.toml").write_text(FILES["launch.toml"].replace('"to"', '"C"'))
    (tmp_path / "nightly.toml").write_text('[[launches]]\nfile = "launch.toml"\n')
    (tmp_path / "script.py").write_text("print('no kernel')\n")
    (tmp_path / "commands.txt").write_text("continue\n")
    np.save("expected.npy", np.arange(32, dtype=np.uint32))
    return tmp_path


@pytest.mark.parametrize("line", [*LINES, *(row for row in ROWS if row.startswith("ptxlab "))])
def test_commands(line: str, beside_the_files: Path) -> None:
    words = shlex.split(line)
    assert words[0] == "ptxlab"
    done = CliRunner().invoke(cli, words[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def test_every_command_is_an_entry_point() -> None:
    assert {line.split()[1] for line in LINES} <= set(COMMANDS)
    assert len(LINES) >= 10
    entries = [row.split()[1] for row in ROWS if row.startswith("ptxlab ")]
    # import-records needs what a GPU has written; the page of record-kit shows it.
    assert set(entries) == set(COMMANDS) - {"warmup", "import-records"}
    assert len(ROWS) == len(entries) + 2


def test_the_python_entry_point(beside_the_files: Path) -> None:
    (row,) = [row for row in ROWS if row.startswith("ptxlab.load")]
    a, b = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)
    result = eval(row.replace("launch(...)", "launch(grid=1, block=32, args=[a, b])"), {"ptxlab": ptxlab, "a": a, "b": b})
    assert result.ok
    assert np.array_equal(a, b)


def test_the_examples_exist() -> None:
    pages = [README, *(path.read_text() for path in DOCS.glob("*.md"))]
    shown = {path for page in pages for path in re.findall(r"\bptxlab exec (examples/\S+?\.py)", page)}
    assert len(shown) >= 3
    assert [path for path in shown if not (ROOT / path).exists()] == []


def execute(*options: str, script: Path | str = EXAMPLE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from ptxlab.cli import main; main()", "exec", *options, str(script)]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONUNBUFFERED": "1"}, capture_output=True, text=True, timeout=300)


@pytest.mark.compiler
@pytest.mark.parametrize(("policy", "result"), [("eager", "0.0"), ("lazy", "nan")])
def test_the_finding(policy: str, result: str) -> None:
    """The report of the README is that of the example under both policies; the result is right under one of them only."""
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    done = execute("--policy", policy)
    assert done.returncode == 1
    assert done.stdout == f"largest difference from 2 * x: {result}\n"
    (shown,) = re.findall(r"^\$ ptxlab exec .*missing_wait.*\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert [line for line in shown.splitlines()[1:] if line not in done.stderr.splitlines()] == []


@pytest.mark.compiler
def test_the_fix_of_the_finding(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    text = (ROOT / EXAMPLE).read_text()
    assert text.count("# Missing: ") == 1
    fixed = tmp_path / "fixed.py"
    fixed.write_text(text.replace("# Missing: ", ""))
    for policy in ("eager", "lazy"):
        done = execute("--policy", policy, script=fixed)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "largest difference from 2 * x: 0.0\n"
