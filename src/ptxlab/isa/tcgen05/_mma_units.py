"""The products that a tcgen05.mma consists of, the locations of their operands for compiled code, and the packing of element types.

Compiled code adds a base to each offset. Base 0 is 0, for host addresses; then follow the bases of shared and tensor memory of each CTA:
see `CtaGroup.bases`. Section "Packing formats of elements in Tensor and Shared memory".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import numerics
from ptxlab._records import dataclass
from ptxlab.formats import Packing, unpack
from ptxlab.isa.tcgen05._accesses import CELL_BYTES, COLUMN_BYTES
from ptxlab.isa.tcgen05._descriptors import Gather
from ptxlab.isa.tcgen05._side_operands import TensorBitFields
from ptxlab.isa.tcgen05._state import tensor_base
from ptxlab.layout import data_path_lanes
from ptxlab.tables import MMA_KINDS, TYPE_BITS

__all__ = ["Format", "Lanes", "Unit", "format_of", "metadata", "scales", "shared_operand", "tensor_operand", "units"]

Codes = NDArray[Any]


def _same(codes: Codes) -> Codes:
    return codes


@dataclass(frozen=True, slots=True)
class Format:
    """An element type: bits of an element and of its container, and functions that extract the codes.

    ``shared`` takes elements gathered from shared memory, ``tensor`` the cells of a row in tensor memory. ``packings``: how codes are
    packed there, None if the gathered values are the codes.
    """

    name: str
    bits: int
    container: int
    shared: Callable[[Codes], Codes]
    tensor: Callable[[NDArray[np.uint32]], Codes]
    packings: tuple[Packing | None, Packing | None]

    @property
    def slot_bytes(self) -> int:
        """The bytes of a slot of 16 in shared memory that hold elements; padding follows them."""
        return 16 * self.bits // self.container


def _as(container: int) -> Callable[[NDArray[np.uint32]], Codes]:
    dtype = np.dtype(f"u{container // 8}")

    def view(cells: NDArray[np.uint32]) -> Codes:
        return cells.view(dtype)

    return view


def _packed(name: str, packing: Packing) -> Callable[[Codes], Codes]:
    def codes_of(found: Codes) -> Codes:
        return unpack(found.view(np.uint8), name, packing)

    return codes_of


_PADDED: tuple[Packing, Packing] = ("padded", "bytes")
_PACKINGS: dict[tuple[int, int], tuple[Packing, Packing]] = {(6, 8): _PADDED, (4, 8): _PADDED, (4, 4): ("dense", "dense")}
"""(bits, container) -> packing in shared and in tensor memory."""


def _format(name: str, container: int) -> Format:
    bits = TYPE_BITS[name]
    if (bits, container) in _PACKINGS:
        shared, tensor = (_packed(name, packing) for packing in _PACKINGS[bits, container])
        return Format(name, bits, container, shared, tensor, _PACKINGS[bits, container])
    return Format(name, bits, container, _same, _as(container), (None, None))


_FORMATS = {(kind.name, name): _format(name, kind.container) for kind in MMA_KINDS.values() for name in kind.ab}


def format_of(kind: str, name: str) -> Format:
    """The packing of an element type for a .kind."""
    return _FORMATS[kind, name]


Lanes = slice | NDArray[np.int64]
_RUN = 16
"""Number of lanes that are consecutive in every data path layout."""
_PADDED_ROWS = 64
"""With at least this many rows the accumulator is updated in place; with fewer it is copied to consecutive cells first."""


def shared_operand(operand: Gather, fmt: Format, cta: int, first: int = 0) -> numerics.OperandGather:
    """A matrix in shared memory, from its row ``first`` on."""
    offset, order, over_rows, over_k = operand.slots
    strides = over_rows * _codes_of_byte(fmt), over_k
    return numerics.OperandGather(tensor_base(cta) - 1, offset, order, 16, *strides, first, fmt.packings[0])


def tensor_operand(column: int, fmt: Format, lanes: Lanes, columns: int, cta: int) -> numerics.OperandGather:
    """A matrix in tensor memory, from a column on."""
    order = np.arange(column, column + columns) * (COLUMN_BYTES // CELL_BYTES) + np.arange(128)[lanes, None]
    strides = CELL_BYTES * columns * _codes_of_byte(fmt), max(fmt.container // 8, 1)
    return numerics.OperandGather(tensor_base(cta), 0, order.reshape(-1), CELL_BYTES, *strides, packing=fmt.packings[1])


def _codes_of_byte(fmt: Format) -> int:
    """How many codes a byte holds; those of a line follow each other along K."""
    return max(8 // fmt.container, 1)


def scales(fields: TensorBitFields, cta: int, rows: slice) -> numerics.ScaleGather:
    """Scale factors of some rows in tensor memory, as one group of 32 lanes has them."""
    places = fields.places[0, rows]
    return numerics.ScaleGather(tensor_base(cta), np.ascontiguousarray(places))


def metadata(fields: TensorBitFields, cta: int) -> numerics.MetadataGather:
    """Sparsity metadata in tensor memory, of a bank of the data path."""
    shifts = (fields.bit % 8).astype(np.uint8)
    return numerics.MetadataGather(tensor_base(cta), np.ascontiguousarray(fields.places.T), np.ascontiguousarray(shifts.T))


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One product: rows of A of CTA ``cta`` of the group, times part ``part`` of B, into these lanes and columns (relative to D).

    ``bank`` is the bank of the data path. ``holder`` is the CTA whose shared memory has this part of B, from its column ``first`` on.
    """

    cta: int
    part: int
    bank: int
    holder: int
    first: int
    lanes: Lanes
    column: int
    columns: int

    @property
    def rows(self) -> int:
        """The number of rows of A."""
        return self.lanes.stop - self.lanes.start if isinstance(self.lanes, slice) else len(self.lanes)

    def accumulator(self, column: int) -> numerics.AccumulatorRef:
        """The cells of D that it updates; ``column`` is the first column of D."""
        base, first = tensor_base(self.cta), column + self.column
        if isinstance(self.lanes, slice) and self.rows % _PADDED_ROWS == 0:
            return numerics.AccumulatorRef(base, COLUMN_BYTES * first + CELL_BYTES * self.lanes.start, COLUMN_BYTES)
        runs = np.arange(128)[self.lanes][::_RUN] // _RUN
        columns = np.arange(first, first + self.columns)[:, None] * (COLUMN_BYTES // CELL_BYTES // _RUN)
        return numerics.AccumulatorRef(base, 0, 0, (columns + runs).reshape(-1))


def units(m: int, n: int, group: int, ws: bool, sparse: bool, lane: int) -> tuple[Unit, ...]:
    """Products of the data path layouts A to G: section "Data Path Layout Organization". ``lane`` is the first lane of D.

    B has one part for each CTA, in that CTA's shared memory, or one part of N for each bank.
    """
    banks = data_path_lanes(m, group, ws, sparse) + lane
    parts = max(group, len(banks))
    columns, share = n // parts, n // group
    found = []
    for cta in range(group):
        for part in range(parts):
            bank = part % len(banks)
            lanes = banks[bank]
            contiguous = int(lanes[-1]) - int(lanes[0]) == len(lanes) - 1
            place: Lanes = slice(int(lanes[0]), int(lanes[-1]) + 1) if contiguous else lanes
            holder, first = divmod(part * columns, share)
            found.append(Unit(cta, part, bank, holder, first, place, 0 if len(banks) > 1 else part * columns, columns))
    return tuple(found)
