"""The page about the architecture: every module and function that it names exists, every package has its line, and its programs run."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from functools import reduce
from pathlib import Path
from textwrap import dedent

import pytest

from .test_generated import DOCS, generate

pytestmark = pytest.mark.sweep

PAGE = (DOCS / "architecture.md").read_text()
SOURCE = DOCS.parent / "src" / "ptxlab"
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and "/" in line.split(" | ")[1]]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def module(path: str) -> object:
    return importlib.import_module("ptxlab." + path.removesuffix(".py").replace("/", "."))


def test_every_path_exists() -> None:
    paths = re.findall(r"`([\w./]+\.py)`", PAGE)
    assert len(paths) > 30
    assert [path for path in paths if not any((root / path).exists() for root in (SOURCE, DOCS.parent))] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].split(".")[0][:30])
def test_every_function_is_in_one_of_the_modules_of_its_row(row: list[str]) -> None:
    modules = [module(path) for path in code(row[1])]
    for name in code(row[2]):
        first, *rest = name.split(".")
        holders = [found for found in modules if hasattr(found, first)]
        assert holders, name
        reduce(getattr, rest, getattr(holders[0], first))


def test_every_package_has_its_line() -> None:
    lines = re.findall(r"^\| `(\w+)` \| [a-zA-Z`]", PAGE, re.MULTILINE)
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set(lines) == packages
    assert len(lines) == len(packages)


def sections() -> dict[str, list[tuple[str, str, str]]]:
    """The blocks of code of each section that adds an instruction."""
    parts = re.split(r"^### (.*)$", PAGE.partition("## Add an instruction")[2], flags=re.MULTILINE)
    return {title: generate.BLOCK.findall(text) for title, text in zip(parts[1::2], parts[2::2], strict=True)}


OF_TESTS = {
    "A scalar instruction": "{test}\ntest_gray()",
    "An asynchronous instruction": """
from tests.check.race.order_table.copies import *
from tests.check.race.test_every_instruction import launch
{test}
((pair, form),) = [(pair, form) for pair in FILLS for form in pair.forms]
assert launch(pair, form, ordered=True).diagnostics == ()
assert pair.code in [found.code for found in launch(pair, form, ordered=False).diagnostics]
""",
}
"""Programs that execute the tests which the page shows."""


@pytest.mark.parametrize("title", sections())
def test_the_tests_of_the_instruction_pass(title: str, tmp_path: Path) -> None:
    text = PAGE.partition(f"### {title}\n")[2].partition("\n### ")[0]
    (test,) = re.findall(r"^    ```py\n(.*?)^    ```$", text, re.MULTILINE | re.DOTALL)
    ((name, module),) = [(name, text) for _, name, text in sections()[title] if name]
    (tmp_path / name).write_text(module)
    program = f"import sys\nsys.path.append({str(tmp_path)!r})\nimport {Path(name).stem}\n{OF_TESTS[title].format(test=dedent(test))}"
    done = subprocess.run([sys.executable, "-c", program], cwd=DOCS.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("title", sections())
def test_the_instruction_is_added_by_one_module(title: str, tmp_path: Path) -> None:
    """In a process of its own: the catalogue is one for all."""
    blocks = sections()[title]
    modules = [(name, text) for language, name, text in blocks if name]
    assert len(modules) == 1
    ((name, text),) = modules
    (tmp_path / name).write_text(text)
    program = f"import {Path(name).stem}\n" + "\n".join(text for language, name, text in blocks if language == "python" and not name)
    assert "assert " in program
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    opcode = re.findall(r'@\w+\(\s*"([\w.]+)', text)[0]
    without = subprocess.run([sys.executable, "-c", program.partition("\n")[2]], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert without.returncode != 0
    assert "U202" in without.stderr or opcode in without.stderr
