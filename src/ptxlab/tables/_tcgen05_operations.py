"""Who issues a tcgen05 operation, and how many registers a load takes."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["DATA_MOVEMENT_SHAPES", "FRAGMENT_LANES", "ISSUE_GRANULARITY", "LOAD_REGISTERS", "SPARSE_GRANULARITY", "STORE_REGISTERS"]

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

_NUMS = (1, 2, 4, 8, 16, 32, 64, 128)
_REGISTERS = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}

LOAD_REGISTERS: Mapping[tuple[str, int], int] = {
    (shape, num): num * registers for shape, registers in _REGISTERS.items() for num in _NUMS if num * registers <= 128
}
"""(shape, .xN) -> registers; a missing key does not exist: table "Various-combinations of .num and .shape" of tcgen05.ld."""

STORE_REGISTERS = LOAD_REGISTERS
"""The table of tcgen05.st, which is the same."""

FRAGMENT_LANES: Mapping[str, tuple[int, ...]] = {"32x32b": (0,), **dict.fromkeys(("16x64b", "16x128b", "16x256b", "16x32bx2"), (0, 16))}
"""Shape -> lanes of a warp's 32 at which an address may begin. Sources for 16-lane shapes begin nowhere else."""

SPARSE_GRANULARITY: Mapping[str, tuple[int, int, int]] = {
    #           stored, of, elements together
    "tf32":     (1, 2, 1),
    "f16":      (2, 4, 1),
    "f8f6f4":   (2, 4, 1),
    "mxf8f6f4": (2, 4, 1),
    "i8":       (2, 4, 1),
    "mxf4":     (4, 8, 2),
    "mxf4nvf4": (4, 8, 2),
}  # fmt: skip
"""Kind -> elements stored of each chunk, elements of the chunk, elements that go together: section "Sparse Matrices"."""
