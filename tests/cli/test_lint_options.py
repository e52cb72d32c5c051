"""Options of `ptxlab lint`: selection, comments, configuration, changes, statistics, annotations, watching."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ptxlab.cli._lint import lint

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"
MISALIGNED = "ld.shared.v2.b32 {%r1, %r2}, [s+2];"
DIVIDED = "@%p1 bar.sync 0;"
TEXT = f"""{HEADER}.entry k()
{{
  .reg .pred %p<2>; .reg .b32 %r<3>;
  .shared .align 4 .b8 s[64];
  mov.u32 %r1, %tid.x;
  setp.eq.u32 %p1, %r1, 0;
  {DIVIDED}
  {MISALIGNED}
  ret;
}}
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(lint, [str(each) for each in arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "k.ptx"
    path.write_text(TEXT)
    return path


def codes(result: Result) -> list[str]:
    """The codes of the errors that are printed."""
    return re.findall(r"error\[(\w+)\]", result.stdout)


def test_all_findings(file: Path) -> None:
    result = run(file)
    assert codes(result) == ["B517", "M405"]
    assert result.exit_code == 1
    assert result.stderr.endswith("k.ptx: 2 errors\n")


def test_without_the_data_flow(file: Path) -> None:
    result = run(file, "--no-dataflow")
    assert (codes(result), result.exit_code) == ([], 0)


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (("--select", "B5"), ["B517"]),
        (("--select", "m405"), ["M405"]),
        (("--ignore", "B,M405"), []),
        (("--select", "B,M", "--ignore", "B517"), ["M405"]),
    ],
)
def test_selection(file: Path, options: tuple[str, ...], left: list[str]) -> None:
    assert codes(run(file, *options)) == left


def test_a_selection_that_names_no_code(file: Path) -> None:
    result = run(file, "--select", "Q1")
    assert result.exit_code == 2
    assert "no diagnostic code begins with 'Q1'" in result.stderr


@pytest.mark.parametrize(
    ("comment", "left"),
    [("// ptxlab: ignore", ["M405"]), ("// ptxlab: ignore[B517]", ["M405"]), ("// ptxlab: ignore[M405]", ["B517", "M405"])],
)
def test_suppression_by_a_comment(file: Path, comment: str, left: list[str]) -> None:
    file.write_text(TEXT.replace(DIVIDED, f"{DIVIDED} {comment}"))
    assert codes(run(file)) == left


def test_configuration(file: Path) -> None:
    project = file.parent / "pyproject.toml"
    project.write_text('[tool.ptxlab]\nignore = ["B517"]\n')
    assert codes(run(file)) == ["M405"]
    assert codes(run(file, "--ignore", "M405")) == ["B517"]
    project.write_text("[tool.ptxlab]\ndataflow = false\n")
    assert codes(run(file)) == []
    assert codes(run(file, "--dataflow")) == ["B517", "M405"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('select = "B"', "select in [tool.ptxlab] must be of type list"),
        ("colour = 1", "has no key 'colour'"),
        ("ignore = [", "cannot be read"),
    ],
)
def test_a_wrong_configuration(file: Path, table: str, message: str) -> None:
    (file.parent / "pyproject.toml").write_text(f"[tool.ptxlab]\n{table}\n")
    result = run(file)
    assert result.exit_code == 2
    assert message in result.stderr


def test_what_a_change_adds(file: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=file.parent, check=True, capture_output=True)

    git("init", "-q")
    file.write_text(TEXT.replace(MISALIGNED, ""))
    git("add", "k.ptx")
    git("commit", "-q", "-m", "first")
    file.write_text("// A line that moves the others.\n" + TEXT)
    assert codes(run(file, "--diff", "HEAD")) == ["M405"]
    assert codes(run(file)) == ["B517", "M405"]
    result = run(file, "--diff", "nothing")
    assert result.exit_code == 2
    assert "git knows no commit 'nothing'" in result.stderr


def test_the_example_of_a_workflow(file: Path) -> None:
    """Its commands, in a repository whose change adds one finding."""
    yaml = pytest.importorskip("yaml")
    steps = yaml.safe_load((Path(__file__).parents[2] / "examples/lint/workflow.yml").read_text())["jobs"]["lint"]["steps"]
    command = file.parent / "bin" / "ptxlab"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom ptxlab.cli import main\nmain()\n")
    command.chmod(0o755)

    def shell(script: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}", "GITHUB_BASE_REF": "main"}
        return subprocess.run(["bash", "-e", "-c", script], cwd=file.parent, env=environment, capture_output=True, text=True, check=False)

    commit = "git add *.ptx && git -c user.name=a -c user.email=a@b commit -q -m change"
    file.write_text(TEXT.replace(MISALIGNED, ""))
    assert shell(f"git init -q . && {commit} && git update-ref refs/remotes/origin/main HEAD").returncode == 0
    file.write_text(TEXT)
    assert shell(commit).returncode == 0
    added, everything = (shell(step["run"]) for step in steps if "ptxlab lint" in step.get("run", ""))
    assert re.findall(r"^::error .*title=(\w+)", added.stdout, re.MULTILINE) == ["M405"]
    assert added.returncode != 0
    assert everything.returncode == 0
    results = json.loads((file.parent / "ptxlab.sarif").read_text())["runs"][0]["results"]
    assert [each["ruleId"] for each in results] == ["B517", "M405"]


def test_statistics(file: Path) -> None:
    lines = run(file, "--statistics").stdout.splitlines()
    assert [line.split()[:3] for line in lines] == [["1", "B517", "error"], ["1", "M405", "error"]]


def test_annotations(file: Path) -> None:
    first, second = run(file, "--github").stdout.splitlines()
    assert first.startswith(f"::error file={file},line=10,col=3,title=B517::the predicate of bar.sync is true in 1 of 32 threads of warp 0")
    assert second.startswith(f"::error file={file},line=11,col=3,title=M405::")


def test_several_files(file: Path) -> None:
    other = file.with_name("other.ptx")
    other.write_text(TEXT.replace(DIVIDED, ""))
    result = run(file, other)
    assert codes(result) == ["B517", "M405", "M405"]
    assert [line.rsplit("/", 1)[-1] for line in result.stderr.splitlines()] == ["k.ptx: 2 errors", "other.ptx: 1 error, 1 note"]


def test_watching(file: Path) -> None:
    program = "from ptxlab.cli._lint import lint; lint()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(file), "--watch"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        try:
            assert process.stderr.readline().endswith("k.ptx: 2 errors\n")
            time.sleep(0.05)
            file.write_text(TEXT.replace(DIVIDED, ""))
            assert process.stderr.readline().endswith("k.ptx: 1 error, 1 note\n")
        finally:
            process.terminate()
