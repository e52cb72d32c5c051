"""The committed PTX is what the compiler makes of the committed sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .case_helpers import HERE, first_of_each_function

SOME = first_of_each_function()


@pytest.mark.oracle
@pytest.mark.parametrize("names", [pytest.param(SOME, id="some"), pytest.param([], id="all", marks=pytest.mark.slow)])
def test_compiling_the_sources_again_gives_the_committed_text(names: list[str], tmp_path: Path) -> None:
    triton = pytest.importorskip("triton")
    if triton.__version__ != "3.9.0":
        pytest.skip(f"the kernels were compiled by triton 3.9.0, not {triton.__version__}")
    run = subprocess.run([sys.executable, str(HERE / "build.py"), str(tmp_path), *names], capture_output=True, text=True, timeout=500)
    assert run.returncode == 0, run.stdout + run.stderr
    paths = [HERE / f"{name}.ptx" for name in names] or [*HERE.glob("*.ptx"), HERE / "launch.json"]
    for path in paths:
        assert (tmp_path / path.name).read_text() == path.read_text(), path.name
