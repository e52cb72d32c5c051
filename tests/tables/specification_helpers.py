"""Tables of the specification that the tests compare with: written down here once more, not read from `ptxlab.tables`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

DATA_MOVEMENT_SHAPES: Mapping[str, tuple[str, ...]] = {
    "ld": ("16x64b", "16x128b", "16x256b", "16x32bx2", "32x32b"),
    "st": ("16x64b", "16x128b", "16x256b", "16x32bx2", "32x32b"),
    "cp": ("4x256b", "32x128b", "64x128b", "128x256b", "128x128b"),
    "shift": ("31x256b",),
}
"""Operation -> shapes: section "Data Movement Shape"."""

ISSUE_GRANULARITY: Mapping[tuple[str, int | None], str] = {
    **{(op, 1): "one thread of the CTA" for op in ("mma", "cp", "shift", "commit")},
    **{(op, 2): "one thread of the CTA pair; the peer CTA is active" for op in ("mma", "cp", "shift", "commit")},
    **{(op, 1): "one warp of the CTA" for op in ("alloc", "dealloc", "relinquish_alloc_permit")},
    **{(op, 2): "one warp in each CTA of the pair" for op in ("alloc", "dealloc", "relinquish_alloc_permit")},
    **{(op, None): "a warp, which reaches its quarter of the lanes" for op in ("ld", "st", "wait::ld", "wait::st")},
    ("fence", None): "every thread for its own accesses",
}
"""(operation, cta_group) -> who issues it: table "Execution granularity requirements for tcgen05 operations"."""

PATTERN_STARTS: Mapping[str, int] = {"128B": 1024, "64B": 512, "32B": 256}
"""Swizzling mode -> boundary: table "Starting address of repeating pattern for various swizzling modes"."""


class TypeSize(NamedTuple):
    bits: tuple[int, ...]
    major: str
    swizzles: tuple[str, ...]


TYPE_SIZES = (
    TypeSize((4, 6, 8, 16, 32), "k", ("none", "32B", "64B", "128B", "128B_32B")),
    TypeSize((8, 16), "mn", ("none", "32B", "64B", "128B")),
    TypeSize((32,), "mn", ("128B_32B",)),
)
"""Element bits, major-ness, swizzling modes: table "Valid Combinations of Type-Size, Major-ness and Swizzling"."""

MAJORNESS: Mapping[tuple[str, str], str] = {
    ("D", "tensor memory"): "row",
    ("A", "tensor memory"): "row",
    ("A", "shared memory"): "depends on the swizzling mode",
    ("B", "shared memory"): "depends on the swizzling mode",
}
"""(matrix, memory) -> default: table "Major-ness for different matrices"."""

TENSOR_CELLS = {
    "32x32b": lambda t, r, split: (t, r),
    "16x64b": lambda t, r, split: ((t >> 2) + 8 * (t & 1), 2 * r + (t >> 1 & 1)),
    "16x128b": lambda t, r, split: ((t >> 2) + 8 * (r & 1), 4 * (r >> 1) + (t & 3)),
    "16x256b": lambda t, r, split: ((t >> 2) + 8 * (r >> 1 & 1), 8 * (r >> 2) + 2 * (t & 3) + (r & 1)),
    "16x32bx2": lambda t, r, split: (t & 15, r + (t >> 4) * split),
}
"""Shape -> lane and column of register r of thread t: figures "Matrix Fragment" of section "Data Movement Shape"."""
