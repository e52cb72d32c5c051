"""Programs on torch's device cuda with Triton kernels, by ``ptxlab exec``: a training step, a CUDA graph, `torch.compile`."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ptxlab.interop.torch._build import CannotBuild, installed_torch, library_file

torch = installed_torch()
if torch is None or torch.cuda is not None or importlib.util.find_spec("triton") is None:
    pytest.skip("needs a CPU build of torch, and Triton", allow_module_level=True)

pytestmark = [pytest.mark.compiler, pytest.mark.sweep]
PROGRAMS = Path(__file__).parent / "programs"
LAUNCHES = {"transformer": 2 * (2 + 2) + 1, "compiled": 2}
"""Two steps with a kernel for each of two blocks, forward and backward, and one replay; at least one kernel forward and one backward."""


@pytest.mark.parametrize("name", LAUNCHES)
def test_program(tmp_path: Path, name: str) -> None:
    assert torch is not None
    try:
        library_file(torch)
    except CannotBuild as error:
        pytest.skip(str(error))
    command = [sys.executable, "-W", "ignore", "-c", "from ptxlab.cli import main; main()", "exec", "--json", str(PROGRAMS / f"{name}.py")]
    variables = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "triton"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=550, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("equal\n")
    report = json.loads(done.stdout)
    assert report["ok"]
    launches = len(report["launches"])
    assert launches == LAUNCHES[name] or (name == "compiled" and launches > LAUNCHES[name])
    assert {found["code"] for found in report["diagnostics"]} <= {"I305"}
