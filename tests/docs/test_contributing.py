"""CONTRIBUTING and tests/README: what they name exists, and nothing is left out."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
TESTS = (ROOT / "tests" / "README.md").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
TO_COME = {"docs/rules/B523.md", "tests/hardware/record_TOPIC.py", "src/ptxlab/isa/FAMILY/"}
"""Names that stand for files which a contributor adds."""


def code(page: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```$", "", page, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", [CONTRIBUTING, TESTS], ids=["CONTRIBUTING", "tests/README"])
def test_the_targets_exist(page: str) -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", page, re.MULTILINE))
    assert named <= TARGETS
    assert {"quick", "test", "test-all"} <= named


def test_the_paths_of_contributing_exist() -> None:
    paths = {text for text in code(CONTRIBUTING) if re.fullmatch(r"(src|tests|docs)/[\w./]+", text)} - TO_COME
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_code_to_come_is_free() -> None:
    from ptxlab.diagnostics import CODES

    assert "B523" not in CODES


def test_every_folder_and_marker_of_the_tests_is_named() -> None:
    named = set(code(TESTS))
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("**/test_*.py"))}
    programs = {path.name for path in (ROOT / "tests" / "end_to_end").iterdir() if any(path.glob("test_*.py"))}
    assert folders | programs <= named
    markers = {
        line.partition(":")[0] for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    }
    assert markers <= named
    modules = {text for text in named if text.endswith(".py") and "*" not in text and not text.startswith("_")}
    assert len(modules) > 8
    assert [name for name in modules if not any((ROOT / "tests").rglob(name))] == []


def test_the_quick_tier_leaves_out_compilers() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (command,) = re.findall(r"^quick: lint\n\t(.*)$", makefile, re.MULTILINE)
    assert '-m "not slow and not sweep and not compiler and not recording"' in command
    ignored = re.findall(r"--ignore (\S+)", command)
    assert ignored
    for folder in ignored:  # only what the markers leave out anyway: every test there gets one
        assert "add_marker(pytest.mark." in (ROOT / folder / "conftest.py").read_text()
    (command,) = re.findall(r"^test: lint\n\t(.*)$", makefile, re.MULTILINE)
    assert "--durations=25" in command
