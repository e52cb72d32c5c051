"""The kernels in CUDA C++: they compute what they say, as NumPy does it in f64 or in integers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab import silicon
from ptxlab.formats import decode
from ptxlab.silicon._compare import replay

CASES = {f"{target}: {name}": case for target in ("sm_90a", "sm_100a") for name, _, case in silicon.cases_of(target, ["cuda"])}
SUMS = {"f16": (np.float16, 2e-2), "s8": (np.int32, 0.0), "e4m3": (np.float32, 1e-3)}
"""The type of sums, and their largest error relative to the sum of magnitudes: wgmma keeps few bits of sums of e4m3."""
FORMATS = {"mxf8": ("e4m3", "e4m3"), "e4m3": ("e4m3", "e5m2"), "s8": ("s8", "u8")}


def values(fmt: str, codes: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(decode(codes, "f32" if fmt == "tf32" else fmt), np.float64)


def scaled(factors: NDArray[np.uint8], tiles: int, rows: int, steps: int) -> NDArray[np.float64]:
    """The factor of each element of a matrix: rows of tiles of 128 or fewer rows, a factor for 32 elements along K."""
    r, k = np.arange(rows)[:, None], np.arange(4)[None]
    each = factors.reshape(tiles, steps, 512)[:, :, r % 32 * 16 + r // 32 * 4 + k]
    return np.repeat(2.0 ** (each.astype(float) - 127), 32, axis=-1).transpose(0, 2, 1, 3).reshape(tiles * rows, steps * 128)


@pytest.mark.compiler
@pytest.mark.parametrize("name", [name for name in CASES if "moderate" in name and re.search("(gemm|pair)_", name.partition(",")[2])])
def test_gemm(name: str) -> None:
    case = CASES[name]
    kind = case.entry.partition("_")[2]
    a_format, b_format = FORMATS.get(kind, (kind, kind))
    dtype, tolerance = SUMS.get(kind, (np.float32, 1e-5))
    a, b = values(a_format, case.inputs[0].data), values(b_format, case.inputs[1].data)
    if kind == "mxf8":
        a *= scaled(case.inputs[2].data, 2, 128, 3)
        b *= scaled(case.inputs[3].data, 3, 64, 3)
    outputs, diagnostics = replay(case, "all")
    assert not diagnostics
    d = outputs[0].view(dtype).astype(np.float64)
    assert np.all(np.abs(d - a @ b.T) <= tolerance * (np.abs(a) @ np.abs(b.T)))


def test_softmax() -> None:
    case = CASES["sm_100a: cuda: rows.cu, softmax, moderate"]
    x = case.inputs[0].data.view(np.float32).astype(np.float64)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(replay(case)[0][0].view(np.float32), e / e.sum(1, keepdims=True), rtol=2e-6)


def test_quantise() -> None:
    case = CASES["sm_100a: cuda: rows.cu, quantise, moderate"]
    x = case.inputs[0].data.view(np.float32).astype(np.float64)
    codes, scales = replay(case)[0]
    scale = scales.view(np.float32).astype(np.float64)[:, None]
    np.testing.assert_allclose(scale[:, 0], np.abs(x).max(1) / 448, rtol=1e-6)
    assert np.all(np.abs(values("e4m3", codes) * scale - x) <= np.maximum(np.abs(x) / 15, scale * 2**-9))


def test_select_odd() -> None:
    case = CASES["sm_100a: cuda: rows.cu, select_odd"]
    x = case.inputs[0].data
    found, histogram = replay(case)[0]
    for row, given in zip(found, x, strict=True):
        odd = given[given % 2 == 1]
        assert np.array_equal(row, np.pad(odd, (0, len(row) - len(odd))))
    assert np.array_equal(histogram, np.bincount(x.ravel() >> 28, minlength=16))
