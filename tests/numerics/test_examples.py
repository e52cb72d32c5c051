"""Worked examples, published for Hopper and Blackwell silicon and its models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxlab import numerics
from ptxlab.formats import FORMATS

HOPPER = """
f16 f16 f32 | 3C01 4400 0001 | 3C01 BC00 3C00 | 4B800000 | 4B7FFFFD
f16 f16 f32 | 3C01 | BC01 | C0000000 | C0402004
f16 f16 f32 | 0200 0200 0200 0200 | 1000 1000 1000 1000 | 3F800000 | 3F800000
f16 f16 f32 | 0200 0200 0200 0200 | 1400 1400 1400 1400 | 3F800000 | 3F800001
f16 f16 f16 | 3C01 0001 | 3C01 3C00 | 4000 | 4201
f16 f16 f16 | 5C00 | 5C00 | 0000 | 7C00
f16 f16 f16 | 0400 0001 | 1000 0002 | 0000 | 0000
f16 f16 f16 | 0400 0001 | 1000 0004 | 0000 | 0001
bf16 bf16 f32 | 3F81 BF80 | 3F81 3F80 | 34000000 | 3C808040
bf16 bf16 f32 | 1A00 9780 | 1A80 1800 | 00000000 | 00000001
bf16 bf16 f32 | 1A00 9780 | 1A80 1880 | 00000000 | 00000000
bf16 bf16 f32 | 7F00 FF00 | 4080 4080 | 3F800000 | 00000000
tf32 tf32 f32 | 3F801FFF | 3F803FFF | 3F800000 | 40001000
tf32 tf32 f32 | 7F800001 | 3F800000 | 00000000 | 7F800000
e4m3 e4m3 f32 | 7E 09 | 38 38 | 3F800001 | 43E08000
e4m3 e4m3 f32 | 00 | 00 | 3F8007FF | 3F800400
e5m2 e5m2 f32 | 3D 01 | 3D 3C | 40490FDB | 40968400
e5m2 e5m2 f32 | 7C | 80 | 00000000 | 7FFFFFFF
e4m3 e4m3 f16 | 39 01 | 39 08 | 4248 | 4468
e4m3 e5m2 f16 | 7E | 7B | 0000 | 7C00
"""
BLACKWELL = """
tf32 tf32 f32 | 3F801FFF C0490FDB | 3F803FFF 40490FDB | 3F800000 | C0FB9A00
f16 f16 f32 | 3C01 4400 0001 | 3C01 BC00 3C00 | 4B800000 | 4B7FFFFD
bf16 bf16 f32 | 3F81 BF80 | 3F81 3F80 | 34000000 | 3C808040
f16 f16 f16 | 3C01 0001 | 3C01 3C00 | 4000 | 4201
e4m3 e4m3 f32 | 7E 09 | 38 38 | 3F800001 | 43E08240
e5m2 e5m2 f32 | 3D 01 | 3D 3C | 40490FDB | 4096880D
e3m2 e2m3 f32 | 1F 01 21 | 1F 01 1F | 3DCCCCCD | 4351A399
e2m1 e4m3 f32 | 07 01 09 | 7E 01 38 | 3DCCCCCD | 4527F99D
e4m3 e5m2 f16 | 39 01 | 3D 01 | 4248 | 448C
"""
SPECIAL = """
f16 f16 f32 | 7E01 | 3C00 | 00000000 | 7FFFFFFF
f16 f16 f32 | 7C00 | 0000 | 00000000 | 7FFFFFFF
f16 f16 f32 | 7C00 | 3C00 | C0000000 | 7F800000
f16 f16 f32 | 7C00 FC00 | 3C00 3C00 | 00000000 | 7FFFFFFF
f16 f16 f32 | 3C00 | 3C00 | FF800000 | FF800000
f16 f16 f32 | 0000 | 0000 | 7F800001 | 7FFFFFFF
f16 f16 f32 | 8000 | 3C00 | 80000000 | 00000000
f16 f16 f32 | 3C00 | 3C00 | BF800000 | 00000000
f16 f16 f32 | 0000 | 0000 | 80000000 | 00000000
f16 f16 f32 | 7BFF | 7BFF | 7F7FFFFF | 7F7FFFFF
f16 f16 f32 | 0000 | 0000 | 00000001 | 00000001
"""
INTEGER = """
s8 s8 s32 | 01 | 01 | 7FFFFFFF | 80000000
s8 s8 s32 | 80 | 80 | 00000000 | 00004000
u8 s8 s32 | 80 | 80 | 00000000 | FFFFC000
u8 u8 s32 | FF FF | FF FF | 00000001 | 0001FC03
"""
SATURATED = """
s8 s8 s32 | 01 | 01 | 7FFFFFFF | 7FFFFFFF
s8 u8 s32 | FF | 01 | 80000000 | 80000000
s8 u8 s32 | FF 7F | 01 01 | 80000000 | 8000007E
"""
SCALED = """
mxf8f6f4 ue8m0 32 e4m3 e4m3 | 7E 09 81 | 38 38 39 | 3F800001 | 82 | 7C | 43E081F8
mxf8f6f4 ue8m0 32 e4m3 e4m3 | 38 | 38 | 00000000 | FE | 80 | 7F800000
mxf8f6f4 ue8m0 32 e5m2 e2m1 | 3C 3D | 02 03 | 00000000 | 00 | 70 | 00000170
mxf8f6f4 ue8m0 32 e4m3 e4m3 | 00 | 00 | 3F800000 | FF | 7F | 7FFFFFFF
mxf4 ue8m0 32 e2m1 e2m1 | 07 01 0A 0F | 07 03 05 01 | 3DCCCCCD | 80 7F | 7F 7F | 42766666
mxf4nvf4 ue8m0 32 e2m1 e2m1 | 07 01 0A 0F | 07 03 05 01 | C9800000 | 78 7F | 78 7F | C97FFFFF
mxf4nvf4 ue8m0 16 e2m1 e2m1 | {a} 02 | {b} 02 | C1F60000 | 7F 5E 7F 7F | 7F 81 7F 7F | 30000000
mxf4nvf4 ue4m3 16 e2m1 e2m1 | {a} 02 | {b} 03 | 3DCCCCCD | 3D 01 38 38 | BB 7E 38 38 | 428C3D33
mxf4nvf4 ue4m3 16 e2m1 e2m1 | 00 | 00 | 3F800000 | 38 FF 38 38 | 38 38 38 38 | 7FFFFFFF
""".format(a="07 01 0A 0F" + 12 * " 00", b="07 03 05 01" + 12 * " 00")
KIND = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "s8": "i8", "u8": "i8"}


def rows(table: str, arch: str, **options: Any) -> list[Any]:
    return [pytest.param(arch, line, options, id=f"{arch} {line}") for line in table.strip().splitlines()]


@pytest.mark.parametrize("mma", [numerics.mma, numerics.reference.mma], ids=["fast", "reference"])
@pytest.mark.parametrize("special", [0x7F80, 0x7FC0, 0xFF80])
def test_elements_that_a_sparse_matrix_skips_do_not_matter(mma: Any, special: int) -> None:
    A = np.full((2, 16), 0x3F80, np.uint16)
    B = np.full((3, 32), 0x4000, np.uint16)
    B[:, 2::4] = B[:, 3::4] = special
    metadata = np.full((2, 8), 0x4, np.uint8)
    metadata[1, 5] = 0x8
    D = mma(arch="tcgen05", kind="f16", a="bf16", b="bf16", d="f32", A=A, B=B, metadata=metadata)
    met = {0x7F80: 0x7F800000, 0x7FC0: 0x7FFFFFFF, 0xFF80: 0xFF800000}[special]
    assert D.tolist() == [3 * [0x42000000], 3 * [met]]


@pytest.mark.parametrize("mma", [numerics.mma, numerics.reference.mma], ids=["fast", "reference"])
@pytest.mark.parametrize(
    ("arch", "line", "options"),
    [
        *rows(HOPPER, "wgmma"),
        *rows(BLACKWELL, "tcgen05"),
        *(row for arch in ("wgmma", "tcgen05") for row in rows(SPECIAL, arch)),
        *(row for arch in ("wgmma", "tcgen05") for row in rows(INTEGER, arch)),
        *(row for arch in ("wgmma", "tcgen05") for row in rows(SATURATED, arch, saturate=True)),
    ],
)
def test_example(mma: Any, arch: str, line: str, options: dict[str, Any]) -> None:
    types, *words = line.split(" | ")
    a, b, d = types.split()
    kind = KIND.get(a, "f8f6f4") if arch == "tcgen05" else None
    k = {"f16": 16, "bf16": 16, "tf32": 8}.get(a, 32)
    A, B = (np.zeros((1, k), FORMATS[fmt].dtype) for fmt in (a, b))
    for operand, text in zip((A, B), words, strict=False):
        codes = [int(word, 16) for word in text.split()]
        operand[0, : len(codes)] = codes
    C = np.array([[int(words[2], 16)]], np.uint16 if d == "f16" else np.uint32)
    D = mma(arch=arch, kind=kind, a=a, b=b, d=d, A=A, B=B, C=C, **options)
    assert f"{D[0, 0]:0{len(words[3])}X}" == words[3]


@pytest.mark.parametrize("mma", [numerics.mma, numerics.reference.mma], ids=["fast", "reference"])
@pytest.mark.parametrize("line", SCALED.strip().splitlines())
@pytest.mark.parametrize("arch", ["tcgen05", "mma.sm_120"])
def test_block_scaled_example(mma: Any, arch: str, line: str) -> None:
    types, *words = line.split(" | ")
    kind, scale, block, a, b = types.split()
    k = 32 if kind == "mxf8f6f4" else 64
    A, B = np.zeros((1, k), np.uint8), np.zeros((1, k), np.uint8)
    for operand, text in zip((A, B), words, strict=False):
        codes = [int(word, 16) for word in text.split()]
        operand[0, : len(codes)] = codes
    scale_a, scale_b = (np.array([[int(word, 16) for word in text.split()]], np.uint8) for text in words[3:5])
    C = np.array([[int(words[2], 16)]], np.uint32)
    scaling: dict[str, Any] = {"scale": scale, "block": int(block), "scale_a": scale_a, "scale_b": scale_b}
    D = mma(arch=arch, kind=kind, a=a, b=b, d="f32", A=A, B=B, C=C, **scaling)
    assert f"{D[0, 0]:08X}" == words[5]


def test_scaled_input_is_not_rounded() -> None:
    """C = 2^-149 times 2^-1 takes part with its own exponent, below f32's range."""
    A = np.zeros((1, 8), np.uint32)
    B = A.copy()
    options: dict[str, Any] = {"arch": "tcgen05", "kind": "tf32", "a": "tf32", "b": "tf32", "d": "f32", "scale_input_d": 1}
    for bits, expected in ((0x00000001, 0), (0x00000003, 1), (0x80000003, 0x80000001), (0x40000000, 0x3F800000)):
        C = np.array([[bits]], np.uint32)
        assert numerics.mma(A=A, B=B, C=C, **options)[0, 0] == expected
        assert numerics.reference.mma(A=A, B=B, C=C, **options)[0, 0] == expected
