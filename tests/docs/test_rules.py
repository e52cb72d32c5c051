"""Every diagnostic code has its page, and the examples of the pages do what they say."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from ptxlab.cli._main import cli
from ptxlab.diagnostics import CODES
from tests.interop.nvcc_helpers import require_nvcc

from .rule_page_helpers import RULES, findings, read

SHOWS = {
    "test_page": ("brkpt",),
}

PAGES = sorted(path for path in RULES.glob("*.md") if path.stem != "README")


def test_every_code_has_its_page() -> None:
    pages = {path.stem for path in PAGES}
    assert pages == set(CODES)


COMPILERS = ("I1", "I2", "I30", "I511")
"""Pages with programs of CuTe DSL, CUDA C++ and Triton."""


FRESH = ("I512",)
"""Pages whose right example runs in a process of its own: it would report memory that other tests have not freed."""


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=[pytest.mark.compiler] if p.stem.startswith(COMPILERS) else []) for p in PAGES]
)
def test_page(path) -> None:
    page, info = read(path), CODES[path.stem]
    if path.stem.startswith(("I2", "I511")):
        require_nvcc()
    assert (page.title, page.section) == (info.title, info.section)
    assert len(page.prose) > 60
    assert [example.heading for example in page.examples] == ["Wrong", "Right"]
    wrong, right = page.examples
    try:
        assert info.code in {d.code for d in findings(wrong)}
        found = [] if path.stem in FRESH else findings(right)
    except ModuleNotFoundError as missing:
        if missing.name is None or find_spec(missing.name.partition(".")[0]) is not None:
            raise
        pytest.skip(f"needs {missing.name}")
    assert [d for d in found if d.code == info.code or d.severity == "error"] == []
    if path.stem in FRESH:
        assert subprocess.run([sys.executable, "-c", right.text + "\nassert found == []"]).returncode == 0


def test_the_command_prints_the_page() -> None:
    run = CliRunner().invoke(cli, ["rule", "m402"])
    assert run.exit_code == 0
    assert run.output.startswith("error[M402]: access past the end of an allocation\n\n# M402: access past the end")
    assert "## Wrong" in run.output
