"""How `make` divides tests between processes."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LONGEST

HERE = Path(__file__).parent

TESTS = """
import json, os, pytest

@pytest.mark.parametrize("number", range(6))
def test_number(number):
    with open("log", "a") as log:
        print(json.dumps([__name__, os.getpid()]), file=log)
"""


def test_all_tests_of_a_file_run_in_one_process(tmp_path: Path) -> None:
    """So that its fixtures, and what its functions keep, are made once."""
    pytest.importorskip("xdist")
    given = re.search(r"^PROCESSES := (.*)$", (HERE.parent / "Makefile").read_text(), re.MULTILINE)
    assert given is not None
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", *shlex.split(given[1].replace("$(WORKERS)", "2")), "--rootdir", str(tmp_path)]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    ran = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert len(ran) == 24
    assert len({process for _, process in ran}) == 2
    assert sorted({(file, process) for file, process in ran}) == sorted(dict(ran).items())


def test_the_longest_files_are_there() -> None:
    assert [name for name in LONGEST if not (HERE / name).is_file()] == []
