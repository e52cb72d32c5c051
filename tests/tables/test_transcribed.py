"""The tables of the specification, written down once more, against what is accepted and refused.

The rules read the tables of `ptxlab.tables`; here stand the cells of the document itself, so that a wrong cell there shows.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from ptxlab.descriptors import DescriptorError, InstructionDescriptor, SharedMemoryDescriptor
from ptxlab.tables import SHAPES

TABLE_39 = """
f16      -   1 dense  | 64 128     | 8:256:8    | 16
f16      -   1 sparse | 64 128     | 8:256:8    | 32
f16      -   2 dense  | 128 256    | 16:256:16  | 16
f16      -   2 sparse | 128 256    | 16:256:16  | 32
f16      .ws 1 dense  | 32 64 128  | 64 128 256 | 16
f16      .ws 1 sparse | 32 64 128  | 64 128     | 32
tf32     -   1 dense  | 64 128     | 8:256:8    | 8
tf32     -   1 sparse | 64 128     | 8:256:8    | 16
tf32     -   2 dense  | 128 256    | 16:256:16  | 8
tf32     -   2 sparse | 128 256    | 16:256:16  | 16
tf32     .ws 1 dense  | 32 64 128  | 64 128 256 | 8
tf32     .ws 1 sparse | 32 64 128  | 64 128     | 16
f8f6f4   -   1 dense  | 64 128     | 8:256:8    | 32
f8f6f4   -   1 sparse | 64 128     | 8:256:8    | 64
f8f6f4   -   2 dense  | 128 256    | 16:256:16  | 32
f8f6f4   -   2 sparse | 128 256    | 16:256:16  | 64
f8f6f4   .ws 1 dense  | 32 64 128  | 64 128 256 | 32
f8f6f4   .ws 1 sparse | 32 64 128  | 64 128     | 64
mxf8f6f4 -   1 dense  | 128        | 8:256:8    | 32
mxf8f6f4 -   1 sparse | 128        | 8:256:8    | 64
mxf8f6f4 -   2 dense  | 128 256    | 16:256:16  | 32
mxf8f6f4 -   2 sparse | 256        | 16:256:16  | 64
i8       -   1 dense  | 64 128     | 8 16 24 32:256:16 | 32
i8       -   1 sparse | 64 128     | 8 16 24 32:256:16 | 64
i8       -   2 dense  | 128 256    | 32:256:32  | 32
i8       -   2 sparse | 128 256    | 32:256:32  | 64
i8       .ws 1 dense  | 32 64 128  | 64 128 256 | 32
i8       .ws 1 sparse | 32 64 128  | 64 128     | 64
mxf4     -   1 dense  | 128        | 8:256:8    | 64
mxf4     -   1 sparse | 128        | 8:256:8    | 128
mxf4     -   2 dense  | 128 256    | 16:256:16  | 64
mxf4     -   2 sparse | 256        | 16:256:16  | 128
mxf4nvf4 -   1 dense  | 128        | 8:256:8    | 64
mxf4nvf4 -   1 sparse | 128        | 8:256:8    | 128
mxf4nvf4 -   2 dense  | 128 256    | 16:256:16  | 64
mxf4nvf4 -   2 sparse | 256        | 16:256:16  | 128
"""
"""Kind, .ws, cta_group, sparsity | M | N | K; a combination without a row is invalid."""

TABLE_39_K1 = {("mxf4", 2, "dense", 256), ("mxf4nvf4", 2, "dense", 256)}
"""Kind, cta_group, sparsity and M of the shapes M x N x K1, K1 = 96."""

NARROW = "e4m3 e5m2 e2m3 e3m2 e2m1"
TABLE_39_TYPES = {
    ("f16", "f16"): "f16",
    ("f16", "f32"): "f16 bf16",
    ("tf32", "f32"): "tf32",
    ("f8f6f4", "f32"): NARROW,
    ("f8f6f4", "f16"): NARROW,
    ("mxf8f6f4", "f32"): NARROW,
    ("i8", "s32"): "s8 u8",
    ("mxf4", "f32"): "e2m1",
    ("mxf4nvf4", "f32"): "e2m1",
}
"""Kind, type of D -> types of A and B."""

KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
ELEMENT = {"f16": "f16", "tf32": "tf32", "f8f6f4": "e5m2", "i8": "u8", "mxf8f6f4": "e4m3", "mxf4": "e2m1", "mxf4nvf4": "e2m1"}


def numbers(text: str) -> set[int]:
    """``8:256:8`` is 8, 16, ... 256."""
    found: set[int] = set()
    for part in text.split():
        first, *rest = (int(number) for number in part.split(":"))
        found |= set(range(first, rest[0] + 1, rest[1])) if rest else {first}
    return found


ROWS = {}
for line in TABLE_39.strip().splitlines():
    what, m, n, k = line.split("|")
    kind, ws, group, sparsity = what.split()
    ROWS[kind, ws == ".ws", int(group), sparsity == "sparse"] = (numbers(m), numbers(n), int(k))


def descriptor(kind: str, m: int, n: int, **more: Any) -> InstructionDescriptor:
    fields = {"a": ELEMENT[kind], "b": ELEMENT[kind], "d": "s32" if kind == "i8" else "f32", **more}
    return InstructionDescriptor(kind=kind, m=m, n=n, **fields)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("ws", [False, True], ids=["", "ws"])
@pytest.mark.parametrize("kind", KINDS)
def test_table_39(kind: str, ws: bool, group: int, sparse: bool) -> None:
    """Every M and N that the fields can hold, and a little more."""
    all_m, all_n, k = ROWS.get((kind, ws, group, sparse), (set(), set(), 0))
    for m, n in product(range(128, 385, 128) if "mx" in kind else range(16, 273, 16), range(8, 273, 8)):
        i = descriptor(kind, m, n, sparse=sparse)
        assert (i.findings(group, ws) == []) == (m in all_m and n in all_n), (m, n)
        assert not k or i.k == k


def test_table_39_k1() -> None:
    """K = 96 is for dense matrices; where the table lists it is data, since CUTLASS uses it for the other shapes too."""
    listed = {(kind, group, "sparse" if sparse else "dense", m) for (kind, _, group, sparse), row in SHAPES.items() for m in row.k96}
    assert listed == TABLE_39_K1
    for kind in ("mxf4", "mxf4nvf4"):
        assert descriptor(kind, 256, 64, k96=True).k == 96
        assert descriptor(kind, 256, 64, k96=True).findings(2) == []
        refused = descriptor(kind, 256, 64, k96=True, sparse=True).findings(2)
        assert [(f.code, f.message) for f in refused] == [("D703", "K = 96 is for dense matrices only")]
        assert refused[0].section == 'Matrix Shape, table "Various combinations of .kind and shapes"'


@pytest.mark.parametrize("kind", KINDS)
def test_table_39_types(kind: str) -> None:
    every = ("f32", "tf32", "f16", "bf16", *NARROW.split(), "s8", "u8", "s32")

    def is_legal(d: str, a: str, b: str) -> bool:
        i = descriptor(kind, 128, 64, d=d, a=a, b=b)
        try:
            return not i.findings(1) and int(i) >= 0
        except DescriptorError:  # no field for it
            return False

    legal = {types for types in product(every, repeat=3) if is_legal(*types)}
    assert legal == {(d, a, b) for (name, d), types in TABLE_39_TYPES.items() if name == kind for a, b in product(types.split(), repeat=2)}


TABLE_49 = {"tf32": "TN", "f16": "TN", "f8f6f4": "TN", "mxf8f6f4": "TN", "i8": "T", "mxf4": "N", "mxf4nvf4": "N"}
"""Kind -> T if A and B may be transposed, N if they may be negated."""


@pytest.mark.parametrize("kind", KINDS)
def test_table_49(kind: str) -> None:
    for side in "ab":
        for letter, flag in (("T", f"transpose_{side}"), ("N", f"negate_{side}")):
            assert (descriptor(kind, 128, 64, **{flag: True}).findings(1) == []) == (letter in TABLE_49[kind]), flag


TABLE_50 = {1: "16:256:16", 2: "32:256:32"}
"""cta_group -> N for a transposed B of 8 bits."""


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("kind", ["f8f6f4", "mxf8f6f4"])
def test_table_50(kind: str, group: int) -> None:
    legal = {n for n in range(8, 265, 8) if not descriptor(kind, 128 * group, n, transpose_b=True).findings(group)}
    assert legal == numbers(TABLE_50[group])


TABLE_52 = """
4 6 8 16 32 | k  | none 32B 64B 128B 128B_32B
8 16        | mn | none 32B 64B 128B
32          | mn | 128B_32B
"""
"""Bits of an element | K-major (A by rows, B by columns) or transposed | swizzling modes."""


def test_table_52() -> None:
    modes = ("none", "32B", "64B", "128B", "128B_32B")
    legal = {
        (bits, major, mode)
        for bits, major, mode in product((4, 6, 8, 16, 32), ("k", "mn"), modes)
        if not SharedMemoryDescriptor(stride=1024, swizzle=mode).findings(major, bits)  # type: ignore[arg-type]
    }
    rows = [[cell.split() for cell in line.split("|")] for line in TABLE_52.strip().splitlines()]
    assert legal == {(int(size), major, mode) for sizes, (major,), allowed in rows for size in sizes for mode in allowed}


TABLE_54 = """
scale_vec::1X | mxf8f6f4      | any | 1
scale_vec::2X | mxf4 mxf4nvf4 | any | 2
scale_vec::4X | mxf4nvf4      | any | 4
block16       | mxf4nvf4      | 96  | 6
block16       | mxf4nvf4      | 64  | 4
block32       | mxf4 mxf4nvf4 | 96  | 3
block32       | mxf4 mxf4nvf4 | 64  | 2
block32       | mxf8f6f4      | any | 1
"""
"""Qualifier | kinds | K | scale factors of a row of A and of a column of B."""

# Sections "Scale Factor A ID" and "Scale Factor B ID", and their figures: scale factors of a row -> IDs.
IDS = {1: {0, 1, 2, 3}, 2: {0, 2}, 3: {0, 1, 2, 3}, 4: {0}, 6: {0, 2}}

TABLE_55 = """
mxf8f6f4 | ue8m0 | scale_vec::1X block32
mxf4     | ue8m0 | scale_vec::2X block32
mxf4nvf4 | ue8m0 | scale_vec::2X block32 scale_vec::4X block16
mxf4nvf4 | ue4m3 | scale_vec::4X block16
"""
"""Kind | type of the scale factors | qualifiers."""

QUALIFIERS = ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")


def test_table_54() -> None:
    """The number of scale factors shows in the IDs that are legal. (K = 96 of .scale_vec is in no other table: it is left out.)"""
    rows = [[cell.strip() for cell in line.split("|")] for line in TABLE_54.strip().splitlines()]
    for name, kinds, k, scales in rows:
        for kind in kinds.split():
            scale = "ue4m3" if kind == "mxf4nvf4" and scales in "46" else "ue8m0"
            found = set()
            for id_ in range(4):
                i = descriptor(kind, 256, 64, scale=scale, scale_a_id=id_, k96=k == "96")
                if not i.findings(2, scale_vector=name):
                    found.add(id_)
            assert found == IDS[int(scales)], (name, kind, k)


def test_table_55() -> None:
    legal = {
        (kind, scale, name)
        for kind, scale, name in product(("mxf8f6f4", "mxf4", "mxf4nvf4"), ("ue8m0", "ue4m3"), QUALIFIERS)
        if not descriptor(kind, 128, 64, scale=scale).findings(1, scale_vector=name)
    }
    rows = [[cell.split() for cell in line.split("|")] for line in TABLE_55.strip().splitlines()]
    assert legal == {(kind, scale, name) for (kind,), (scale,), names in rows for name in names}
