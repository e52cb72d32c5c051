"""The kernels of the tutorial: nothing found under any schedule and either model, the bits of the tensor cores, matrices of any size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import ptxlab
from ptxlab import numerics
from ptxlab.cli._main import cli
from ptxlab.interop import nvcc
from tests.interop.nvcc_helpers import require_nvcc

TUTORIAL = Path(__file__).resolve().parents[3] / "examples" / "tutorial"


@pytest.mark.parametrize("model", ["practice", "spec"])
@pytest.mark.parametrize("kernel", ["gemm.ptx", "gemm.cu", "wgmma.cu"])
def test_nothing_is_found(kernel: str, model: str, tmp_path: Path) -> None:
    if kernel.endswith(".cu"):
        require_nvcc()
    launch = (TUTORIAL / ("wgmma.toml" if kernel == "wgmma.cu" else "launch.toml")).read_text()
    (tmp_path / "launch.toml").write_text(launch.replace("gemm.ptx", kernel))
    (tmp_path / kernel).write_text((TUTORIAL / kernel).read_text())
    done = CliRunner().invoke(cli, ["check", str(tmp_path / "launch.toml"), "--model", model, "--json"], catch_exceptions=False)
    assert json.loads(done.output) == {"ok": True, "schedules": 5, "diagnostics": []}


def arguments(m: int, n: int, k: int, rows: tuple[int, int]) -> tuple[Any, Any, Any, list[Any]]:
    """Random A and B, a C of a larger pitch, and the tensor maps of A and B."""
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.standard_normal((size, k)).astype(np.float16) for size in (m, n))
    maps = [ptxlab.TensorMap(x, box=(64, r), swizzle="128B") for x, r in zip((a, b), rows, strict=True)]
    return a, b, np.zeros((m, n + 8), np.float32), maps


def product(arch: str, a: Any, b: Any) -> Any:
    """The bits of A B^T, 16 elements of K at a time, those of the last step padded with zeros."""
    k = -(-a.shape[1] // 64) * 64
    codes = [np.pad(x, ((0, 0), (0, k - x.shape[1]))).view(np.uint16) for x in (a, b)]
    kind, c = ("f16" if arch == "tcgen05" else None), None
    for i in range(0, k, 16):
        part = [np.ascontiguousarray(x[:, i : i + 16]) for x in codes]
        c = numerics.mma(arch=arch, kind=kind, a="f16", b="f16", d="f32", A=part[0], B=part[1], C=c)
    return c.view(np.float32)


@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 64), (300, 136, 200), (64, 256, 1000)])
@pytest.mark.parametrize("name", ["gemm.ptx", "gemm.cu"])
def test_the_bits_of_tcgen05(name: str, m: int, n: int, k: int) -> None:
    if name == "gemm.cu":
        require_nvcc()
    kernel = (ptxlab.load(TUTORIAL / name) if name == "gemm.ptx" else nvcc.compile(TUTORIAL / name)).kernel()
    a, b, c, maps = arguments(m, n, k, (128, 128))
    grid = (-(-n // 128), -(-m // 128))
    result = kernel.launch(grid=grid, block=128, shared_bytes=81920, args=[*maps, ptxlab.TensorMap(c, box=(32, 128)), -(-k // 64)])
    assert result.diagnostics == ()
    assert np.array_equal(c[:, :n], product("tcgen05", a, b))
    assert not c[:, n:].any()


@pytest.mark.parametrize("k", [64, 200])
def test_the_bits_of_wgmma(k: int) -> None:
    require_nvcc()
    kernel = nvcc.compile(TUTORIAL / "wgmma.cu", arch="sm_90a").kernel()
    a, b, c, maps = arguments(128, 64, k, (64, 64))
    result = kernel.launch(grid=(1, 2), block=128, shared_bytes=32768, args=[*maps, c, c.shape[1], -(-k // 64)])
    assert result.diagnostics == ()
    assert np.array_equal(c[:, :64], product("wgmma", a, b))
    assert not c[:, 64:].any()
