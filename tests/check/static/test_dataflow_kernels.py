"""The kernels for the data-flow rules: the right ones run without findings, and ptxas assembles what it does not refuse."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.check.static.dataflow_kernels.kernels import MISTAKES, RULES
from tests.check.static.dataflow_kernels.launches import LAUNCHES, base_text, launch
from tests.check.static.dataflow_kernels.mistake import Mistake
from tests.isa.test_assembler import assembler


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
@pytest.mark.parametrize("base", LAUNCHES)
def test_right_kernels_have_no_findings(base: str, policy: str) -> None:
    result, stored = launch(base, base_text(base), policy=policy)
    assert result.diagnostics == ()
    assert stored.any()


def test_the_table() -> None:
    names = Counter(mistake.name for mistake in MISTAKES)
    assert max(names.values()) == 1
    assert len(names) >= 80
    assert {mistake.base for mistake in MISTAKES} == set(LAUNCHES)
    assert len(RULES) >= 30
    assert {mistake.severity for mistake in MISTAKES} == {"error", "warning", "note"}
    assert all(mistake.lines and mistake.text != base_text(mistake.base) for mistake in MISTAKES)


@pytest.mark.sweep
@pytest.mark.parametrize("mistake", [each for each in MISTAKES if each.code], ids=lambda each: each.name)
def test_runs_report_the_mistakes(mistake: Mistake) -> None:
    found = [each for policy in ("eager", "lazy") for each in launch(mistake.base, mistake.text, policy=policy)[0].diagnostics]
    assert any(each.code == mistake.code and each.place is not None and each.place.line in mistake.lines for each in found)


@pytest.mark.compiler
def test_ptxas_assembles_the_kernels(tmp_path: Path) -> None:
    ptxas = assembler()
    if ptxas is None:
        pytest.skip("no ptxas 13.5: install nvidia-cuda-nvcc")
    kernels = {base: base_text(base) for base in LAUNCHES} | {mistake.name: mistake.text for mistake in MISTAKES}
    refused = set()
    for name, text in kernels.items():
        source = tmp_path / "kernel.ptx"
        source.write_text(text)
        (target,) = re.findall(r"^\.target (\w+)", text, re.MULTILINE)
        if subprocess.run([ptxas, f"-arch={target}", "-O1", source, "-o", "/dev/null"], capture_output=True, check=False).returncode:
            refused.add(name)
    assert refused == {mistake.name for mistake in MISTAKES if mistake.refused}
