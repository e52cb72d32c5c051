"""Block scaling: section "Valid combinations of scale_vectorsize with types and MMA-Kind"."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SCALE_IDS", "SCALE_VECTORS", "SCALE_VECTOR_TYPES", "ScaleVector", "scale_vector_of"]


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
