"""Programs whose Triton calls the virtual driver through its own NVIDIA back end, under ``ptxlab exec``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = pytest.mark.compiler

KERNELS = """
import numpy as np, torch, triton, triton.language as tl

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)
"""
OWN_BACK_END = """
from triton.backends.nvidia.driver import CudaDriver
assert type(triton.runtime.driver.active) is CudaDriver
x = torch.ones(60, device="cuda")
kernel = double[(1,)](x, 60, BLOCK=128)
assert x.sum().item() == 120.0
assert kernel.asm["cubin"].decode() == kernel.asm["ptx"]
"""
HOST_MEMORY = """
array, tensor, view = np.ones(60, np.float32), torch.ones(60), torch.ones(4, 60)
double[(1,)](array, 60, BLOCK=128)
double[(1,)](tensor, n=60, BLOCK=128)
double[(1,)](x=view[2], n=60, BLOCK=128)
assert array.tolist() == tensor.tolist() == [2.0] * 60
assert view.sum(1).tolist() == [60.0, 60.0, 120.0, 60.0]
"""
POINTERS_IN_MEMORY = """
@triton.jit
def through(table):
    tl.store(tl.load(table).to(tl.pointer_type(tl.float32)), 5.0)

tensor = torch.ones(3)
through[(1,)](torch.tensor([tensor[1:].data_ptr()]))
assert tensor.tolist() == [1.0, 5.0, 1.0]
"""
PAST_THE_END = """
x = torch.ones(60, device=DEVICE)
double[(1,)](x, 62, BLOCK=128)
print(x.sum().item())
"""


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(KERNELS + program)
    command = [sys.executable, "-W", "ignore", "-c", "from ptxlab.cli import main; main()", "exec", "program.py"]
    return subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("program", [OWN_BACK_END, HOST_MEMORY, POINTERS_IN_MEMORY], ids=["own back end", "host memory", "pointers"])
def test_programs(program: str, tmp_path: Path) -> None:
    done = run(tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert "nothing found" in done.stderr


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_finding_names_argument_and_launch_and_the_program_ends_without_a_traceback(device: str, tmp_path: Path) -> None:
    done = run(tmp_path, PAST_THE_END.replace("DEVICE", repr(device)))
    assert done.returncode == 1
    assert "error[M402]: read of 4 bytes at " in done.stderr
    assert "0 bytes past the end of argument x (float32[60])" in done.stderr
    assert "elements: x[60], which does not exist; x is float32[60]" in done.stderr
    assert "launched at: program.py:10" in done.stderr
    assert "double.ptx:" in done.stderr
    assert "Traceback" not in done.stderr
