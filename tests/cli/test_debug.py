"""``ptxlab debug``: scripts of commands, exit status, JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from ..debug.debug_kernels import LOOP
from .test_run import ptxlab

LAUNCH = """
ptx = "k.ptx"
block = 32
[[args]]
name = "out"
array = {shape = [32], dtype = "uint32"}
"""


@pytest.fixture
def launch(tmp_path: Path) -> Path:
    (tmp_path / "k.ptx").write_text(LOOP)
    (tmp_path / "launch.toml").write_text(LAUNCH)
    return tmp_path


def script(launch: Path, *commands: str, json_lines: bool = False) -> tuple[int, str]:
    (launch / "commands").write_text("\n".join(commands))
    done = ptxlab("debug", "launch.toml", "-x", "commands", "--batch", *(["--json"] if json_lines else []), folder=launch)
    return done.returncode, done.stdout


def test_a_script(launch: Path) -> None:
    status, text = script(launch, "break line 11 hits 3", "continue", "expect %r3 == 1", "delete 1", "continue", "memory global out 2 u32")
    assert status == 0
    assert text.splitlines()[-2:] == ["ended, point 29", "10 11"]


def test_json_lines(launch: Path) -> None:
    status, text = script(launch, "step 4", "registers %r3", "back", "quit", "nonsense", json_lines=True)
    first, second, third = map(json.loads, text.splitlines())
    assert (status, first["command"], first["stop"]["line"], first["stop"]["reason"]) == (0, "step 4", 11, "step")
    assert second["value"][0]["values"] == [0] * 32
    assert (third["stop"]["line"], third["stop"]["position"]["step"]) == (9, 3)


@pytest.mark.parametrize("form", [False, True])
@pytest.mark.parametrize(
    ("command", "code", "status"), [("expect %laneid == 7", "G105", 1), ("jump", "G101", 2), ("print %nothing", "G103", 2)]
)
def test_exit_status(launch: Path, command: str, code: str, status: int, form: bool) -> None:
    found, text = script(launch, command, "step", json_lines=form)
    assert (found, code in text) == (status, True)
    assert ("step, point 1" in text or '"reason": "step"' in text) == (status == 1)


def test_findings_of_the_launch(launch: Path) -> None:
    (launch / "k.ptx").write_text(LOOP.replace("%r1, 4;", "%r1, 4096;"))
    status, text = script(launch, "continue", "continue")
    assert status == 1
    assert "finding, point" in text
    assert "error[M402]" in text


def test_commands_from_standard_input(launch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("step\nnonsense\nstep\n"))
    done = ptxlab("debug", "launch.toml", "--policy", "lazy", folder=launch)
    assert done.returncode == 2
    assert "step, point 1" in done.stdout
    assert "step, point 2" in done.stdout


def test_a_bundle(launch: Path) -> None:
    assert ptxlab("run", "launch.toml", "--bundle", "k.ptxlab", folder=launch).returncode == 0
    (launch / "commands").write_text("continue\nmemory global out 1 u32\n")
    done = ptxlab("debug", "k.ptxlab", "-x", "commands", "--batch", folder=launch)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "10")


def test_wrong_use(launch: Path) -> None:
    assert ptxlab("debug", "nothing.toml", "--batch", folder=launch).returncode == 2
    done = ptxlab("debug", "launch.toml", "-x", "nothing", "--batch", folder=launch)
    assert done.returncode == 2
    assert "cannot read nothing" in done.stderr
