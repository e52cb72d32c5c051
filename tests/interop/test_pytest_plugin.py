"""The pytest plugin, in pytest runs of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.compiler
needs_triton = pytest.mark.skipif(
    not (importlib.util.find_spec("triton") and importlib.util.find_spec("torch")), reason="needs triton and torch"
)
needs_cute = pytest.mark.skipif(not importlib.util.find_spec("nvidia_cutlass_dsl"), reason="needs nvidia-cutlass-dsl")

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

@triton.autotune([triton.Config({"SIZE": 16}), triton.Config({"SIZE": 32})], key=[])
@triton.jit
def fill(x, SIZE: tl.constexpr):
    tl.store(x + tl.arange(0, SIZE), 1.0)
"""
TESTS = """
import pytest
import torch
import triton
import ptxlab
from kernels import double, fill

def target():
    return triton.runtime.driver.active.get_current_target().arch

@pytest.mark.ptxlab
def test_marked():
    x = torch.ones(64)
    double[(1,)](x, 64, BLOCK=128)
    assert x.sum() == 128 and target() == 103

@pytest.mark.ptxlab(target="sm_90a", policy="random", seed=5)
def test_options(ptxlab_session):
    double[(1,)](torch.ones(64), 64, BLOCK=128)
    assert target() == 90
    assert ptxlab_session.settings.policy == "random" and ptxlab_session.settings.seed == 5
    assert len(ptxlab_session.launches) == 1 and ptxlab_session.ok

def test_fixture_alone(ptxlab_session):
    assert target() == 103

def test_untouched():
    assert triton.runtime.driver._active is None

@pytest.mark.ptxlab(target="sm_100a")
def test_wrong():
    double[(1,)](torch.ones(60), 64, BLOCK=128)

@pytest.mark.ptxlab(target="sm_100a", check="none")
def test_expected_failure():
    with pytest.raises(ptxlab.KernelError):
        double[(1,)](torch.ones(60), 64, BLOCK=128)

@pytest.mark.ptxlab(target="sm_100a")
def test_note():
    fill[(1,)](torch.ones(60))
    assert False

@pytest.mark.ptxlab(target="sm_100a", keep_going=True)
def test_keeps_going(ptxlab_session):
    with pytest.raises(ptxlab.KernelError):
        double[(1,)](torch.ones(60), 64, BLOCK=128)

@pytest.mark.ptxlab(policy="late")
def test_wrong_option():
    pass
"""


def run(folder: Path, *options: str, tests: str = TESTS, **files: str) -> tuple[str, dict[str, str], list[dict[str, object]]]:
    """The output, the outcome of each test, and the results in the SARIF file."""
    for name, text in {"kernels": KERNELS, "test_it": tests, **files}.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "--strict-markers", "--ptxlab-sarif", "found.sarif"]
    variables = {**os.environ, "TRITON_CACHE_DIR": str(folder / "cache"), "PTXLAB_TARGET": "sm_103a"}
    variables.pop("PYTEST_ADDOPTS", None)
    output = subprocess.run([*command, *options], cwd=folder, env=variables, capture_output=True, text=True, timeout=300).stdout
    outcomes = {name: word for word, name in re.findall(r"^(PASSED|FAILED|ERROR) test_it.py::(\w+)", output, re.MULTILINE)}
    return output, outcomes, json.loads((folder / "found.sarif").read_text())["runs"][0]["results"]


EXPECTED = {
    "test_marked": "PASSED",
    "test_options": "PASSED",
    "test_fixture_alone": "PASSED",
    "test_untouched": "PASSED",
    "test_wrong": "FAILED",
    "test_expected_failure": "PASSED",
    "test_note": "FAILED",
    "test_keeps_going": "FAILED",
    "test_wrong_option": "ERROR",
}


@needs_triton
def test_outcomes_and_what_is_shown(tmp_path: Path) -> None:
    output, outcomes, results = run(tmp_path)
    assert outcomes == EXPECTED, output
    wrong = output[output.index("_ test_wrong _") : output.index("_ test_note _")]
    assert "error[M402]: read of " in wrong
    assert "tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)" in wrong
    assert "launched at: " in wrong
    assert "Traceback" not in wrong
    assert "note[I305]: autotuning of fill took the first valid one of 2 configurations" in output[output.index("_ test_note _") :]
    assert "error[A310]: policy must be one of 'eager', 'lazy', 'random', not 'late'" in output
    assert sorted(result["ruleId"] for result in results) == ["I305", "M402", "M402", "M402"]
    assert "4 findings of ptxlab in found.sarif" in output


@needs_triton
def test_findings_come_from_other_processes(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    output, outcomes, results = run(tmp_path, "-n", "1", "-k", "wrong and not option or fixture")
    assert outcomes == {name: EXPECTED[name] for name in ("test_wrong", "test_fixture_alone")}, output
    assert [result["ruleId"] for result in results] == ["M402"]


PLAIN = """
import numpy as np
import pytest
import ptxlab

KERNEL = ptxlab.loads('''
.version 9.0
.target sm_90a
.address_size 64
.visible .entry fill(.param .u64 x)
{
    .reg .b32 %r<2>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [x];
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %rd2, %r1, 4, %rd1;
    st.global.u32 [%rd2], %r1;
    ret;
}
''')["fill"]

@pytest.mark.ptxlab
def test_right(ptxlab_session):
    x = np.zeros(32, np.uint32)
    assert KERNEL.launch(block=32, args=[x]).ok
    (launch,) = ptxlab_session.launches
    assert (launch.kernel, launch.grid, launch.site.file) == ("fill", (1, 1, 1), __file__)
    assert x[31] == 31

@pytest.mark.ptxlab
def test_wrong():
    KERNEL.launch(2, 32, args=[np.zeros(31, np.uint32)])

def test_wrong_without_the_mark():
    assert not KERNEL.launch(block=32, args=[np.zeros(31, np.uint32)]).ok

@pytest.mark.ptxlab(check="none", policy="random", seed=3, only=((1,),))
def test_settings(ptxlab_session):
    result = KERNEL.launch(grid=2, block=32, args=[np.zeros(32, np.uint32)])
    assert result.stats.ctas == 1
    result = KERNEL.launch(grid=2, block=32, args=[np.zeros(32, np.uint32)], only=None)
    assert result.stats.ctas == 2
    with pytest.raises(ptxlab.LaunchError, match="policy must be one of"):
        KERNEL.launch(grid=2, block=32, args=[np.zeros(32, np.uint32)], policy="late")
    assert len(ptxlab_session.launches) == 2

@pytest.mark.ptxlab(keep_going=True)
def test_keeps_going():
    KERNEL.launch(block=32, args=[np.zeros(30, np.uint32)])
"""
BARE = """
import sys

sys.modules.update(dict.fromkeys(["triton", "torch", "cutlass"]))
"""


def test_plain_launches_without_any_extra(tmp_path: Path) -> None:
    output, outcomes, results = run(tmp_path, tests=PLAIN, conftest=BARE)
    assert outcomes == {
        "test_right": "PASSED",
        "test_wrong": "FAILED",
        "test_wrong_without_the_mark": "PASSED",
        "test_settings": "PASSED",
        "test_keeps_going": "FAILED",
    }, output
    wrong = output[output.index("_ test_wrong _") : output.index("_ test_keeps_going _")]
    assert "error[M402]: write of 4 bytes" in wrong
    assert "launched at: " in wrong
    assert [result["ruleId"] for result in results] == ["M402", "M402"]


CUTE = """
import numpy as np
import pytest
import ptxlab

@pytest.mark.ptxlab(target="sm_90a")
def test_right(ptxlab_session):
    import cutlass.cute as cute
    from cutlass.cute.runtime import from_dlpack
    import programs

    a, b = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    programs.scale(from_dlpack(a), from_dlpack(b), 2.0)
    assert (b == 2 * a).all()
    assert len(ptxlab_session.launches) == 1

@pytest.mark.ptxlab
def test_wrong():
    from cutlass.cute.runtime import from_dlpack
    import programs

    programs.past_the_end(from_dlpack(np.zeros(100, np.float32)).mark_layout_dynamic())
"""


@needs_cute
def test_cute_dsl(tmp_path: Path) -> None:
    """It is imported by the test itself, when the switch waits for it."""
    programs = (Path(__file__).parents[1] / "end_to_end" / "cute" / "programs.py").read_text()
    output, outcomes, results = run(tmp_path, tests=CUTE, programs=programs)
    assert outcomes == {"test_right": "PASSED", "test_wrong": "FAILED"}, output
    assert [result["ruleId"] for result in results] == ["M402"]


def test_a_file_that_cannot_be_written_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(): pass")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--ptxlab-sarif", "no/s.json", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stderr == "ERROR: --ptxlab-sarif: cannot write no/s.json: No such file or directory\n\n"
