"""Source variables of kernels that nvcc -G compiles, against what C++ says that they hold."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.debug import Console, Session
from ptxlab.debug.views.source_variables import variables_of

from .debug_kernels import LOOP, prepared

SOURCE = """
__device__ int twice(int v) {
  int w = 2 * v;
  return w;
}
extern "C" __global__ void k(int *out, int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i)
    sum += twice(i);
  float part[2] = {1.5f, 2.5f};
  part[sum & 1] += sum;
  double most = sum + 0.25;
  out[threadIdx.x] = sum + (int)part[0] + (int)most;
}
"""
NVCC = next((str(each) for each in sorted(Path("/usr/local").glob("cuda*/bin/nvcc"))), None) or shutil.which("nvcc")
pytestmark = [pytest.mark.compiler, pytest.mark.skipif(NVCC is None, reason="no nvcc")]


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(SOURCE.split("\n"), 1) if text in line)


@pytest.fixture
def session(tmp_path: Path) -> Any:
    (tmp_path / "k.cu").write_text(SOURCE)
    command = [str(NVCC), "-G", "-arch=sm_90a", "-ptx", str(tmp_path / "k.cu"), "-o", str(tmp_path / "k.ptx")]
    subprocess.run(command, check=True, capture_output=True)
    replay = ptxlab.load(tmp_path / "k.ptx").kernel().prepare(block=32, args=[np.zeros(32, np.int32), 5])
    with Session(replay) as found:
        yield found


def values(session: Session) -> dict[str, tuple[str, Any]]:
    return {each["name"]: (each["type"], each["value"]) for each in session.variables()}


def test_values_in_registers_and_local_memory(session: Session) -> None:
    session.break_at("source", f"k.cu:{line_of('part[sum')}")
    session.run()
    session.step_line()
    found = values(session)
    out = session.memory("param", "k_param_0", 1, "u64")[0]
    assert found["out"] == ("int*", out)
    assert found["n"] == ("int", 5)
    assert found["sum"] == ("int", 20)
    assert found["part"] == ("float[2]", [21.5, 2.5])
    session.break_at("source", f"k.cu:{line_of('out[thread')}")
    session.run()
    assert values(session)["most"] == ("double", 20.25)


def test_values_change_in_a_loop_and_in_a_function_that_is_called(session: Session) -> None:
    session.break_at("source", f"k.cu:{line_of('return w')}")
    seen = []
    for _ in range(5):
        session.run()
        found = values(session)
        assert set(found) == {"v", "w"}
        seen.append((found["v"][1], found["w"][1]))
    assert seen == [(i, 2 * i) for i in range(5)]


def test_the_command(session: Session) -> None:
    session.break_at("source", f"k.cu:{line_of('part[sum')}")
    session.run()
    answer = Console(session).execute("variables")
    assert answer is not None
    assert "int sum = 20" in answer.text
    assert "float[2] part = [1.5, 2.5]" in answer.text


def test_damaged_debug_information(session: Session) -> None:
    """Any line of the sections may be missing: no exception."""
    text = session.launch.module.text
    lines = text.split("\n")
    first = next(number for number, line in enumerate(lines) if ".section" in line)
    assert sorted(each.name for each in variables_of(text)) == sorted(("v", "w", "out", "n", "sum", "i", "part", "most"))
    for number in range(first, len(lines)):
        variables_of("\n".join([*lines[:number], *lines[number + 1 :]]))


def test_ptx_without_debug_information() -> None:
    with Session(prepared(LOOP)) as plain:
        assert plain.variables() == []
