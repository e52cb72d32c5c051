"""The device cuda of torch's CPU build. All cases run in one process of their own, because the device must be there before torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ptxlab.interop.torch._build import CannotBuild, installed_torch, library_file
from tests.interop.torch_device.device_cases import CASES

torch = installed_torch()
if torch is None or torch.cuda is not None:
    pytest.skip("needs a CPU build of torch", allow_module_level=True)

pytestmark = pytest.mark.compiler
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> dict[str, str]:
    """What is wrong with each case; empty texts if nothing is."""
    assert torch is not None
    try:
        library_file(torch)
    except CannotBuild as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "tests.interop.torch_device.device_cases", request.param]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    return {line["case"]: line["wrong"] for line in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("results", ["host", "driver"], indirect=True)
@pytest.mark.parametrize("name", CASES)
def test_case(results: dict[str, str], name: str) -> None:
    assert not results[name], results[name]
