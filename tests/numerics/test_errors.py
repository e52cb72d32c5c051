"""What wrong arguments are told."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ptxlab import numerics

GOOD: dict[str, Any] = {
    "arch": "tcgen05",
    "kind": "f16",
    "a": "f16",
    "b": "f16",
    "d": "f32",
    "A": np.zeros((4, 16), np.uint16),
    "B": np.zeros((8, 16), np.uint16),
}
I8: dict[str, Any] = {"kind": "i8", "a": "s8", "b": "u8", "d": "s32", "A": np.zeros((4, 32), np.uint8), "B": np.zeros((8, 32), np.uint8)}
SPARSE: dict[str, Any] = {"B": np.zeros((8, 32), np.uint16)}
U32 = np.zeros((4, 16), np.uint32)
NVF4: dict[str, Any] = {
    "kind": "mxf4nvf4", "a": "e2m1", "b": "e2m1", "scale": "ue4m3", "block": 16,
    "A": np.zeros((4, 64), np.uint8), "B": np.zeros((8, 64), np.uint8),
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"arch": "sm_100"},
            "no arch 'sm_100'; there are 'tcgen05', 'wgmma', 'mma.sm_70', 'mma.sm_75', 'mma.sm_80', 'mma.sm_89', 'mma.sm_90', "
            "'mma.sm_100', 'mma.sm_120'",
        ),
        ({"kind": "f32"}, "arch 'tcgen05' has no kind 'f32'; it has 'f16', 'tf32', 'f8f6f4', 'i8', 'mxf8f6f4', 'mxf4', 'mxf4nvf4'"),
        (
            {"a": "e4m3"},
            "kind 'f16' does not multiply a='e4m3' by b='f16' into d='f32'; "
            "it offers d='f32' with a and b of 'f16', 'bf16'; d='f16' with a and b of 'f16'",
        ),
        ({"A": np.zeros((4, 15), np.uint16)}, "A: expected [..., M, 16], got shape [4, 15]"),
        ({"B": np.zeros(16, np.uint16)}, "B: expected [..., N, 16], got shape [16]"),
        (
            {"A": np.zeros((4, 16), np.float32)},
            "A holds f16 codes: expected an unsigned integer dtype such as uint16, or float16; got float32",
        ),
        ({"A": np.zeros((4, 16), np.uint8)}, "A holds f16 codes: expected uint16 or wider, got uint8"),
        ({"A": np.full((4, 16), 65536, np.uint32)}, "A holds f16 codes: expected values below 0x10000, got 0x10000"),
        ({"C": np.zeros((4, 8), np.float16)}, "C holds the bits of f32: expected uint32 or float32, got float16"),
        ({"C": np.zeros((8, 4), np.uint32)}, "C: expected [..., 4, 8], got shape [8, 4]"),
        ({"A": np.zeros((2, 4, 16), np.uint16), "B": np.zeros((3, 8, 16), np.uint16)}, "leading dimensions do not agree: (2,), (3,)"),
        ({"saturate": True}, "saturate belongs to s32 accumulators; this one is f32"),
        ({**I8, "negate_a": True}, "integer operands cannot be negated"),
        ({**I8, "scale_input_d": 1}, "scale_input_d belongs to tcgen05 kinds f16 and tf32"),
        ({"scale_input_d": 16}, "scale_input_d is 0 to 15, got 16"),
        ({"block": 32, "scale": "ue8m0"}, "kind 'f16' is not block-scaled: it takes no scale, block"),
        ({"scale_a": np.zeros((4, 1), np.uint8)}, "kind 'f16' is not block-scaled: it takes no scale_a"),
        ({**SPARSE, "metadata": np.full((4, 8), 4)}, "metadata: expected unsigned [..., 4, 8], got int64 [4, 8]"),
        ({**SPARSE, "metadata": np.full((4, 16), 4, np.uint8)}, "metadata: expected unsigned [..., 4, 8], got uint8 [4, 16]"),
        (
            {**SPARSE, "metadata": np.full((4, 8), 5, np.uint8)},
            "metadata of f16: expected codes 0x4, 0x6, 0x8, 0x9, 0xc, 0xd, 0xe, got 0x5",
        ),
        ({"metadata": np.full((4, 8), 4, np.uint8)}, "B: expected [..., N, 32], got shape [8, 16]"),
        (
            {"kind": "tf32", "a": "tf32", "b": "tf32", "A": U32[:, :8], "B": U32[:, :16], "metadata": np.full((4, 8), 8, np.uint8)},
            "metadata of tf32: expected codes 0x4, 0xe, got 0x8",
        ),
        (
            {"arch": "mma.sm_75", "kind": None, "metadata": np.full((4, 8), 4, np.uint8)},
            "arch 'mma.sm_75': sparse products are not offered; expected metadata=None",
        ),
        ({"arch": "mma.sm_80", "kind": "f16"}, "arch 'mma.sm_80' has no kind 'f16'; it has None"),
        ({"arch": "mma.sm_80", "kind": None, "A": np.zeros((4, 12), np.uint16)}, "A: expected [..., M, 8 or 16], got shape [4, 12]"),
        (NVF4, "scale_a: expected uint8 or float8_e4m3fn [..., 4, 4], got None"),
        ({**NVF4, "scale_a": np.zeros((4, 2), np.uint8)}, "scale_a: expected uint8 or float8_e4m3fn [..., 4, 4], got uint8 [4, 2]"),
        ({**NVF4, "scale_a": np.zeros((4, 4), np.int8)}, "scale_a: expected uint8 or float8_e4m3fn [..., 4, 4], got int8 [4, 4]"),
        (
            {**NVF4, "scale_a": np.zeros((4, 4), np.uint8), "scale_b": np.zeros((4, 4), np.uint8)},
            "scale_b: expected uint8 or float8_e4m3fn [..., 8, 4], got uint8 [4, 4]",
        ),
        (
            {**NVF4, "block": 32},
            "kind 'mxf4nvf4' is block-scaled: expected scale='ue8m0' with block=32, scale='ue8m0' with block=16, "
            "scale='ue4m3' with block=16; got scale='ue4m3', block=32",
        ),
        (
            {**NVF4, "scale": "ue8m0", "block": None},
            "kind 'mxf4nvf4' is block-scaled: expected scale='ue8m0' with block=32, scale='ue8m0' with block=16, "
            "scale='ue4m3' with block=16; got scale='ue8m0', block=None",
        ),
        ({**NVF4, "A": np.zeros((4, 80), np.uint8)}, "A: expected [..., M, 64 or 96], got shape [4, 80]"),
        (
            {**NVF4, "A": np.zeros((4, 96), np.uint8), "metadata": np.full((4, 24), 4, np.uint8)},
            "A: expected [..., M, 64], got shape [4, 96]",
        ),
        ({**NVF4, "scale_input_d": 2}, "scale_input_d belongs to tcgen05 kinds f16 and tf32"),
    ],
)
@pytest.mark.parametrize("mma", [numerics.mma, numerics.reference.mma], ids=["fast", "reference"])
def test_wrong_argument(mma: Any, change: dict[str, Any], text: str) -> None:
    with pytest.raises(numerics.NumericsError, match=rf"^error\[N101\]: {re.escape(text)}(\n|$)"):
        mma(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("codes", "fmt", "role", "kind", "text"),
    [
        (np.zeros((4, 16), np.uint16), "f16", "c", "f16", "role 'c': expected 'a' or 'b'"),
        (
            np.zeros((4, 16), np.uint16),
            "f16",
            "a",
            "f99",
            "no kind 'f99'; there are 'f16', 'tf32', 'f8f6f4', 'i8', 'mxf8f6f4', 'mxf4', 'mxf4nvf4', None",
        ),
        (np.zeros((4, 16), np.uint16), "s8", "a", "f16", "kind 'f16' has no type 's8' for A; it has 'f16', 'bf16'"),
        (np.zeros((4, 16), np.uint8), "f16", "b", "f16", "B holds f16 codes: expected uint16 or a wider unsigned dtype, got uint8"),
        (np.zeros(16, np.uint16), "f16", "b", "f16", "B: expected [rows, k], got shape (16,)"),
    ],
)
def test_wrong_operand(codes: Any, fmt: str, role: Any, kind: str, text: str) -> None:
    with pytest.raises(numerics.NumericsError, match=rf"^error\[N101\]: {re.escape(text)}(\n|$)"):
        numerics.prepare(codes, fmt, role=role, kind=kind)


def test_integers_are_not_negated() -> None:
    with pytest.raises(numerics.NumericsError, match=r"^error\[N101\]: s8 operands cannot be negated$"):
        numerics.prepare(np.zeros((4, 32), np.uint8), "s8", role="a", kind="i8", negate=True)


def test_wrong_accumulator() -> None:
    a = numerics.prepare(np.zeros((64, 16), np.uint16), "f16", role="a", kind="f16")
    b = numerics.prepare(np.zeros((8, 16), np.uint16), "f16", role="b", kind="f16")
    expected = r"^error\[N101\]: acc: expected uint32 \[8, 64\], contiguous along M, got uint32 \[64, 8\] with strides \(32, 4\)$"
    with pytest.raises(numerics.NumericsError, match=expected):
        numerics.mma_prepared("f16", "f32", a, b, np.zeros((64, 8), np.uint32), accumulate=True)
    with pytest.raises(
        numerics.NumericsError, match=r"^error\[N101\]: expected operands prepared for the roles 'a' and 'b', got 'b' and 'a'$"
    ):
        numerics.mma_prepared("f16", "f32", b, a, np.zeros((8, 64), np.uint32), accumulate=True)
    short = numerics.prepare(np.zeros((8, 12), np.uint16), "f16", role="b", kind="f16")
    with pytest.raises(numerics.NumericsError, match=r"^error\[N101\]: one step of f16 x f16 takes k = 16; A has 16, B has 12$"):
        numerics.mma_prepared("f16", "f32", a, short, np.zeros((8, 64), np.uint32), accumulate=True)


def fp4(role: Any, rows: int = 8, **options: Any) -> numerics.Prepared:
    given = {"scales": np.zeros((rows, 4), np.uint8), "scale": "ue4m3", "block": 16} | options
    return numerics.prepare(np.zeros((rows, 64), np.uint8), "e2m1", role=role, kind="mxf4nvf4", **given)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"scale": "ue4m3", "block": 32},
            "kind 'mxf4nvf4' takes (scale, block) of ('ue8m0', 32), ('ue8m0', 16), ('ue4m3', 16); got ('ue4m3', 32)",
        ),
        ({"scales": None}, "kind 'mxf4nvf4' is block-scaled: expected scales for A, uint8 [8, 4]"),
        ({"scales": np.zeros((8, 2), np.uint8)}, "scales of A: expected uint8 [8, 4], got uint8 [8, 2]"),
        ({"metadata": np.full((8, 8), 4, np.uint8)}, "metadata: expected [8, 16], one code for 4 stored elements, got [8, 8]"),
        ({"metadata": np.full((8, 16), 3, np.uint8)}, "metadata of e2m1: expected codes 0x4, 0x6, 0x8, 0x9, 0xc, 0xd, 0xe, got 0x3"),
        ({"metadata": np.full((8, 16), 4, np.int8)}, "metadata: expected uint8, got int8"),
    ],
)
def test_wrong_scales_of_an_operand(options: dict[str, Any], text: str) -> None:
    with pytest.raises(numerics.NumericsError, match=rf"^error\[N101\]: {re.escape(text)}(\n|$)"):
        fp4("a", **options)


def test_operands_that_do_not_belong_together() -> None:
    cells = np.zeros((8, 8), np.uint32)
    other = fp4("b", scales=np.zeros((8, 2), np.uint8), scale="ue8m0", block=32)
    with pytest.raises(
        numerics.NumericsError, match=r"^error\[N101\]: operands are scaled differently: A by \('ue4m3', 16\), B by \('ue8m0', 32\)$"
    ):
        numerics.mma_prepared("mxf4nvf4", "f32", fp4("a"), other, cells, accumulate=False)
    codes = np.zeros((8, 16), np.uint16)
    with pytest.raises(
        numerics.NumericsError, match=r"^error\[N101\]: kind 'f16' is not block-scaled: expected scales=None, scale=None, block=None$"
    ):
        numerics.prepare(codes, "f16", role="a", kind="f16", block=16)
    sparse = numerics.prepare(codes[:, :8], "f16", role="a", kind=None, metadata=np.full((8, 4), 4, np.uint8))
    dense = numerics.prepare(codes, "f16", role="b", kind=None)
    with pytest.raises(numerics.NumericsError, match=r"^error\[N101\]: arch 'mma.sm_75' has no sparse products$"):
        numerics.mma_prepared(None, "f32", sparse, dense, cells, arch="mma.sm_75", accumulate=False)
    long = numerics.prepare(codes, "f16", role="a", kind=None)
    with pytest.raises(numerics.NumericsError, match=r"^error\[N101\]: one step of f16 x f16 takes k = 8; A has 16, B has 16$"):
        numerics.mma_prepared(None, "f32", long, dense, cells, arch="mma.sm_80", accumulate=False)
