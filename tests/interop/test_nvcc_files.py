"""PTX out of the files that nvcc makes: every kind of file, every compression; damaged ones are refused by name."""

from __future__ import annotations

import random
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ptxlab
from ptxlab import ptx
from ptxlab.interop import nvcc

SOURCE = """
extern "C" __global__ void twice(const int *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.f * x[i];
}
int main() { twice<<<1, 32>>>(nullptr, nullptr, 0); }
"""
pytestmark = pytest.mark.compiler
"""The files are made once."""

PTXLAB = (sys.executable, "-c", "from ptxlab.cli import main; main()")
ONE = ["-gencode", "arch=compute_100a,code=compute_100a"]
TWO = [*ONE, "-gencode", "arch=compute_90,code=compute_90"]
FILES = {
    "zstd.fatbin": ["-fatbin", *ONE],
    "size.fatbin": ["-fatbin", "--compress-mode=size", *ONE],
    "lz4.fatbin": ["-fatbin", "--compress-mode=speed", *ONE],
    "plain.fatbin": ["-fatbin", "--compress-mode=none", *ONE],
    "two.fatbin": ["-fatbin", *TWO],
    "lines.cubin": ["-cubin", "-lineinfo", "-arch=sm_100a"],
    "bare.cubin": ["-cubin", "-arch=sm_100a"],
    "host.o": ["-c", *ONE],
    "relocatable.o": ["-dc", *ONE],
    "program": ["-cudart", "none", "-Xlinker", "--unresolved-symbols=ignore-all", *ONE],
    "library.so": ["-shared", "-Xcompiler", "-fPIC", "-cudart", "none", *ONE],
    "cubin_in_object.o": ["-c", "-lineinfo", "-gencode", "arch=compute_100a,code=sm_100a"],
}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with each of the files."""
    if shutil.which("g++") is None:
        pytest.skip("needs a host compiler")
    try:
        compiler = nvcc.find_nvcc()
    except nvcc.NvccError:
        pytest.skip("needs nvcc")
    folder = tmp_path_factory.mktemp("nvcc")
    source = folder / "twice.cu"
    source.write_text(SOURCE)
    for name, options in FILES.items():
        subprocess.run([compiler, *options, "-o", folder / name, source], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("two.fatbin", "bare.cubin")])
def test_the_kernel_runs(made: Path, name: str) -> None:
    kernel = ptxlab.load(made / name)["twice"]
    x = np.arange(-20, 20).astype(np.int32)
    y = np.zeros(40, np.float32)
    kernel.launch(grid=2, block=32, args=[x, y, 40]).raise_for_errors()
    assert np.array_equal(y, 2 * x.astype(np.float32))


def test_a_target_is_chosen(made: Path) -> None:
    file = made / "two.fatbin"
    assert ptxlab.load(file, target="sm_90").target == "sm_90"
    assert [found.target for found in ptx.embedded(file.read_bytes(), "f")] == ["sm_100a", "sm_90"]
    for target, message in (
        (None, "carries 2 PTX texts, for sm_100a, sm_90"),
        ("sm_80", "carries no PTX for sm_80, only for sm_100a, sm_90"),
    ):
        with pytest.raises(ptxlab.LaunchError) as error:
            ptxlab.load(file, target=target)
        assert error.value.diagnostic.code == "A315"
        assert error.value.diagnostic.message == f"{file} {message}"


def test_a_cubin_without_ptx(made: Path) -> None:
    with pytest.raises(ptxlab.PtxSyntaxError) as error:
        ptxlab.load(made / "bare.cubin")
    assert str(error.value) == (
        f"{made}/bare.cubin:0: error[S201]: the file carries no PTX\n"
        "  fix: compile with -gencode arch=compute_100a,code=compute_100a, or -lineinfo for a cubin that keeps its PTX"
    )


def test_without_the_package_that_decompresses(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ptxlab.PtxSyntaxError) as error:
        ptx.embedded((made / "zstd.fatbin").read_bytes(), "k.fatbin")
    assert str(error.value) == (
        "k.fatbin:0: error[S203]: the PTX is compressed with zstd, and zstandard is not installed: pip install zstandard"
    )
    assert ptx.embedded((made / "lz4.fatbin").read_bytes(), "k.fatbin")


def lint(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PTXLAB, "lint", *map(str, arguments)], capture_output=True, text=True)


def test_lint_of_binary_files_and_of_cuda(made: Path, tmp_path: Path) -> None:
    for file in (made / "two.fatbin", made / "host.o", made / "twice.cu"):
        run = lint(file)
        assert (run.returncode, run.stdout) == (0, "")
        assert re.fullmatch(rf"{re.escape(str(file))}: (\d modules, )?nothing found\n", run.stderr)
    run = lint(made / "bare.cubin")
    assert (run.returncode, run.stdout.splitlines()[0]) == (1, "error[S201]: the file carries no PTX")
    program = tmp_path / "program.cu"
    program.write_text('extern "C" __global__ void k() {\n  asm volatile("tcgen05.wait::ld.sync.sync.aligned;");\n}\n')
    run = lint(program)
    assert (run.returncode, run.stdout.splitlines()[0][:14]) == (0, "warning[L123]:")
    assert f"{program}:2" in run.stdout, "the place in the CUDA source"
    run = lint("--target", "sm_90a", program)
    assert run.returncode == 1
    assert "error[I202]: Instruction 'tcgen05.wait' not supported on .target 'sm_90a'" in run.stdout
    program.write_text("nonsense\n")
    run = lint(program)
    assert run.returncode == 1
    assert run.stdout.startswith("error[I202]: ")
    assert f"{program}:1" in run.stdout


def test_run_of_a_fat_binary(made: Path, tmp_path: Path) -> None:
    launch = tmp_path / "launch.toml"
    launch.write_text(
        f'ptx = "{made}/two.fatbin"\ntarget = "sm_90"\nkernel = "twice"\nblock = 8\n'
        '[[args]]\nname = "x"\narray = {shape = [8], dtype = "int32", fill = "arange"}\n'
        '[[args]]\nname = "y"\narray = {shape = [8], dtype = "float32"}\n[[args]]\nvalue = 8\n'
    )
    command = [*PTXLAB, "run", launch, "--save", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    assert list(np.load(tmp_path / "y.npy")) == [0, 2, 4, 6, 8, 10, 12, 14]


@pytest.mark.parametrize("name", ["zstd.fatbin", "lz4.fatbin", "plain.fatbin", "lines.cubin", "host.o"])
def test_damaged_files(made: Path, name: str) -> None:
    """Cut off anywhere and with any byte changed: PTX, or a refusal with a code."""
    raw = (made / name).read_bytes()
    generator = random.Random(name)
    damaged = [raw[:length] for length in generator.sample(range(8, len(raw)), 60)]
    for _ in range(240):
        changed = bytearray(raw)
        changed[generator.randrange(4, min(len(raw), 2000))] = generator.randrange(256)
        damaged.append(bytes(changed))
    codes = set()
    for data in damaged:
        try:
            ptx.embedded(data, name)
        except ptxlab.PtxSyntaxError as error:
            codes.add(error.diagnostic.code)
    assert "S202" in codes
    assert codes <= {"S201", "S202"}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\x7fELF" + b"\2\1", "the file is damaged: the ELF header is cut off"),
        (b"\x7fELF" + b"\1\1" + bytes(58), "the file is damaged: only 64-bit little-endian ELF files can be read"),
        (b"\x50\xed\x55\xba" + struct.pack("<HHQ", 1, 16, 100), "the file is damaged: the fat binary is cut off"),
        (b"\x50\xed\x55\xba" + struct.pack("<HHQ", 1, 4, 0), "the file is damaged: the fat binary is cut off"),
        (b"\x50\xed\x55\xba" + struct.pack("<HHQ", 1, 16, 64) + bytes(64), "the file is damaged: an entry of the fat binary is cut off"),
        (b"\x50\xed\x55\xba" + struct.pack("<HHQ", 1, 16, 0) + b"more" * 4, "the file is damaged: no fat binary at byte 16"),
    ],
)
def test_what_is_damaged(raw: bytes, message: str) -> None:
    with pytest.raises(ptxlab.PtxSyntaxError) as error:
        ptx.embedded(raw, "k.fatbin")
    assert error.value.diagnostic.code == "S202"
    assert error.value.diagnostic.message == message
