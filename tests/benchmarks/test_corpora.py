"""`benchmarks.corpora`: which programs are chosen and how they are run, and how their ends are told apart."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.corpora import __main__ as command
from benchmarks.corpora import building
from benchmarks.corpora.__main__ import versions
from benchmarks.corpora.building import BuildFailure, built
from benchmarks.corpora.outcome import KINDS, Outcome, outcome, run
from benchmarks.corpora.programs import Program, collections, programs
from benchmarks.corpora.table import AnotherTable, Table

TABLE = """
[small]
repository = "someone/programs"
folder = "examples"

[[small.rule]]
match = "*/hopper_*"
target = "sm_90a"

[[small.rule]]
match = "a/*"
options = "--mnk '64, 64' --quick"

[[small.rule]]
match = "a/gemm.py"
calls = ["check(64, 'a b')", "check(128, 'c')"]

[[small.rule]]
match = "b/module.py"
left_out = "a module"
"""

RESULTS = sorted(Path(command.__file__).with_name("results").glob("*.md"))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("a/hopper_gemm.py", "a/gemm.py", "b/module.py", "b/notes.txt"):
        path = tmp_path / "examples" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("print('a')\n")
    return tmp_path


def test_all_rules_that_match_apply(checkout: Path) -> None:
    options = ("--mnk", "64, 64", "--quick")
    assert programs(collections(TABLE)["small"], checkout) == [
        Program("a/gemm.py", options=options, calls=("check(64, 'a b')", "check(128, 'c')")),
        Program("a/hopper_gemm.py", "sm_90a", options),
        Program("b/module.py", left_out="a module"),
    ]


def test_versions_of_packages() -> None:
    assert versions(sys.executable, ("pytest", "numpy")) == [f"pytest {pytest.__version__}", f"numpy {np.__version__}"]


def test_the_collections_can_be_read(checkout: Path) -> None:
    for collection in collections().values():
        programs(collection, checkout)


def report(*codes: str, severity: str = "error", launches: int = 1) -> str:
    found = [{"code": code, "severity": severity, "message": f"about {code}"} for code in codes]
    return json.dumps({"diagnostics": found, "ok": not codes, "launches": [{}] * launches}, indent=1)


@pytest.mark.parametrize(
    ("status", "printed", "errors", "expected"),
    [
        (0, report(), "", ("passed", 1, "")),
        (0, report("I307", severity="note"), "", ("passed", 1, "")),
        (1, report("I307", "M402"), "", ("finding", 1, "M402: about M402")),
        (0, report("X101", severity="warning"), "", ("finding", 1, "X101: about X101")),
        (0, report("I306", severity="warning"), "", ("passed", 1, "")),
        (1, report("I105", launches=0), "", ("refused", 0, "I105: about I105")),
        (1, report(), "Traceback\nValueError: no\n  a note\n", ("failed", 1, "ValueError: no")),
        (1, report(), "Traceback\na.CompileError: at 3:4:\n x\nnot here\n", ("failed", 1, "a.CompileError: at 3:4: not here")),
        (1, "", "\x1b[91merror[A]: wrong\x1b[0m\nsee above\n", ("failed", 0, "error[A]: wrong")),
        (1, report(), "E       AssertionError: not close\nE       by 3\n1 failed\n", ("failed", 1, "AssertionError: not close")),
        (3, "lines of the program {\n" + report(), "", ("failed", 1, "exit status 3")),
        (-11, "", "", ("signal", 0, "SIGSEGV")),
    ],
)
def test_ends_are_told_apart(status: int, printed: str, errors: str, expected: tuple[Any, ...]) -> None:
    assert outcome(status, printed, errors) == expected


@pytest.mark.sweep
def test_programs_run_in_processes_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "good.py").write_text("import os, sys; assert os.path.exists('good.py') and sys.argv[1:] == ['--n', '2']\n")
    (tmp_path / "sub" / "slow.py").write_text("import time; time.sleep(60)\n")
    (tmp_path / "sub" / "bad.py").write_text("raise ValueError(__file__)\n")
    good = run(Program("sub/good.py", options=("--n", "2")), tmp_path, sys.executable)
    slow = run(Program("sub/slow.py"), tmp_path, sys.executable, 1)
    bad = run(Program("sub/bad.py"), tmp_path, sys.executable)
    left_out = run(Program("sub/other.py", left_out="a reason"), tmp_path)
    assert [each.kind for each in (good, slow, bad, left_out)] == ["passed", "time", "failed", "left out"]
    assert 1 <= slow.seconds < 20
    assert bad.message == "ValueError: sub/bad.py"


@pytest.mark.sweep
def test_tests_of_a_program_run_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "01-gemm.py").write_text(
        "def test_small(): pass\ndef test_large(): raise ValueError\nif __name__ == '__main__': raise KeyError\n"
    )
    small = run(Program("sub/01-gemm.py", tests=("-k", "small or no")), tmp_path)
    both = run(Program("sub/01-gemm.py", tests=("-k", "test")), tmp_path)
    none = run(Program("sub/01-gemm.py", tests=("-k", "no")), tmp_path)
    assert [each.kind for each in (small, both, none)] == ["passed", "failed", "failed"]


@pytest.mark.sweep
def test_expressions_are_evaluated_in_place_of_the_main_part(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "beside.py").write_text("most = 64\n")
    (tmp_path / "sub" / "01-gemm.py").write_text(
        "import sys\nfrom beside import most\nsizes = []\nassert sys.argv == [__file__]\n"
        "def check(size):\n    if size > most: raise ValueError(f'{size} after {sizes}')\n    sizes.append(size)\n"
        "if __name__ == '__main__': raise KeyError\n"
    )
    small = run(Program("sub/01-gemm.py", calls=("check(32)", "check(most)")), tmp_path)
    large = run(Program("sub/01-gemm.py", calls=("check(32)", "check(most * 2)", "check(16)")), tmp_path)
    assert (small.kind, small.message) == ("passed", "")
    assert (large.kind, large.message) == ("failed", "ValueError: 128 after [32]")


NVCC = """#!/bin/sh
case "$*" in *-DWRONG*) echo "a.cu(3): error: no such thing" >&2; exit 2;; esac
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\nexit 0\\n' > "$2"
chmod +x "$2"
"""

NVCC_THAT_LINKS = """#!/bin/sh
for each; do case "$each" in -L*) test -e "${each#-L}/libcuda.so" || { echo "ld: error: cannot find -lcuda" >&2; exit 1; };; esac; done
while [ "$1" != -o ]; do shift; done
touch "$2"
"""

NVCC_THAT_INCLUDES = """#!/bin/sh
while [ "$1" != -include ]; do shift; done
grep -q '#define __CUDACC_VER_MINOR__ 8' "$2" || { echo "error: $2" >&2; exit 1; }
while [ "$1" != -o ]; do shift; done
touch "$2"
"""


def test_programs_in_cuda_are_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, folder = tmp_path / "nvcc", tmp_path / "executables"
    compiler.write_text(NVCC)
    compiler.chmod(0o755)
    monkeypatch.setattr(building.nvcc, "find_nvcc", lambda: compiler)
    monkeypatch.setattr(building, "link_libraries", lambda libraries: None)
    program = Program("a/gemm.cu", build=("-I{checkout}/include",))
    executable = built(program, tmp_path, tmp_path, folder)
    assert executable == folder / "a-gemm"
    compiler.write_text("not a program")
    assert built(program, tmp_path, tmp_path, folder) == executable
    compiler.write_text(NVCC)
    with pytest.raises(BuildFailure, match=r"a.cu\(3\): error: no such thing"):
        built(Program("b.cu", build=("-DWRONG",)), tmp_path, tmp_path, folder)


def test_programs_are_linked_with_the_libraries_of_the_cache_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, folder, cached = tmp_path / "nvcc", tmp_path / "executables", tmp_path / "first.so"
    compiler.write_text(NVCC_THAT_LINKS)
    compiler.chmod(0o755)
    monkeypatch.setattr(building.nvcc, "find_nvcc", lambda: compiler)
    monkeypatch.setattr(building, "link_libraries", lambda libraries: (libraries / "libcuda.so").symlink_to(cached))
    cached.touch()
    built(Program("a.cu"), tmp_path, tmp_path, folder)
    cached.rename(tmp_path / "moved.so")
    with pytest.raises(BuildFailure, match="error: cannot find -lcuda"):
        built(Program("b.cu"), tmp_path, tmp_path, folder)
    cached = tmp_path / "second.so"
    cached.touch()
    assert built(Program("b.cu"), tmp_path, tmp_path, folder).exists()


def test_programs_are_built_with_headers_of_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "nvcc"
    compiler.write_text(NVCC_THAT_INCLUDES)
    compiler.chmod(0o755)
    monkeypatch.setattr(building.nvcc, "find_nvcc", lambda: compiler)
    monkeypatch.setattr(building, "link_libraries", lambda libraries: None)
    assert built(Program("a.cu", build=("-include", "{headers}/minor_version_8.h")), tmp_path, tmp_path, tmp_path).exists()


def test_several_patterns_choose_programs(checkout: Path) -> None:
    table = TABLE.replace('folder = "examples"', 'folder = "examples"\nfiles = ["a/gemm.*", "*.txt"]')
    assert [each.path for each in programs(collections(table)["small"], checkout)] == ["a/gemm.py", "b/notes.txt"]


def test_the_table_says_how_each_program_ended() -> None:
    found = Program("b.py", ptxlab=("--limit-ctas", "2"), judged={"M402": "true: it is", "failed": "not this"})
    ends = [Outcome(Program("a.py", options=("-n", "2")), "passed", 3.2, 4), Outcome(found, "finding", 1.0, 1, "M402: a | b")]
    ends.append(Outcome(Program("c.py"), "left out", message="a module"))
    ends.append(Outcome(Program("d.py", tests=("-k", "e or f"), ptxlab=("--limit-ctas", "2")), "passed", 5.0, 6))
    ends.append(Outcome(Program("e.py", calls=("check(64, 'a')", "check(128, 'b')"), ptxlab=("--sms", "2")), "passed", 7.0, 2))
    text = Table(collections(TABLE)["small"], "0123abc", ["triton 3.8.0", "torch 2.13.0"], tuple(ends)).page()
    assert "commit `0123abc`" in text
    assert "--collection small` with triton 3.8.0, torch 2.13.0. 3 of 4 passed; 1 of 1 findings are judged." in text
    assert f"- finding: 1 ({KINDS['finding']})" in text
    assert "| a.py | sm_100a | -n 2 | passed | 3 | 4 |  |  |" in text
    assert "| b.py | sm_100a | --limit-ctas 2 | finding | 1 | 1 | M402: a \\| b | true: it is |" in text
    assert "| d.py | sm_100a | pytest -k 'e or f' --limit-ctas 2 | passed | 5 | 6 |  |  |" in text
    assert "| e.py | sm_100a | calls check(64, 'a'); check(128, 'b') --sms 2 | passed | 7 | 2 |  |  |" in text


def test_a_table_is_read_back() -> None:
    """A row that is read again is judged as its program is judged now; what was written by hand stays."""
    judged = Program("b/b.py", "sm_90a", ("-n", "2"), judged={"M402": "true: it is"})
    empty = Table(collections(TABLE)["small"], "0123abc", ["triton 3.8.0"])
    table = empty.with_outcome(Outcome(judged, "finding", 1.0, 1, "M402: a | " + "b" * 200)).with_outcome(
        Outcome(Program("a.py"), "passed", 2.0, 3)
    )
    assert [each.program.path for each in table.outcomes] == ["a.py", "b/b.py"]
    text = table.page().replace("\n- passed", "\nWritten by hand.\n\n- passed")
    assert empty.with_rows_of(text, [judged]).page() == text
    assert "0 of 1 findings are judged" in empty.with_rows_of(text, [Program("b/b.py")]).page()
    again = empty.with_rows_of(text, [judged]).with_outcome(Outcome(judged, "passed", 4.0, 5))
    assert "2 of 2 passed" in again.page()
    with pytest.raises(AnotherTable, match=r"another run: '.* commit `0123abc`.* does not begin with '.* commit `4567def`"):
        Table(empty.collection, "4567def", empty.packages).with_rows_of(text, [])
    with pytest.raises(AnotherTable, match=r"with triton 3\.8\.0.* does not begin with '.* with triton 3\.9\.0"):
        Table(empty.collection, "0123abc", ["triton 3.9.0"]).with_rows_of(text, [])


@pytest.mark.parametrize("page", RESULTS, ids=lambda path: path.stem)
def test_committed_tables_are_what_a_run_would_write(page: Path, tmp_path: Path) -> None:
    """The counts, and the judgements of `collections.toml`: nothing of a row is written by hand."""
    text = page.read_text()
    collection = collections()[text.splitlines()[0].removeprefix("# ")]
    for path in re.findall(r"^\| (\S+) \| sm_", text, re.MULTILINE):
        program = tmp_path / collection.folder / path
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch()
    upstream, packages = re.findall(r"^Programs of .* commit `(\w+)`|^Made by .*? with (.*)\. \d+ of \d+ passed", text, re.MULTILINE)
    table = Table(collection, upstream[0], packages[1].split(", "))
    assert table.with_rows_of(text, programs(collection, tmp_path)).page() == text


def test_a_run_of_some_programs_keeps_the_other_rows(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output, ends = tmp_path / "table.md", iter(["passed", "failed", "time", "passed"])
    monkeypatch.setattr(command, "collections", lambda: collections(TABLE))
    monkeypatch.setattr(command, "end_of", lambda program, *_: Outcome(program, next(ends)))

    def main(*options: str) -> str:
        monkeypatch.setattr(sys, "argv", ["corpora", str(checkout), "--output", str(output), *options])
        command.main()
        return capsys.readouterr().out.splitlines()[-1]

    (checkout / ".commit").write_text("0123abc\n")
    assert main() == "passed 1, failed 1, time 1"
    assert main("--only", "a/hopper*") == "passed 1"
    rows = [line.split(" | ")[0:4:3] for line in output.read_text().splitlines() if line.startswith(("| a", "| b"))]
    assert rows == [["| a/gemm.py", "passed"], ["| a/hopper_gemm.py", "passed"], ["| b/module.py", "time"]]
    (checkout / ".commit").write_text("4567def\n")
    with pytest.raises(SystemExit):
        main("--only", "a/*")
    assert f"--output {output}: its rows are of another run" in capsys.readouterr().err
