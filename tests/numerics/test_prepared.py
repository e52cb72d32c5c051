"""The interface on prepared operands: in place, strided, any number of rows."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab import numerics

from .wild_value_helpers import Form, case

F16 = Form("tcgen05", "f16", "f16", "f16", "f32")


def prepared(one: Any) -> Any:
    f = one.form
    return (
        numerics.prepare(one.A, f.a, role="a", kind=f.kind),
        numerics.prepare(one.B, f.b, role="b", kind=f.kind),
    )


@pytest.mark.parametrize("m", [16, 32, 64, 100, 128])
@pytest.mark.parametrize("n", [1, 8, 40])
def test_in_place_inside_tensor_memory(m: int, n: int) -> None:
    one = case(np.random.default_rng(m * n), F16, m, n)
    one.options.clear()
    memory = np.random.default_rng(0).integers(0, 2**32, (512, 128), dtype=np.uint32)
    before = memory.copy()
    cells = memory[100 : 100 + n, 128 - m :]
    if one.C is not None:
        cells[...] = one.C.T
    numerics.mma_prepared("f16", "f32", *prepared(one), cells, accumulate=one.C is not None)
    assert np.array_equal(cells, one.run(numerics.reference.mma).T)
    memory[100 : 100 + n, 128 - m :] = before[100 : 100 + n, 128 - m :]
    assert np.array_equal(memory, before)


def test_f16_results_clear_the_upper_half() -> None:
    form = Form("tcgen05", "f16", "f16", "f16", "f16")
    one = case(np.random.default_rng(5), form, 128, 16)
    one.options.clear()
    one.C = np.random.default_rng(6).integers(0, 65536, (128, 16)).astype(np.uint16)
    cells = np.ascontiguousarray(one.C.T).astype(np.uint32) | np.uint32(0xABCD0000)
    numerics.mma_prepared("f16", "f16", *prepared(one), cells, accumulate=True)
    assert np.array_equal(cells, one.run(numerics.reference.mma).T)


@pytest.mark.parametrize("fmt", ["f16", "e4m3", "tf32", "s8"])
def test_codes_with_any_strides(fmt: str) -> None:
    kind = {"f16": "f16", "e4m3": "f8f6f4", "tf32": "tf32", "s8": "i8"}[fmt]
    d, k = ("s32" if fmt == "s8" else "f32"), {"f16": 16, "tf32": 8}.get(fmt, 32)
    rng = np.random.default_rng(2)
    dtype: Any = {"f16": np.uint16, "tf32": np.uint32}.get(fmt, np.uint8)
    A, B = (rng.integers(0, 120, (rows, k)).astype(dtype) for rows in (64, 24))
    expected = numerics.mma(arch="tcgen05", kind=kind, a=fmt, b=fmt, d=d, A=A, B=B)
    for view in (
        lambda x: x,
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 3, axis=1)[:, ::3],
        lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    ):
        cells = np.empty((24, 64), np.uint32)
        a = numerics.prepare(view(A), fmt, role="a", kind=kind)
        b = numerics.prepare(view(B).astype(np.uint32), fmt, role="b", kind=kind)
        numerics.mma_prepared(kind, d, a, b, cells, accumulate=False)
        assert np.array_equal(cells.T, expected)


def test_bits_above_the_type_are_ignored() -> None:
    codes = np.arange(256, dtype=np.uint8).reshape(8, 32)
    one = np.full((8, 32), 0x38, np.uint8)
    for fmt, mask in (("e2m1", 15), ("e3m2", 63), ("e2m3", 63)):
        cells = [np.empty((8, 8), np.uint32) for _ in range(2)]
        for out, given in zip(cells, (codes, codes & mask), strict=True):
            a = numerics.prepare(given, fmt, role="a", kind="f8f6f4")
            numerics.mma_prepared("f8f6f4", "f32", a, numerics.prepare(one, "e4m3", role="b", kind="f8f6f4"), out, accumulate=False)
        assert np.array_equal(*cells)


@pytest.mark.parametrize("role", ["a", "b"])
def test_negated_when_prepared(role: Any) -> None:
    one = case(np.random.default_rng(8), F16, 64, 8)
    one.options = {f"negate_{role}": True}
    cells = np.zeros((8, 64), np.uint32) if one.C is None else np.ascontiguousarray(one.C.T)
    operands = {r: numerics.prepare(x, "f16", role=r, kind="f16", negate=r == role) for r, x in (("a", one.A), ("b", one.B))}  # type: ignore[arg-type]
    numerics.mma_prepared("f16", "f32", operands["a"], operands["b"], cells, accumulate=one.C is not None)
    assert np.array_equal(cells.T, one.run(numerics.reference.mma))


def test_batches_broadcast() -> None:
    rng = np.random.default_rng(4)
    A = rng.integers(0, 0x7C00, (3, 1, 5, 16)).astype(np.uint16)
    B = rng.integers(0, 0x7C00, (2, 7, 16)).astype(np.uint16)
    C = rng.integers(0, 0x7F800000, (5, 7)).astype(np.uint32)
    D = numerics.mma(arch="wgmma", kind=None, a="f16", b="f16", d="f32", A=A, B=B, C=C)
    assert D.shape == (3, 2, 5, 7)
    for i in range(3):
        for j in range(2):
            assert np.array_equal(
                D[i, j], numerics.reference.mma(arch="wgmma", kind=None, a="f16", b="f16", d="f32", A=A[i, 0], B=B[j], C=C)
            )


@pytest.mark.parametrize("a", ["s8", "u8"])
@pytest.mark.parametrize("b", ["s8", "u8"])
@pytest.mark.parametrize("saturate", [False, True])
def test_integers(a: str, b: str, saturate: bool) -> None:
    rng = np.random.default_rng(9)
    A, B = (rng.choice([0, 1, 127, 128, 129, 255, 77], (rows, 32)).astype(np.uint8) for rows in (65, 33))
    edges = np.array([0, 1, 2**31 - 1, 2**31, 2**31 + 70000, 2**31 - 70000, 2**32 - 1], np.uint32)
    C = rng.choice(edges, (65, 33))
    exact = C.view(np.int32).astype(np.int64)
    exact = (
        exact + A.view(np.int8 if a == "s8" else np.uint8).astype(np.int64) @ B.view(np.int8 if b == "s8" else np.uint8).astype(np.int64).T
    )
    if saturate:
        exact = exact.clip(-(2**31), 2**31 - 1)
    for arch, kind in (("tcgen05", "i8"), ("wgmma", None), ("mma.sm_80", None), ("mma.sm_120", None)):
        D = numerics.mma(arch=arch, kind=kind, a=a, b=b, d="s32", A=A, B=B, C=C, saturate=saturate)
        assert np.array_equal(D, exact.astype(np.uint32))


@pytest.mark.parametrize("saturate", [False, True])
def test_sparse_integers(saturate: bool) -> None:
    rng = np.random.default_rng(10)
    A, B = rng.integers(0, 256, (65, 32), dtype=np.uint8), rng.integers(0, 256, (33, 64), dtype=np.uint8)
    metadata = rng.choice([4, 6, 8, 9, 12, 13, 14], (65, 16)).astype(np.uint8)
    C = rng.choice([2**31 - 70000, 2**31 + 70000, 5], (65, 33)).astype(np.uint32)
    positions = 4 * np.arange(16)[:, None] + np.stack([metadata & 3, metadata >> 2], axis=-1)
    selected = B[:, positions.reshape(65, 32)].astype(np.int64)
    exact = C.view(np.int32) + np.einsum("mk,nmk->mn", A.view(np.int8).astype(np.int64), selected)
    if saturate:
        exact = exact.clip(-(2**31), 2**31 - 1)
    types: dict[str, Any] = {"arch": "tcgen05", "kind": "i8", "a": "s8", "b": "u8", "d": "s32", "saturate": saturate}
    assert np.array_equal(numerics.mma(**types, A=A, B=B, C=C, metadata=metadata), exact.astype(np.uint32))
    small: dict[str, Any] = {**types, "A": A[:4], "B": B[:4], "C": C[:4, :4], "metadata": metadata[:4]}
    assert np.array_equal(numerics.reference.mma(**small), exact[:4, :4].astype(np.uint32))


def test_batches_of_scales_and_metadata() -> None:
    rng = np.random.default_rng(12)
    A, B = rng.integers(0, 16, (3, 1, 5, 64), dtype=np.uint8), rng.integers(0, 16, (7, 128), dtype=np.uint8)
    metadata = rng.choice([4, 6, 8, 9, 12, 13, 14], (2, 5, 16)).astype(np.uint8)
    scale_a, scale_b = rng.integers(48, 72, (3, 2, 5, 4), dtype=np.uint8), rng.integers(48, 72, (7, 4), dtype=np.uint8)
    types: dict[str, Any] = {"arch": "tcgen05", "kind": "mxf4nvf4", "a": "e2m1", "b": "e2m1", "d": "f32", "scale": "ue4m3", "block": 16}
    D = numerics.mma(**types, A=A, B=B, scale_a=scale_a, scale_b=scale_b, metadata=metadata)
    assert D.shape == (3, 2, 5, 7)
    for i, j in np.ndindex(3, 2):
        one = numerics.reference.mma(**types, A=A[i, 0], B=B, scale_a=scale_a[i, j], scale_b=scale_b, metadata=metadata[j])
        assert np.array_equal(D[i, j], one)


def test_scales_that_can_mean_one_thing_may_be_left_unnamed() -> None:
    codes, scales = np.full((2, 32), 0x38, np.uint8), np.full((2, 1), 128, np.uint8)
    types: dict[str, Any] = {"arch": "tcgen05", "kind": "mxf8f6f4", "a": "e4m3", "b": "e4m3", "d": "f32", "A": codes, "B": codes}
    assert (numerics.mma(**types, scale_a=scales, scale_b=scales).view(np.float32) == 128).all()


def test_import_is_light() -> None:
    code = "import sys, ptxlab.numerics; print(sorted({'llvmlite', 'ml_dtypes', 'numba'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_warmup_compiles_everything() -> None:
    parts = numerics.warmup_parts()
    assert len(dict(parts)) == len(parts)
    for _, compile_part in parts:
        compile_part()


def test_a_part_of_the_warm_up_for_each_function() -> None:
    """Steps of f16 and of narrow floats have equal windows, and functions of their own."""
    names = {name for name, _ in numerics.warmup_parts()}
    assert {"products to f32, window 25, floor -133", "products to f32, window 25, floor -133, integers"} <= names


def test_calls_in_several_threads_share_no_operands() -> None:
    """Memory of operands is used again: each call has its own until it has its result."""
    rng = np.random.default_rng(3)
    given = [[rng.integers(0, 0x4000, (rows, 16), np.uint16) for rows in (64, 128)] for _ in range(16)]

    def call(operands: list[NDArray[np.uint16]]) -> NDArray[Any]:
        a, b = operands
        return numerics.mma(arch="tcgen05", kind="f16", a="f16", b="f16", d="f32", A=a, B=b)

    expected = [call(operands).copy() for operands in given]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(call, given * 20))
    assert all(np.array_equal(d, expected[number % 16]) for number, d in enumerate(found))
