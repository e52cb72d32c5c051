"""The settings with which Triton and CuTe DSL hand PTX to the driver, or keep it beside the machine code."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ptxlab.cuda.images import PtxStore
from ptxlab.interop.cute.process import settings as cute_settings
from ptxlab.interop.triton import process
from tests.cuda.driver_helpers import needs_compiler

PROGRAMS = Path(__file__).resolve().parents[1] / "end_to_end" / "cute"
PTX = ".version 8.7\n.target sm_100a\n"
ASSEMBLERS = {"TRITON_PTXAS_PATH": "ptxas", "TRITON_PTXAS_BLACKWELL_PATH": "ptxas-blackwell"}


@pytest.fixture
def triton_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    monkeypatch.setattr(process, "cache_folder", lambda name: tmp_path / "a folder" / name)
    return process.settings()


@needs_compiler
@pytest.mark.parametrize("name", ASSEMBLERS)
def test_the_output_of_the_program_is_its_input(name: str, triton_settings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "in put.ptx").write_text(PTX)
    options = ["-lineinfo", "-v", "--regAllocOptLevel=2", "--gpu-name=sm_100a"]
    command = [triton_settings[name], *options, "in put.ptx", "-o", "out.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (tmp_path / "out.o").read_text() == PTX
    assert (done.stdout, done.stderr) == ("", "")


@needs_compiler
def test_a_missing_input_is_an_error(triton_settings: dict[str, str], tmp_path: Path) -> None:
    program = triton_settings["TRITON_PTXAS_PATH"]
    assert subprocess.run([program, "none.ptx", "-o", "out.o"], cwd=tmp_path, capture_output=True).returncode


@needs_compiler
@pytest.mark.parametrize("name", ASSEMBLERS)
@pytest.mark.parametrize("own", ["release 13.4, V13.4.1", "release 10.2, V10.2.89", None])
def test_the_program_answers_with_the_release_of_tritons_assembler_and_its_own_name(
    name: str, own: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "cache_folder", lambda name: tmp_path / "cache")
    monkeypatch.setattr(process, "package_folders", lambda name: [] if own is None else [tmp_path / "Triton's"])
    assembler = tmp_path / "Triton's" / "backends" / "nvidia" / "bin" / ASSEMBLERS[name]
    if own is not None:
        assembler.parent.mkdir(parents=True)
        assembler.write_text(f"#!/bin/sh\necho 'NVIDIA, {own}'")
        assembler.chmod(0o755)
    found = process.settings()
    answer = subprocess.run([found[name], "--version"], capture_output=True, text=True, check=True)
    expected = "Cuda compilation tools, release 12.8, V12.8.93" if own is None else f"NVIDIA, {own}"
    assert (answer.stdout, answer.stderr) == (f"{expected}\nptxlab: the output is PTX\n", "")
    assert found == process.settings()


COMPILE = """
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

source = ASTSource(fn=double, signature={"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, constexprs={(2,): 128})
for number in (90, 100):
    found = triton.compile(source, target=GPUTarget("cuda", number, 32)).asm
    assert found["cubin"].decode() == found["ptx"]
    assert f".target sm_{number}a" in found["ptx"]
"""


@needs_compiler
@pytest.mark.compiler
def test_triton_hands_over_ptx(triton_settings: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    (tmp_path / "program.py").write_text(COMPILE)
    variables = os.environ | triton_settings
    done = subprocess.run([sys.executable, "-W", "ignore", "program.py"], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def store_of(folder: Path) -> PtxStore:
    store = PtxStore(disk=False)
    store.folders.append(folder)
    return store


def test_ptx_is_found_by_the_machine_code_beside_it(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    first, second = (hashlib.sha256(raw).hexdigest() for raw in (b"first", b"second"))
    assert store.find(first) is None
    for name in ("first", "second"):
        (tmp_path / f"{name}.sm_100a.cubin").write_bytes(name.encode())
        (tmp_path / f"{name}.sm_100a.ptx").write_text(f"// {name}")
    assert (store.find(second), store.find(first)) == ("// second", "// first")
    (tmp_path / "first.sm_100a.ptx").unlink()
    assert store.find(first) == "// first"


def test_a_file_that_is_written_again_is_read_again(tmp_path: Path) -> None:
    """CuTe DSL names files after functions: those of a class that are compiled with other sizes may have the same name."""
    kept, cubin = store_of(tmp_path), tmp_path / "kernel.cubin"
    for number, name in enumerate(("first", "second")):
        cubin.write_bytes(name.encode())
        cubin.with_suffix(".ptx").write_text(f"// {name}")
        os.utime(cubin, ns=(number, number))
        assert kept.find(hashlib.sha256(name.encode()).hexdigest()) == f"// {name}"
    assert kept.find(hashlib.sha256(b"first").hexdigest()) == "// first"


def test_machine_code_without_ptx_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "only.cubin").write_bytes(b"only")
    assert store_of(tmp_path).find(hashlib.sha256(b"only").hexdigest()) is None


KEEP = """
import hashlib, pathlib, sys
import numpy as np, cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack
sys.path.insert(0, sys.argv[1])
import programs
from ptxlab.cuda.images import PtxStore
a, b = np.zeros(300, np.float32), np.zeros(300, np.float32)
cute.compile(programs.scale, from_dlpack(a), from_dlpack(b), 1.0)
folder = pathlib.Path(sys.argv[2])
(cubin,) = folder.glob("*.cubin")
store = PtxStore(disk=False)
store.folders.append(folder)
text = store.find(hashlib.sha256(cubin.read_bytes()).hexdigest())
assert ".target sm_90a" in text and ".entry kernel_cutlass_scale" in text and ".loc" in text
"""


@pytest.mark.compiler
def test_cute_dsl_keeps_ptx(tmp_path: Path) -> None:
    pytest.importorskip("cutlass.cute")
    (tmp_path / "program.py").write_text(KEEP)
    kept = tmp_path / "kept"
    kept.mkdir()
    variables = {name: value for name, value in cute_settings("sm_90a", kept, Path("none")).items() if not name.endswith("_LIBS")}
    command = [sys.executable, "-W", "ignore", "program.py", str(PROGRAMS), str(kept)]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
