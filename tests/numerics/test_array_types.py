"""Operands as arrays of NumPy, ml_dtypes and torch: the products are those of their values, and other types are refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ptxlab import numerics
from ptxlab.formats import FormatError, bits_of, pack, unpack

TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "s8": np.int8,
    "u8": np.uint8,
}
VALUES = np.array([-3, -2, -1.5, -1, 0, 1, 1.5, 2, 3])
"""Exact in every floating-point type; so are the sums of their products."""


def operand(name: str, rows: int, k: int, seed: int) -> Any:
    values = np.random.default_rng(seed).choice(VALUES, (rows, k))
    return (np.trunc(np.abs(values) if name == "u8" else values) if name in ("s8", "u8") else values).astype(TYPES[name])


def exact(a: Any, b: Any) -> Any:
    return a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("mma", [numerics.mma, numerics.reference.mma], ids=["fast", "reference"])
@pytest.mark.parametrize(
    ("kind", "a", "b", "d", "k"),
    [
        ("f16", "f16", "f16", "f32", 16),
        ("f16", "f16", "f16", "f16", 16),
        ("f16", "bf16", "f16", "f32", 16),
        ("tf32", "tf32", "tf32", "f32", 8),
        ("f8f6f4", "e4m3", "e5m2", "f32", 32),
        ("f8f6f4", "e2m3", "e3m2", "f32", 32),
        ("f8f6f4", "e2m1", "e4m3", "f32", 32),
        ("i8", "s8", "u8", "s32", 32),
    ],
)
def test_products(mma: Any, kind: str, a: str, b: str, d: str, k: int) -> None:
    x, y = operand(a, 8, k, 1), operand(b, 16, k, 2)
    of_d = np.dtype({"f16": np.float16, "f32": np.float32, "s32": np.int32}[d])
    c = np.arange(128).reshape(8, 16).astype(of_d)
    found = mma(arch="tcgen05", kind=kind, a=a, b=b, d=d, A=x, B=y, C=c)
    assert np.array_equal(found.view(of_d), exact(x, y) + c)


@pytest.mark.parametrize("mma", [numerics.mma, numerics.reference.mma], ids=["fast", "reference"])
@pytest.mark.parametrize(
    ("kind", "a", "scale", "block", "k"),
    [
        ("mxf8f6f4", "e4m3", "ue8m0", 32, 32),
        ("mxf4", "e2m1", "ue8m0", 32, 64),
        ("mxf4nvf4", "e2m1", "ue8m0", 16, 64),
        ("mxf4nvf4", "e2m1", "ue4m3", 16, 64),
        ("mxf4nvf4", "e2m1", "ue4m3", 16, 96),
    ],
)
def test_scaled_products(mma: Any, kind: str, a: str, scale: str, block: int, k: int) -> None:
    x, y = operand(a, 8, k, 3), operand(a, 16, k, 4)
    of_scale = {"ue8m0": ml_dtypes.float8_e8m0fnu, "ue4m3": ml_dtypes.float8_e4m3fn}[scale]
    scales = [np.random.default_rng(i).choice([0.5, 1, 2, 4], (rows, k // block)).astype(of_scale) for i, rows in ((5, 8), (6, 16))]
    found = mma(
        arch="tcgen05", kind=kind, a=a, b=a, d="f32", A=x, B=y, scale_a=scales[0], scale_b=scales[1], scale=scale, block=block
    )  # fmt: skip
    wide = [v.astype(np.float64) * np.repeat(s.astype(np.float64), block, axis=1) for v, s in zip((x, y), scales, strict=True)]
    assert np.array_equal(found.view(np.float32), wide[0] @ wide[1].T)


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    x, y = operand("e4m3", 8, 32, 1), operand("e4m3", 16, 32, 2)
    tensors = [torch.from_numpy(v.view(np.uint8)).view(torch.float8_e4m3fn) for v in (x, y)]
    found = numerics.mma(arch="tcgen05", kind="f8f6f4", a="e4m3", b="e4m3", d="f32", A=tensors[0], B=tensors[1])
    assert np.array_equal(found.view(np.float32), exact(x, y))


@pytest.mark.parametrize(("of_array", "name"), [("f16", "bf16"), ("bf16", "f16"), ("e4m3", "e5m2"), ("s8", "e4m3")])
def test_another_type_is_refused(of_array: str, name: str) -> None:
    kind, k = ("f16", 16) if "f16" in name else ("f8f6f4", 32)
    x = operand(of_array, 8, k, 1)
    with pytest.raises(numerics.NumericsError) as caught:
        numerics.mma(arch="tcgen05", kind=kind, a=name, b=name, d="f32", A=x, B=x)
    wanted, words = np.dtype(TYPES[name]), f"uint{8 * x.itemsize}"
    assert caught.value.diagnostic.message == (
        f"A holds {name} codes: expected an unsigned integer dtype such as {words}, or {wanted}; got {x.dtype}"
    )
    assert caught.value.diagnostic.fix == f"pass the bit patterns: A.view(np.{words})"


def test_packing() -> None:
    x = operand("e2m1", 4, 64, 7)
    packed = pack(x, "e2m1")
    assert packed.shape == (4, 32)
    assert np.array_equal(unpack(packed, "e2m1").astype(np.uint8).view(x.dtype).astype(float), x.astype(float))
    assert np.array_equal(bits_of(x, "e2m1"), x.view(np.uint8))
    with pytest.raises(FormatError, match="e2m1 codes are unsigned integers below 2\\^4; got float16"):
        pack(x.astype(np.float16), "e2m1")
