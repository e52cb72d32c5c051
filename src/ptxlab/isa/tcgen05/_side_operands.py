"""Scale factors and sparsity metadata of tcgen05.mma in tensor memory.

Sections "Scale Factor A ID", "Scale Factor B ID" and "Sparsity selector".
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.descriptors import InstructionDescriptor
from ptxlab.isa import context
from ptxlab.isa.operations.matrices import ScaleFactors
from ptxlab.isa.tcgen05._accesses import CELL_BYTES, COLUMN_BYTES
from ptxlab.layout import metadata_location, metadata_positions, scale_factor_location
from ptxlab.tables import MMA_KINDS, data_path_of, scale_vector_of

__all__ = ["Scaling", "TensorBitFields", "legal_metadata", "metadata_cells", "scaling_of"]

U8 = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class TensorBitFields:
    """Bit fields of tensor memory, ``[rows, fields]``.

    Attributes
    ----------
    column : the first column
    columns : number of columns with fields
    lane : lane of each field; with a further first dimension if several lanes must hold the same
    place : column of each field, counted from ``column``
    bit : lowest bit of each field in its 32-bit cell
    limit : mask of a field's bits
    """

    column: int
    columns: int
    lane: NDArray[np.int64]
    place: NDArray[np.int64]
    bit: NDArray[np.uint32]
    limit: int

    def read(self, words: NDArray[np.uint32]) -> U8:
        """The fields, uint8, in the shape of ``lane``."""
        found: U8 = (words[self.column + self.place, self.lane] >> self.bit & np.uint32(self.limit)).astype(np.uint8)
        return found

    @property
    def places(self) -> NDArray[np.int64]:
        """The byte of each field in tensor memory, in the shape of ``lane``."""
        found: NDArray[np.int64] = (self.column + self.place) * COLUMN_BYTES + self.lane * CELL_BYTES + self.bit // 8
        return found

    def cells(self, row: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The lanes and the columns of the cells with fields of a row."""
        found = np.unique(
            np.stack([self.lane, self.column + np.broadcast_to(self.place, self.lane.shape)])[..., row, :].reshape(2, -1), axis=1
        )
        return found[0], found[1]

    def scale_factors(self, name: str, kind: str, number: int) -> ScaleFactors:
        """The same for observers."""
        byte = int(self.bit.reshape(-1)[0]) // 8
        return ScaleFactors(
            name,
            kind,
            number,
            self.lane.shape[-1],
            self.column + int(self.place.reshape(-1)[0]),
            int(self.lane.reshape(-1)[0]),
            byte,
            self.columns,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """Type and block size of the scale factors, and the locations of those of A (the CTA's rows) and B (all columns)."""

    type: str
    block: int
    a: TensorBitFields
    b: TensorBitFields

    def copies(self, name: str, words: NDArray[np.uint32]) -> U8:
        """The scale factors of matrix ``a`` or ``b`` in each group of 32 lanes, uint8[groups, rows, scales]."""
        return (self.a if name == "a" else self.b).read(words)

    def factors(self, name: str, words: NDArray[np.uint32]) -> U8:
        """The scale factors of matrix ``a`` or ``b``, uint8[rows, scales]; every group of 32 lanes must hold the same."""
        copies = self.copies(name, words)
        found: U8 = copies[0]
        differ = copies != found
        if differ.any():
            copy, row, scale = (int(i) for i in np.argwhere(differ)[0])
            places = (self.a if name == "a" else self.b).lane[[0, copy], row, scale]
            lanes = (f"lanes {first} to {first + 31}" for first in (places & -32).tolist())
            here, there = (f"{code:#04x} in {where}" for code, where in zip(copies[[0, copy], row, scale].tolist(), lanes, strict=True))
            raise context.Misuse(
                "D708",
                f"scale factor {scale} of row {row} of {name.upper()} is {here} and {there}; they must be the same",
                fix="write the scale factors to all groups of 32 lanes, for instance with tcgen05.cp.32x128b.warpx4",
            )
        return found

    def check_copies(self, words: NDArray[np.uint32]) -> None:
        """Raise `Misuse` if groups of 32 lanes hold different scale factors."""
        for name in "ab":
            self.factors(name, words)


def _factors(address: int, rows: int, scales: int, scale_id: int, split: bool) -> TensorBitFields:
    at = scale_factor_location(rows, scales, scale_id, split)
    columns = int(at.column.max()) + 1
    return TensorBitFields(address & 0xFFFF, columns, at.lane.copy(), at.column.copy(), (8 * at.byte).astype(np.uint32), 0xFF)


def scaling_of(found: InstructionDescriptor, vector: str, group: int, a: int, b: int) -> Scaling:
    """The scale factors of an instruction; ``a`` and ``b`` are their addresses."""
    row = scale_vector_of(found.kind, vector, found.k)
    assert row is not None
    stored = 96 if found.k96 else MMA_KINDS[found.kind].k
    split = found.m == 128 and group == 2
    return Scaling(
        found.scale,
        stored // row.scales,
        _factors(a, found.m // group, row.scales, found.scale_a_id, False),
        _factors(b, found.n, row.scales, found.scale_b_id, split),
    )


def metadata_cells(found: InstructionDescriptor, group: int, ws: bool, address: int, lane: int) -> tuple[TensorBitFields, ...]:
    """The locations of the 4-bit codes for one CTA's rows of A; each bank of the data path has its own copy."""
    path = data_path_of(found.m, group, ws, True)
    at = metadata_location(found.kind, found.m, group, ws, found.selector, lane)
    columns = int(at.column.max()) + 1
    parts = (x[:, : path.rows].copy() for x in (at.lane, at.column, at.bit.astype(np.uint32)))
    return tuple(TensorBitFields(address & 0xFFFF, columns, lanes, column, bit, 0xF) for lanes, column, bit in zip(*parts, strict=True))


@cache
def legal_metadata(kind: str) -> tuple[int, ...]:
    """The legal metadata codes of a .kind."""
    return tuple(code for code in range(16) if metadata_positions(kind, code) is not None)
