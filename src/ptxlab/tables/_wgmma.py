"""wgmma.mma_async: shapes and types. Sections "Matrix Shape" and "Matrix Data-types" of the warpgroup instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["WGMMA_KINDS", "WGMMA_M", "WgmmaKind"]

WGMMA_M = 64
"""Rows of every shape."""

_STEP_8 = range(8, 257, 8)
_INTEGER = (8, 16, 24, *range(32, 257, 16))


@dataclass(frozen=True, slots=True)
class WgmmaKind:
    """Element types that share shapes.

    Attributes
    ----------
    ab, d : types of A and B, and of D
    mixed : A and B may differ
    bits : of an element
    k, sparse_k : K of a dense and of a sparse instruction; 0 where there is none
    n : values of N
    transpose : operands may be MN-major
    """

    ab: tuple[str, ...]
    d: tuple[str, ...]
    mixed: bool
    bits: int
    k: int
    sparse_k: int
    n: Sequence[int]
    transpose: bool


WGMMA_KINDS: Mapping[str, WgmmaKind] = {
    #                   A, B              D                mixed bits  K  sparse  N      transposed
    "f16":  WgmmaKind(("f16",),          ("f16", "f32"), False, 16,  16,  32, _STEP_8,  True),
    "bf16": WgmmaKind(("bf16",),         ("f32",),       False, 16,  16,  32, _STEP_8,  True),
    "tf32": WgmmaKind(("tf32",),         ("f32",),       False, 32,   8,  16, _STEP_8,  False),
    "f8":   WgmmaKind(("e4m3", "e5m2"),  ("f16", "f32"), True,   8,  32,  64, _STEP_8,  False),
    "i8":   WgmmaKind(("u8", "s8"),      ("s32",),       True,   8,  32,  64, _INTEGER, False),
    "b1":   WgmmaKind(("b1",),           ("s32",),       False,  1, 256,   0, _INTEGER, False),
}  # fmt: skip
