"""Whole programs that use CuTe DSL, as they are, and processes without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ptxlab.diagnostics import PtxlabError
from ptxlab.interop import cute
from tests.cuda.driver_helpers import needs_compiler

pytest.importorskip("cutlass.cute")

pytestmark = [pytest.mark.compiler, needs_compiler]
PROGRAMS = Path(__file__).resolve().parents[1] / "end_to_end" / "cute"

PROGRAM = """
import numpy as np, torch, cutlass, cutlass.cute as cute, sys
from cutlass.cute.runtime import from_dlpack, make_ptr
sys.path.insert(0, {tests!r})
import programs
a, b = torch.arange(300.), torch.zeros(300)
programs.scale(from_dlpack(a), from_dlpack(b), 2.0)
assert torch.equal(b, 2 * a)
compiled = cute.compile(programs.scale, from_dlpack(a), from_dlpack(b), 1.0)
for factor in (3.0, 4.0):
    compiled(a, b, factor)
    assert torch.equal(b, factor * a)
x, y = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
cute.compile(programs.scale, from_dlpack(x), from_dlpack(y), 1.0)(from_dlpack(x), from_dlpack(y), 5.0)
assert (y == 5 * x).all()
p, q = (make_ptr(cutlass.Float32, t.data_ptr(), cute.AddressSpace.gmem, assumed_align=16) for t in (a, b))
programs.scale_at(p, q, 300, 6.0)
assert torch.equal(b, 6 * a)
print("all as expected")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    pytest.importorskip("torch")
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(tests=str(PROGRAMS)))
    return script


def run_ptxlab(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from ptxlab.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_a_program_runs_as_it_is(program: Path) -> None:
    done = run_ptxlab("exec", "--policy", "lazy", str(program))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "all as expected"
    assert "ptxlab: 5 launches on sm_100a, nothing found" in done.stderr


def test_host_functions_without_kernels_run_as_host_code(tmp_path: Path) -> None:
    script = tmp_path / "host.py"
    script.write_text(
        "import numpy as np, cutlass, cutlass.cute as cute\n"
        "from cutlass.cute.runtime import from_dlpack\n"
        "@cute.jit\n"
        "def double(a: cute.Tensor, count: cutlass.Int32):\n"
        "    for i in cutlass.range(count):\n"
        "        a[i] = a[i] * 2\n"
        "a = np.arange(8, dtype=np.float32)\n"
        "double(from_dlpack(a), 5)\n"
        "cute.compile(double, from_dlpack(a), 5)(from_dlpack(a), 8)\n"
        "print(a.tolist())\n"
    )
    done = run_ptxlab("exec", str(script))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([0.0, 4.0, 8.0, 12.0, 16.0, 10.0, 12.0, 14.0])
    assert "ptxlab: no kernel was launched" in done.stderr


def test_packed_arguments_may_be_used_again(tmp_path: Path) -> None:
    """The memory of arguments that a program has packed itself is the device's in each call, not only in the first."""
    script = tmp_path / "packed.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(PROGRAMS)!r})\n"
        "import numpy as np, programs, cutlass.cute as cute\n"
        "from cutlass.cute.runtime import from_dlpack\n"
        "a, b = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)\n"
        "given = from_dlpack(a), from_dlpack(b), 2.0\n"
        "compiled = cute.compile(programs.scale, *given)\n"
        "packed, kept = compiled.generate_execution_args(*given)\n"
        "for _ in range(2):\n"
        "    b[:] = 0\n"
        "    compiled.run_compiled_program(packed)\n"
        "    assert (b == 2 * a).all()\n"
    )
    done = run_ptxlab("exec", str(script))
    assert done.returncode == 0, done.stderr
    assert "ptxlab: 2 launches on sm_100a, nothing found" in done.stderr


def test_benchmarks_run_once(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "measured.py"
    script.write_text(
        "import numpy as np, torch, cutlass, cutlass.cute as cute, cutlass.testing\n"
        "from cutlass.cute.runtime import from_dlpack\n"
        "@cute.kernel\n"
        "def add(a: cute.Tensor):\n"
        "    a[cute.arch.thread_idx()[0]] += 1\n"
        "@cute.jit\n"
        "def run(a: cute.Tensor):\n"
        "    add(a).launch(grid=(1, 1, 1), block=(8, 1, 1))\n"
        "a = np.zeros(8, np.int32)\n"
        "compiled = cute.compile(run, from_dlpack(a))\n"
        "arguments = cutlass.testing.JitArguments(from_dlpack(a))\n"
        "cutlass.testing.benchmark(compiled, kernel_arguments=arguments, warmup_iterations=20, iterations=50)\n"
        "print(a.tolist())\n"
    )
    done = run_ptxlab("exec", str(script))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([1] * 8)
    assert "warning[I306]: cutlass.testing ran the function once; the times are those of the simulation on this computer" in done.stderr


def test_a_finding_names_the_line_of_the_program(tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(PROGRAMS)!r})\n"
        "import numpy as np, programs\n"
        "from cutlass.cute.runtime import from_dlpack\n"
        "programs.past_the_end(from_dlpack(np.zeros(100, np.float32)).mark_layout_dynamic())\n"
    )
    done = run_ptxlab("exec", str(script))
    assert done.returncode == 1
    assert "error[M402]" in done.stderr
    assert "target[thread] = cutlass.Float32(1)" in done.stderr
    assert "wrong.py:4" in done.stderr
    assert "0 bytes past the end of argument target (" in done.stderr


def test_without_cute_dsl_there_is_one_line() -> None:
    program = """
import sys
sys.modules["cutlass"] = None
from ptxlab.interop import cute
try:
    cute.compile(None)
except Exception as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    (line,) = done.stdout.splitlines()
    assert line.startswith("error[I101]: CuTe DSL cannot be imported (")
    assert line.endswith("): pip install 'ptxlab[cute]'")


def test_cute_dsl_that_cannot_be_imported_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """``cutlass.cute`` is there from other tests of the process: page I101 hides the package above it."""
    monkeypatch.setitem(sys.modules, "cutlass", None)
    with pytest.raises(PtxlabError, match="CuTe DSL cannot be imported"):
        cute.compile(None)


def test_import_is_lazy() -> None:
    program = "import sys, ptxlab.interop.cute; print('cutlass' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout.strip() == "False"
