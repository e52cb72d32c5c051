"""The committed PTX is what the compiler makes of the sources in `kernels`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.triton.case_helpers import HERE, SM90, first_of_each_function

SOME = first_of_each_function(SM90)


@pytest.mark.oracle
@pytest.mark.parametrize("names", [pytest.param(SOME, id="some"), pytest.param([], id="all", marks=pytest.mark.slow)])
def test_compiling_the_sources_again_gives_the_committed_text(names: list[str], tmp_path: Path) -> None:
    triton = pytest.importorskip("triton")
    if triton.__version__ != "3.9.0":
        pytest.skip(f"the kernels were compiled by triton 3.9.0, not {triton.__version__}")
    command = [sys.executable, str(HERE / "build.py"), "--sm90", str(tmp_path), *names]
    run = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert run.returncode == 0, run.stdout + run.stderr
    paths = [SM90 / f"{name}.ptx" for name in names] or [*SM90.glob("*.ptx"), SM90 / "launch.json"]
    for path in paths:
        assert (tmp_path / path.name).read_text() == path.read_text(), path.name
