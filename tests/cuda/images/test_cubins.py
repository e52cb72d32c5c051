"""What cubins say about their kernels, compared with what ptxas prints."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ptxlab.cuda.images import Parameter, read_cubin
from ptxlab.interop import nvcc
from tests.cuda.images.image_helpers import compile_image

pytestmark = pytest.mark.compiler
FUNCTION = re.compile(r"Compiling entry function '(\w+)'(.*?)Compile time", re.DOTALL)


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_90a", "sm_100a", "sm_100f", "sm_103a"])
def test_registers_shared_memory_and_stack_are_what_ptxas_says(tmp_path: Path, target: str) -> None:
    compile_image(tmp_path, "x.ptx", "-ptx", f"-arch={target.replace('sm', 'compute')}")
    ptxas = nvcc.find_nvcc().with_name("ptxas")
    command = [str(ptxas), "-v", f"-arch={target}", "x.ptx", "-o", "x.cubin"]
    said = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60).stderr
    expected = {
        name: (_number(r"Used (\d+) registers", rest), _number(r"(\d+) bytes smem", rest), _number(r"(\d+) bytes cumulative stack", rest))
        for name, rest in FUNCTION.findall(said)
    }
    cubin = read_cubin((tmp_path / "x.cubin").read_bytes())
    assert cubin.target == target
    assert len(expected) == 3
    assert {name: (k.registers, k.static_shared, k.local) for name, k in cubin.kernels.items()} == expected


def test_parameters_bounds_and_variables(tmp_path: Path) -> None:
    cubin = read_cubin(compile_image(tmp_path, "x.cubin", "-cubin", "-arch=sm_90a"))
    kernel = cubin.kernels["sum"]
    assert kernel.parameters == (Parameter(0, 8), Parameter(8, 4), Parameter(16, 24), Parameter(40, 1))
    assert (kernel.parameter_bytes, kernel.max_threads, kernel.required_threads, kernel.cluster) == (41, (128, 1, 1), None, None)
    assert cubin.kernels["empty"].parameters == ()
    assert cubin.variables == {"counter": 28}
    assert cubin.text is None


def test_required_threads_and_clusters(tmp_path: Path) -> None:
    text = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() .reqntid 32, 2, 1 .reqnctapercluster 2, 1, 1 { ret; }\n"
    (tmp_path / "x.ptx").write_text(text)
    try:
        ptxas = nvcc.find_nvcc().with_name("ptxas")
    except nvcc.NvccError:
        pytest.skip("needs ptxas")
    subprocess.run([str(ptxas), "-arch=sm_90a", "x.ptx", "-o", "x.cubin"], cwd=tmp_path, check=True, timeout=60)
    kernel = read_cubin((tmp_path / "x.cubin").read_bytes()).kernels["k"]
    assert (kernel.required_threads, kernel.cluster) == ((32, 2, 1), (2, 1, 1))
