"""tcgen05.mma and wgmma.mma_async: kinds, element types, shapes and block scaling.

Sections "Matrix Shape" (table "Various combinations of .kind and shapes"), "Instruction descriptor", "Transpose and Negate operations",
"Sparse Matrices" and "Valid combinations of scale_vectorsize with types and MMA-Kind"; "Matrix Shape" and "Matrix Data-types" of the
warpgroup instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from ptxlab._records import dataclass

__all__ = [
    "BLOCK_SCALED_KINDS",
    "K96_TARGETS",
    "KINDS",
    "MMA_KINDS",
    "SCALE_IDS",
    "SCALE_VECTORS",
    "SCALE_VECTOR_TYPES",
    "SHAPES",
    "SPARSE_GRANULARITY",
    "TENSOR_MEMORY_TARGETS",
    "TRANSPOSED_8_BIT_N",
    "TYPE_BITS",
    "WGMMA_KINDS",
    "WGMMA_M",
    "Kind",
    "ScaleVector",
    "Shapes",
    "WgmmaKind",
    "scale_vector_of",
]

TENSOR_MEMORY_TARGETS = frozenset(f"sm_{number}{suffix}" for number in (100, 101, 103, 107, 110) for suffix in "af")
"""The targets with tensor memory: section "Tensorcore 5th Generation Instructions"."""

TYPE_BITS: Mapping[str, int] = {
    "f32": 32, "tf32": 32, "s32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "u8": 8, "s8": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4,
}  # fmt: skip
"""Bits of an element as it counts."""

_FLOAT8 = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}


@dataclass(frozen=True, slots=True)
class Kind:
    """What the instruction descriptor can say for one ``.kind``.

    Attributes
    ----------
    d, ab : type -> code in the fields of matrix D, and of matrices A and B
    k : K of a dense instruction; a sparse one has twice that
    transpose, negate, saturate : table "Transpose and Negate operation for various MMA-Kind"; saturation is for integers
    container : bits that one element of A or B takes in shared memory (4- and 6-bit types are padded to slots of a byte)
    d_for_ab : types of D that only some types of A and B go with
    scale : type of the scale factors -> code, for block-scaled kinds
    """

    name: str
    d: Mapping[str, int]
    ab: Mapping[str, int]
    k: int
    transpose: bool
    negate: bool
    saturate: bool
    container: int
    d_for_ab: Mapping[str, frozenset[str]]
    scale: Mapping[str, int] = field(default_factory=dict)


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        #    name      D                      A, B                    K  trans  neg    sat  bits  A, B that D = f16 needs
        Kind("tf32",   {"f32": 1},            {"tf32": 2},            8, True, True,  False, 32, {}),
        Kind("f16",    {"f16": 0, "f32": 1},  {"f16": 0, "bf16": 1}, 16, True, True,  False, 16, {"f16": frozenset({"f16"})}),
        Kind("f8f6f4", {"f16": 0, "f32": 1},  _FLOAT8,               32, True, True,  False,  8, {}),
        Kind("i8",     {"s32": 2},            {"u8": 0, "s8": 1},    32, True, False, True,   8, {}),
    )
}  # fmt: skip
"""The kinds without block scaling."""

BLOCK_SCALED_KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        #    name        D           A, B         K  trans  neg    sat bits      scale factors
        Kind("mxf8f6f4", {"f32": 1}, _FLOAT8,    32, True,  True, False, 8, {}, {"ue8m0": 1}),
        Kind("mxf4",     {"f32": 1}, {"e2m1": 1}, 64, False, True, False, 4, {}, {"ue8m0": 1}),
        Kind("mxf4nvf4", {"f32": 1}, {"e2m1": 1}, 64, False, True, False, 4, {}, {"ue4m3": 0, "ue8m0": 1}),
    )
}  # fmt: skip
"""The kinds with block scaling. D has no field in their descriptors."""

MMA_KINDS: Mapping[str, Kind] = {**KINDS, **BLOCK_SCALED_KINDS}
"""All kinds."""

K96_TARGETS = ("sm_103a",)
"""Targets with K = 96: section "Target ISA Note" under "Matrix Shape"."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """M and N that one row of the table allows; K follows from the kind.

    ``k96``: the M for which the row has K1 = 96. CUTLASS issues K = 96 for every M of the dense rows, with cta_group::1, too, and the
    assembler does not see the shape, so this field only records the table; nothing is refused because of it.
    """

    m: tuple[int, ...]
    n: Sequence[int]
    k96: tuple[int, ...] = ()


_STEP_8, _STEP_16, _STEP_32 = range(8, 257, 8), range(16, 257, 16), range(32, 257, 32)
_WS_DENSE, _WS_SPARSE = (64, 128, 256), (64, 128)
_I8 = (8, 16, 24, *range(32, 257, 16))


def _rows(kind: str, one: Sequence[int], two: Sequence[int]) -> dict[tuple[str, bool, int, bool], Shapes]:
    rows = {}
    for sparse in (False, True):
        rows[kind, False, 1, sparse] = Shapes((64, 128), one)
        rows[kind, False, 2, sparse] = Shapes((128, 256), two)
        rows[kind, True, 1, sparse] = Shapes((32, 64, 128), _WS_SPARSE if sparse else _WS_DENSE)
    return rows


def _scaled(kind: str, k96: tuple[int, ...] = ()) -> dict[tuple[str, bool, int, bool], Shapes]:
    return {
        (kind, False, 1, False): Shapes((128,), _STEP_8),
        (kind, False, 1, True): Shapes((128,), _STEP_8),
        (kind, False, 2, False): Shapes((128, 256), _STEP_16, k96),
        (kind, False, 2, True): Shapes((256,), _STEP_16),
    }


SHAPES: Mapping[tuple[str, bool, int, bool], Shapes] = {
    **_rows("f16", _STEP_8, _STEP_16),
    **_rows("tf32", _STEP_8, _STEP_16),
    **_rows("f8f6f4", _STEP_8, _STEP_16),
    **_rows("i8", _I8, _STEP_32),
    **_scaled("mxf8f6f4"),
    **_scaled("mxf4", k96=(256,)),
    **_scaled("mxf4nvf4", k96=(256,)),
}
"""(kind, .ws, cta_group, sparse) -> shapes; a missing key is an invalid combination."""

TRANSPOSED_8_BIT_N: Mapping[int, Sequence[int]] = {1: _STEP_16, 2: _STEP_32}
"""cta_group -> N: table "Various combinations of N shape with .cta_group qualifier for 8bit transpose B"."""

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


WGMMA_M = 64
"""Rows of every shape."""


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
    "i8":   WgmmaKind(("u8", "s8"),      ("s32",),       True,   8,  32,  64, _I8, False),
    "b1":   WgmmaKind(("b1",),           ("s32",),       False,  1, 256,   0, _I8, False),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScaleVector:
    """A row of table "Valid combinations of scale_vectorsize and shapes".

    Attributes
    ----------
    name : the qualifier
    kind : the kind that takes it
    k : 96 for the row of K = 96; 0 for the other values of K (or all)
    scales : scale factors of a row of A and of a column of B
    """

    name: str
    kind: str
    k: int
    scales: int


SCALE_VECTORS: tuple[ScaleVector, ...] = (
    #           .scale_vectorsize kind       K  scales
    ScaleVector("scale_vec::1X", "mxf8f6f4",  0, 1),
    ScaleVector("scale_vec::2X", "mxf4",      0, 2),
    ScaleVector("scale_vec::2X", "mxf4nvf4",  0, 2),
    ScaleVector("scale_vec::4X", "mxf4nvf4",  0, 4),
    ScaleVector("block16",       "mxf4nvf4", 96, 6),
    ScaleVector("block16",       "mxf4nvf4",  0, 4),
    ScaleVector("block32",       "mxf4",     96, 3),
    ScaleVector("block32",       "mxf4nvf4", 96, 3),
    ScaleVector("block32",       "mxf4",      0, 2),
    ScaleVector("block32",       "mxf4nvf4",  0, 2),
    ScaleVector("block32",       "mxf8f6f4",  0, 1),
)  # fmt: skip

SCALE_VECTOR_TYPES: dict[tuple[str, str], tuple[str, ...]] = {
    ("mxf8f6f4", "ue8m0"): ("scale_vec::1X", "block32"),
    ("mxf4",     "ue8m0"): ("scale_vec::2X", "block32"),
    ("mxf4nvf4", "ue8m0"): ("scale_vec::2X", "block32", "scale_vec::4X", "block16"),
    ("mxf4nvf4", "ue4m3"): ("scale_vec::4X", "block16"),
}  # fmt: skip
"""(kind, type of the scale factors) -> qualifiers: table "Valid combinations of scale_vectorsize with types and MMA-Kind"."""

SCALE_IDS: dict[int, tuple[int, ...]] = {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,), 3: (0, 1, 2, 3), 6: (0, 2)}
"""Scale factors of a row -> values of the scale factor IDs: sections "Scale Factor A ID" and "Scale Factor B ID"."""


def scale_vector_of(kind: str, name: str, k: int = 0) -> ScaleVector | None:
    """The row for a kind, a qualifier and K; None if there is none.

    >>> scale_vector_of("mxf4nvf4", "block16", 96).scales
    6
    """
    for row in SCALE_VECTORS:
        if (row.kind, row.name) == (kind, name) and row.k == (96 if k == 96 and name.startswith("block") else 0):
            return row
    return None
