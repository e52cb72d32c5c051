"""What the README shows: its report is the one that the kernel gives, its programs and its commands run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import ptxlab
from ptxlab.cli._main import COMMANDS, cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
INDEX = (ROOT / "docs" / "index.md").read_text()


def test_report_of_missing_bytes() -> None:
    text = (ROOT / "tests" / "end_to_end" / "triton" / "gl_mm_fp16.ptx").read_text()
    assert text.count("], 32768;") == 2
    kernel = ptxlab.loads(text.replace("], 32768;", "], 36864;"), file="gl_mm_fp16.ptx").kernel()
    a, b, c = (np.zeros((128, n), np.float16) for n in (64, 128, 128))
    maps = [(ptxlab.TensorMap(x, box=(64, rows), swizzle="128B"), x) for x, rows in ((a, 128), (b[:64], 64), (c, 128))]
    args = [word for tensor, x in maps for word in (tensor, *x.shape, x.shape[1], 1)]
    result = kernel.launch(grid=1, block=128, shared_bytes=40000, args=[*args, 64, None, None])
    (found,) = result.diagnostics
    shown = (ROOT / "README.md").read_text().split("```\ngl_mm_fp16.ptx", 1)[1].split("```", 1)[0]
    report = " ".join(str(found).split())
    assert f"gl_mm_fp16.ptx{shown.splitlines()[0]}" == str(found).splitlines()[0]
    for part in shown.replace(" ...:", "\n").splitlines()[1:]:
        assert " ".join(part.split()) in report, part


def test_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    first, more = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(first, names)
    exact = names["A"].astype(np.float64) @ names["B"].astype(np.float64)
    assert np.allclose(names["C"], exact, rtol=2e-3, atol=2e-2)
    (arguments,) = re.findall(r"kernel\.launch\((.*)\)$", first, re.MULTILINE)
    exec(more.replace("...", arguments, 1), names)
    assert (tmp_path / "bug.ptxlab").exists()


FILES = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', INDEX, re.MULTILINE | re.DOTALL))
(BLOCK,) = re.findall(r"^## Command line\n+```\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
LINES = [line.partition("#")[0].strip() for line in BLOCK.splitlines()]


@pytest.mark.parametrize("line", LINES)
def test_commands(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the files of the first page of the guide, mended."""
    monkeypatch.chdir(tmp_path)
    mended = FILES["copy.ptx"].replace("[full], 256", "[full], 128")
    (tmp_path / "copy.ptx").write_text(mended)
    (tmp_path / "kernel.ptx").write_text(mended)
    (tmp_path / "launch.toml").write_text(FILES["launch.toml"].replace('"to"', '"C"'))
    np.save("expected.npy", np.arange(32, dtype=np.uint32))
    words = shlex.split(line)
    assert words[0] == "ptxlab"
    done = CliRunner().invoke(cli, words[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def test_the_commands_are_known() -> None:
    assert {line.split()[1] for line in LINES} <= set(COMMANDS)
    assert len(LINES) >= 10
    shown = re.findall(r"^ptxlab exec (\S+)", README, re.MULTILINE)
    assert len(shown) == 2
    assert [path for path in shown if not (ROOT / path).exists()] == []
