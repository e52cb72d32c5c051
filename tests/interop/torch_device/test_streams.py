"""Operators of torch are work of torch's current stream: what nothing orders is found. All programs run in one process of their own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ptxlab.interop.torch._build import CannotBuild, installed_torch, library_file
from tests.interop.torch_device.stream_cases import RIGHT, WRONG

torch = installed_torch()
if torch is None or torch.cuda is not None:
    pytest.skip("needs a CPU build of torch", allow_module_level=True)

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """What each program has raised and what has been found."""
    assert torch is not None
    try:
        library_file(torch)
    except CannotBuild as error:
        pytest.skip(str(error))
    command = [sys.executable, "-W", "ignore", "-m", "tests.interop.torch_device.stream_cases"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3], timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return {line["case"]: line for line in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", RIGHT)
def test_programs_in_order(results: dict[str, Any], name: str) -> None:
    assert (results[name]["failed"], results[name]["found"]) == ("", [])


@pytest.mark.parametrize("name", WRONG)
def test_what_nothing_orders(results: dict[str, Any], name: str) -> None:
    assert not results[name]["failed"]
    ((code, message),) = results[name]["found"]
    expected = r"{} on stream \d+ {} bytes \[\w+, \w+\) that {} on stream \d+ {}, and nothing orders them"
    parts = re.fullmatch(r"(.+) (\w+), (.+) (\w+)", WRONG[name][1])
    assert parts is not None
    assert code == "I508"
    assert re.fullmatch(expected.format(*map(re.escape, parts.groups())), message)
