"""Adapters of frameworks, with stand-ins for the packages, and with cuda.core itself."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ptxlab import cuda
from ptxlab.cuda.images import PtxStore
from ptxlab.interop import _cuda_core
from ptxlab.interop.torch._build import CannotBuild, installed_torch, library_file
from tests.cuda.driver_helpers import needs_compiler, session
from tests.cuda.images.image_helpers import compile_image

pytestmark = [pytest.mark.compiler, needs_compiler]


@dataclass
class Code:
    """Stands for an object code of cuda.core."""

    code_type: str
    code: Any


@dataclass
class Options:
    """Stands for the options of a linker."""

    ptx: bool | None = None
    link_time_optimization: bool | None = None


class Given:
    """What the compilers of the stand-in give, and what they have been asked for."""

    cubin = b""
    asked: tuple[tuple[str, Any], ...] = ()


class Program:
    """Stands for the class of cuda.core: it compiles once, as NVRTC does with names of kernels."""

    def __init__(self, code: str, code_type: str, options: Any = None) -> None:
        self.code, self.compiled = code, False

    def compile(self, target_type: str, name_expressions: Any = (), logs: Any = None) -> Code:
        assert not self.compiled
        self.compiled = True
        Given.asked += ((target_type, name_expressions),)
        return Code(target_type, Given.cubin if target_type == "cubin" else f"// {self.code}\0".encode())


class Linker:
    """Stands for the class of cuda.core."""

    def __init__(self, *codes: Code, options: Options | None = None) -> None:
        self.options = options

    def link(self, target_type: str) -> Code:
        if target_type == "ptx":
            assert self.options == Options(ptx=True, link_time_optimization=True)
            return Code("ptx", b"// linked")
        return Code(target_type, Given.cubin)


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The changed stand-in of cuda.core, and the store of the driver."""
    module: Any = ModuleType("cuda.core")
    module.Program, module.Linker = Program, Linker
    package = sys.modules.get("cuda", ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda", package)
    monkeypatch.setitem(sys.modules, "cuda.core", module)
    monkeypatch.setattr(package, "core", module, raising=False)
    Given.cubin, Given.asked = compile_image(tmp_path, "image.cubin", "-cubin", "-arch=sm_90"), ()
    store = PtxStore(disk=False)
    monkeypatch.setattr(cuda.install(session).bridge, "store", store)
    with ExitStack() as stack:
        _cuda_core.change(stack)
        yield module, store
    assert module.Program is Program


def text_of(store: PtxStore) -> str | None:
    """The PTX that the store has for the cubin of the stand-in."""
    return store.find(PtxStore(disk=False).add(Given.cubin, ""))


def test_a_program_that_is_compiled_to_machine_code(core: Any) -> None:
    module, store = core
    made = module.Program("kernel", "c++", options=3).compile("cubin", ("add<int>",))
    assert (made.code_type, made.code) == ("cubin", Given.cubin)
    assert Given.asked == (("cubin", ("add<int>",)), ("ptx", ("add<int>",)))
    assert text_of(store) == "// kernel"


def test_a_program_that_is_compiled_to_ptx_is_compiled_once(core: Any) -> None:
    module, store = core
    assert module.Program("kernel", "c++").compile("ptx").code == b"// kernel\0"
    assert Given.asked == (("ptx", ()),)
    assert text_of(store) is None


def test_a_program_that_is_ptx(core: Any) -> None:
    module, store = core
    module.Program(".version 8.0\n", "ptx").compile("cubin")
    assert text_of(store) == ".version 8.0\n"


@pytest.mark.parametrize(
    ("codes", "text"),
    [
        ([Code("ptx", b".version 8.0\n.target sm_90\n// a\0"), Code("ptx", b".version 8.0\n.target sm_90\n// b")], "// a"),
        ([Code("ptx", b"// a"), Code("ltoir", b"\1")], "// linked"),
        ([Code("ptx", b"// a"), Code("cubin", b"\1")], None),
    ],
)
def test_a_linker(core: Any, codes: list[Code], text: str | None) -> None:
    module, store = core
    assert module.Linker(*codes, options=Options()).link("cubin").code == Given.cubin
    found = text_of(store)
    assert found is None if text is None else found is not None and text in found
    if text == "// a":
        assert found is not None
        assert "// b" in found
        assert found.count(".version") == 1


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program under ``ptxlab exec``."""
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-c", "from ptxlab.cli import main; main()", "exec", "--target", "sm_90a", "program.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


CUDA_CORE = '''
import ctypes
import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch
device = Device()
device.set_current()
stream = device.create_stream()
code = """template <class T> __global__ void twice(T *a, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] *= 2; }"""
kernel = Program(code, "c++", options=ProgramOptions(arch="sm_90")).compile("cubin", ("twice<float>",)).get_kernel("twice<float>")
memory = LegacyPinnedMemoryResource().allocate(400)
values = np.from_dlpack(memory).view(np.float32)
values[:] = np.arange(100)
launch(stream, LaunchConfig(grid=4, block=32), kernel, memory, ctypes.c_int(100))
stream.sync()
assert values.tolist() == [2 * i for i in range(100)]
print("equal")
'''


def test_cuda_core(tmp_path: Path) -> None:
    done = run(CUDA_CORE, tmp_path)
    assert (done.returncode, done.stdout) == (0, "equal\n"), done.stderr


SEVERAL_RUNS = """
import sys
from types import ModuleType
from ptxlab import cuda
from ptxlab.interop.frameworks import prepared

class Program: pass
class Linker: pass
core = sys.modules["cuda.core"] = ModuleType("cuda.core")
core.Program, core.Linker = Program, Linker
for i in range(3):
    with prepared(), prepared():
        if i:
            import cutlass
print(cutlass.__file__, len(core.Program.__mro__), len(cuda.install().bridge.store.folders))
"""


PREPARED = ("cutlass", "triton", "tilelang", "cupy", "torch")
AFTER_A_RUN = """
import os, sys
from ptxlab import cuda
from ptxlab.cli import main
from ptxlab.interop.torch._state import is_prepared

sys.argv = ["ptxlab", "exec", "--target", "sm_90a", "program.py"]
try:
    main()
except SystemExit:
    pass
before = dict(os.environ)
import cutlass, triton, tilelang, cupy, torch
files = {module.__file__ for module in (cutlass, triton, tilelang, cupy, torch)}
print(files == {os.path.join(os.getcwd(), name) + ".py" for name in ("cutlass", "triton", "tilelang", "cupy", "torch")})
print(os.environ == before, is_prepared(), len(cuda.install().bridge.store.folders))
"""


def test_imports_after_a_program_are_not_prepared(tmp_path: Path) -> None:
    """Neither what the program has not imported, nor what it has only looked for."""
    for name in PREPARED:
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "program.py").write_text(f"from importlib.util import find_spec\nassert all(map(find_spec, {PREPARED}))\n")
    done = subprocess.run([sys.executable, "-c", AFTER_A_RUN], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == ["True", "True", "False", "0"], done.stderr


TWO_RUNS = """
import sys
from ptxlab.cli import main

for name in ("first.py", "second.py", "third.py"):
    sys.argv = ["ptxlab", "exec", "--target", "sm_90a", name]
    try:
        main()
    except SystemExit:
        pass
"""
ON_THE_DEVICE = "import torch\nprint(torch.ones(2, device='cuda').device)\n"


def test_each_of_several_programs_in_a_process_gets_the_device_of_torch(tmp_path: Path) -> None:
    """The first one looks for torch and does not import it; the second one does, and the third one finds it imported."""
    torch = installed_torch()
    if torch is None or torch.cuda is not None:
        pytest.skip("needs a CPU build of torch")
    try:
        library_file(torch)
    except CannotBuild as error:
        pytest.skip(str(error))
    (tmp_path / "first.py").write_text("from importlib.util import find_spec\nfind_spec('torch')\n")
    for name in ("second.py", "third.py"):
        (tmp_path / name).write_text(ON_THE_DEVICE)
    done = subprocess.run([sys.executable, "-c", TWO_RUNS], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == ["cuda:0", "cuda:0"], done.stderr


def test_programs_are_prepared_once_in_a_process_that_runs_several(tmp_path: Path) -> None:
    (tmp_path / "cutlass.py").touch()
    done = subprocess.run([sys.executable, "-c", SEVERAL_RUNS], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == [str(tmp_path / "cutlass.py"), "3", "1"], done.stderr


def test_a_cupy_that_carries_the_runtime_library_of_nvidia(tmp_path: Path) -> None:
    modules = tmp_path / "cupy_backends" / "cuda" / "api"
    modules.mkdir(parents=True)
    for folder in (modules.parent, modules.parent.parent):
        (folder / "__init__.py").touch()
    (tmp_path / "cupy.py").touch()
    source = tmp_path / "runtime.c"
    source.write_text("void __cudaRegisterFatBinary(void) {}\n")
    subprocess.run(["cc", "-shared", "-o", str(modules / "runtime.abi3.so"), str(source)], check=True)
    done = run("import cupy\n", tmp_path)
    assert done.returncode == 1
    assert "error[I511]" in done.stderr
    assert "runtime.abi3.so carries NVIDIA's runtime library" in done.stderr
    assert "fix: write the program for cuda.core or numba-cuda, which call the driver" in done.stderr


TILELANG = """
import ctypes
from tilelang.contrib import nvcc
from tilelang.contrib.nvcc import compile_cuda
assert compile_cuda("code", "cubin", ["-arch=sm_90a"], options=["-O3"]) == ("code", "ptx", ["-arch=sm_90a"], ["-O3"])
assert nvcc.compile_cuda is compile_cuda
runtime = ctypes.CDLL("libcudart.so.13")
count = ctypes.c_int()
assert runtime.cudaGetDeviceCount(ctypes.byref(count)) == 0 and count.value == 1
import os
assert os.environ["TILELANG_DISABLE_CACHE"] == "1"
print("as expected")
"""


def test_tilelang(tmp_path: Path) -> None:
    package = tmp_path / "tilelang" / "contrib"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("from tilelang.contrib import nvcc\n")
    (package / "__init__.py").touch()
    (package / "nvcc.py").write_text(
        "def compile_cuda(code, target_format='ptx', arch=None, options=None):\n    return code, target_format, arch, options\n"
    )
    done = run(TILELANG, tmp_path)
    assert (done.returncode, done.stdout) == (0, "as expected\n"), done.stderr
