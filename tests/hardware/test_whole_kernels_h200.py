"""Whole kernels of CUDA C++, Triton, Gluon and CuTe DSL give the bits of an H200: ``python -m tests.hardware record whole_kernels``."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.hardware.kernels import every
from tests.hardware.suite._record import Record
from tests.hardware.suite._replay import replay
from tests.sweep_helpers import part

FOLDER = Path(__file__).parent / "kernels"
ROOT = Path(__file__).resolve().parents[2]
POLICIES = ("eager", "lazy", "random")
CASES = {kernel.name: (number, kernel) for number, kernel in enumerate(every())}

IN_FLIGHT = {name for name in CASES if name.startswith(("triton_mm_f16_sums", "triton_mm_fp8"))}
"""They read registers of a wgmma before they wait for it, under ``eager`` what it gives; the assembler inserts the wait."""
FINDINGS = dict.fromkeys(IN_FLIGHT, "R805")
"""What is found."""


@cache
def record() -> Record:
    return Record("whole_kernels")


INPUTS = re.compile(r"\.(special|full|large|few)$")
"""Inputs other than the first ones of a kernel."""


def of_part(name: str) -> bool:
    """One of the inputs of each kernel, in turn."""
    kernels = [each for each in CASES if not INPUTS.search(each)]
    kernel = INPUTS.sub("", name)
    inputs = [each for each in CASES if INPUTS.sub("", each) == kernel]
    return kernel not in kernels or inputs.index(name) == kernels.index(kernel) % len(inputs)


@pytest.mark.parametrize("name", part(CASES, of_part))
def test_same_bits(name: str) -> None:
    number, kernel = CASES[name]
    assert record().fits(kernel), "no record of this text and these inputs: record whole_kernels again"
    assert record().state(kernel) == "ok"
    found, diagnostics = replay(kernel, "eager" if name in IN_FLIGHT else POLICIES[number % 3])
    assert {d.code for d in diagnostics} == {FINDINGS[name]} if name in FINDINGS else not diagnostics, diagnostics
    assert record().differences(kernel, found) == []


@pytest.mark.slow
@pytest.mark.compiler
def test_compiling_the_sources_again_gives_the_committed_text(tmp_path: Path) -> None:
    """With the versions of the compilers that made it."""
    run = subprocess.run([sys.executable, "-m", "tests.hardware.kernels.build", str(tmp_path)], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    made = sorted(tmp_path.iterdir())
    if not made:
        pytest.skip("none of the compilers has the version that made the text")
    assert [path.name for path in made if path.read_text() != (FOLDER / path.name).read_text()] == []
