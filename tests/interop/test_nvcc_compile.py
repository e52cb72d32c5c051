"""CUDA C++ to PTX: what comes out runs; what is refused is refused with its place."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ptxlab
from ptxlab.interop import nvcc
from ptxlab.interop.nvcc import _build

HEADERS = """
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda/ptx>
extern "C" __global__ void halves(const float *x, __half *y, unsigned *lanes) {
  y[threadIdx.x] = __float2half(x[threadIdx.x]);
  lanes[threadIdx.x] = cuda::ptx::get_sreg_laneid();
}
"""
FMA = 'extern "C" __global__ void axpy(float a, const float *x, float *y) { y[threadIdx.x] += a * x[threadIdx.x]; }\n'


def available() -> bool:
    try:
        nvcc.find_nvcc()
    except nvcc.NvccError:
        return False
    return shutil.which("g++") is not None


pytestmark = pytest.mark.compiler
needs_nvcc = pytest.mark.skipif(not available(), reason="needs nvcc and a host compiler")


@needs_nvcc
def test_what_the_headers_need_is_installed() -> None:
    """The extra `cuda` suffices for the runtime's, the fp16 and the libcu++ headers."""
    module = nvcc.compile("halves.cu", text=HEADERS, arch="sm_90a")
    assert (module.target, list(module)) == ("sm_90a", ["halves"])
    x = np.array([1, -2.5, 65504, 1e-8, 0.1, 3.14159, 1e6, 7], np.float32).repeat(5)
    y, lanes = np.zeros(40, np.float16), np.zeros(40, np.uint32)
    module.kernel().launch(block=40, args=[x, y, lanes]).raise_for_errors()
    with np.errstate(over="ignore"):
        assert np.array_equal(y, x.astype(np.float16))
    assert np.array_equal(lanes, np.arange(40) % 32)


@needs_nvcc
@pytest.mark.parametrize("fmad", [False, True])
def test_fmad(fmad: bool) -> None:
    x = (1 + np.arange(32, dtype=np.float32) * np.float32(2**-12)).astype(np.float32)
    y = -x * x
    started = y.copy()
    a = np.float32(1 + 2**-12)
    nvcc.compile("axpy.cu", text=FMA, fmad=fmad).kernel().launch(block=32, args=[a, x, y]).raise_for_errors()
    fused = (np.float64(a) * x + started).astype(np.float32)  # exact in float64: 24 + 24 bits, near exponents
    assert np.array_equal(y, fused if fmad else a * x + started)
    assert not np.array_equal(fused, a * x + started)


@needs_nvcc
@pytest.mark.parametrize("lineinfo", [False, True])
def test_diagnostics_name_the_source_line(lineinfo: bool) -> None:
    text = 'extern "C" __global__ void far(int *x) {\n  int i = threadIdx.x;\n  x[i + 100] = i;\n}\n'
    result = nvcc.compile("far.cu", text=text, lineinfo=lineinfo).kernel().launch(block=32, args=[np.zeros(32, np.int32)])
    (found,) = [d for d in result.diagnostics if d.severity == "error"]
    assert found.code == "M402"
    if lineinfo:
        assert found.source is not None
        assert (Path(found.source.file).name, found.source.line) == ("far.cu", 3)
    else:
        assert found.source is None


@needs_nvcc
def test_include_and_define(tmp_path: Path) -> None:
    (tmp_path / "factor.h").write_text("#define FACTOR (BASE + 1)\n")
    file = tmp_path / "scale.cu"
    file.write_text('#include "factor.h"\nextern "C" __global__ void scale(int *x) { x[threadIdx.x] *= FACTOR; }\n')
    x = np.arange(8, dtype=np.int32)
    nvcc.compile(file, define={"BASE": 6, "UNUSED": None}).kernel().launch(block=8, args=[x]).raise_for_errors()
    assert np.array_equal(x, 7 * np.arange(8))


@needs_nvcc
def test_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler runs again when the program, an option or an included file differs, and not otherwise."""
    monkeypatch.setenv("PTXLAB_CACHE_DIR", str(tmp_path / "cache"))
    runs = []
    real = subprocess.run
    monkeypatch.setattr(_build.subprocess, "run", lambda *args, **kwargs: (runs.append(args), real(*args, **kwargs))[1])
    header, file = tmp_path / "value.h", tmp_path / "k.cu"
    header.write_text("#define VALUE 1111\n")
    file.write_text('#include "value.h"\n__global__ void k(int *x) { *x = VALUE; }\n')

    def ran(**options: object) -> tuple[str, int]:
        before = len(runs)
        text = nvcc.ptx(file, **options)
        return text, len(runs) - before

    first, count = ran()
    assert ("1111" in first, count) == (True, 1)
    assert ran() == (first, 0)
    assert ran(arch="sm_90")[1] == 1
    header.write_text("#define VALUE 2222\n")
    second, count = ran()
    assert ("2222" in second, count) == (True, 1)
    assert ran() == (second, 0)
    file.write_text('#include "value.h"\n__global__ void k(int *x) { *x = VALUE + 1111; }\n')
    assert "3333" in ran()[0]
    kept = list((tmp_path / "cache" / "nvcc").glob("*/*.out"))
    assert len(kept) == 2
    for path in kept:
        path.write_bytes(path.read_bytes()[:-1])
    assert ran()[1] == 1
    monkeypatch.setenv("PTXLAB_CACHE", "off")
    assert ran()[1] == 1
    assert ran()[1] == 1


@needs_nvcc
def test_the_cache_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXLAB_CACHE_DIR", str(tmp_path))
    for architecture in ("sm_90", "sm_90a", "sm_100"):
        nvcc.ptx("k.cu", text="__global__ void k() {}", arch=architecture)
    sizes = [path.stat().st_size for path in (tmp_path / "nvcc").glob("*/*.out")]
    assert len(sizes) == 3
    monkeypatch.setattr(_build._ARTEFACTS, "limit_bytes", sum(sizes) - 1)
    _build._ARTEFACTS.evict()
    kept = [path.read_bytes().decode(errors="replace") for path in (tmp_path / "nvcc").glob("*/*.out")]
    assert sorted(re.findall(r"\.target (\w+)", "".join(kept))) == ["sm_100", "sm_90a"]


WRONG = {
    "a name": (
        "__global__ void k(int *p) {\n  p[0] = nothing;\n}\n",
        'k.cu:2:1: error[I202]: identifier "nothing" is undefined\n  2 |   p[0] = nothing;\n      ^',
    ),
    "a header": (
        '#include "nothere.h"\n',
        'k.cu:1:10: error[I202]: nothere.h: No such file or directory\n  1 | #include "nothere.h"\n               ^',
    ),
    "the host's part": (
        '__global__ void k() {}\nstatic_assert(sizeof(int) == 5, "five");\n',
        'k.cu:2:1: error[I202]: static assertion failed with "five"\n  2 | static_assert(sizeof(int) == 5, "five");\n      ^',
    ),
}


@needs_nvcc
@pytest.mark.parametrize("name", WRONG)
def test_what_the_compiler_refuses(name: str) -> None:
    text, expected = WRONG[name]
    with pytest.raises(nvcc.NvccError) as error:
        nvcc.compile("k.cu", text=text)
    assert str(error.value.diagnostic) == expected


@needs_nvcc
def test_every_error_is_given() -> None:
    with pytest.raises(nvcc.NvccError) as error:
        nvcc.compile("k.cu", text="__global__ void k(int *p) {\n" + "".join(f"  p[{i}] = x{i};\n" for i in range(5)) + "}\n")
    assert [(d.place.line, d.message) for d in error.value.diagnostics] == [(i + 2, f'identifier "x{i}" is undefined') for i in range(5)]


@needs_nvcc
def test_an_unknown_target() -> None:
    with pytest.raises(nvcc.NvccError) as error:
        nvcc.compile("k.cu", text=FMA, arch="sm_999")
    assert str(error.value) == "k.cu:0: error[I202]: Unsupported gpu architecture 'sm_999'"


@needs_nvcc
def test_no_host_compiler() -> None:
    with pytest.raises(nvcc.NvccError) as error:
        nvcc.compile("k.cu", text=FMA, flags=["-ccbin", "/no/such/compiler"])
    assert str(error.value) == (
        "error[I203]: nvcc finds no host compiler: /no/such/compiler: No such file or directory\n"
        "  fix: install g++, or name one with flags=['-ccbin', PATH]"
    )


def test_no_nvcc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("ptxlab.interop.optional_packages.find_spec", lambda name: None)
    with pytest.raises(nvcc.NvccError) as error:
        nvcc.compile("k.cu", text=FMA)
    assert str(error.value) == (
        'error[I201]: nvcc is not installed: pip install "ptxlab[cuda]", or install the CUDA toolkit and set CUDA_HOME'
    )


def test_where_nvcc_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CUDA_HOME goes before the package, the package before PATH."""

    def made(folder: Path) -> Path:
        folder.mkdir(parents=True)
        (folder / "nvcc").write_text("#!/bin/sh\n")
        (folder / "nvcc").chmod(0o755)
        return folder / "nvcc"

    class Spec:
        submodule_search_locations = (str(tmp_path / "nvidia"),)

    home, package, path = made(tmp_path / "home" / "bin"), made(tmp_path / "nvidia" / "cu13" / "bin"), made(tmp_path / "path")
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(path.parent))
    monkeypatch.setattr("ptxlab.interop.optional_packages.find_spec", lambda name: Spec)
    assert nvcc.find_nvcc() == home
    os.unlink(home)
    assert nvcc.find_nvcc() == package
    os.unlink(package)
    assert nvcc.find_nvcc() == path


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ptxlab.PtxlabError) as error:
        nvcc.compile(tmp_path / "none.cu")
    assert str(error.value) == f"error[A313]: cannot read {tmp_path}/none.cu: there is no such file"
