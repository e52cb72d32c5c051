"""Tensor memory: accumulators, matrix A, scale factors, the destinations of tcgen05.cp, and the parts of matrices that a CTA pair keeps.

Sections "Data Path Layout Organization", "Packing formats of elements in Tensor and Shared memory", "tcgen05.cp" and "Zero-Column Mask
Descriptor".
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ptxlab.layout.cute import LayoutError, parse_layout
from ptxlab.tables import COPY_LAYOUTS, DECOMPRESSIONS, DataPath, data_path_of

__all__ = [
    "SCALE_TILE_BYTES",
    "CopyDestination",
    "Decompression",
    "OperandLocation",
    "Ownership",
    "ScaleLocation",
    "TensorLocation",
    "ZeroColumns",
    "a_location",
    "accumulator_location",
    "copy_destination",
    "data_path_lanes",
    "decompression",
    "pair_ownership",
    "scale_factor_location",
    "scale_factor_offset",
    "zero_column_mask",
]

Array = NDArray[np.int64]


class TensorLocation(NamedTuple):
    """CTA rank in the pair, lane, and column relative to the address operand, for every (m, n)."""

    cta: Array
    lane: Array
    column: Array


class OperandLocation(NamedTuple):
    """Location of matrix A, for every (copy, m, k): as `TensorLocation`, and the lowest bit inside the 32-bit cell."""

    cta: Array
    lane: Array
    column: Array
    bit: Array


class CopyDestination(NamedTuple):
    """Where tcgen05.cp puts row r of its source: ``lanes[r]`` are all its lanes, ``columns`` the 32-bit words of a row."""

    lanes: Array
    columns: int


def path_of(m: int, cta_group: int, ws: bool, sparse: bool) -> DataPath:
    """The data path layout of a combination that has one."""
    try:
        return data_path_of(m, cta_group, ws, sparse)
    except ValueError as error:
        raise LayoutError(str(error)) from None


@lru_cache(maxsize=64)
def data_path_lanes(m: int, cta_group: int = 1, ws: bool = False, sparse: bool = False) -> Array:
    """The lane of each row that one CTA keeps, ``[bank, row]``; bank b holds the b-th part of the columns of D and its own copy of A.

    Examples
    --------
    >>> data_path_lanes(64)[0, [15, 16]].tolist()
    [15, 32]
    >>> data_path_lanes(64, ws=True)[:, 0].tolist()
    [0, 64]
    """
    path = path_of(m, cta_group, ws, sparse)
    row = np.arange(path.rows, dtype=np.int64)
    lanes: Array = (row // 16 * 32 + row % 16) if path.half else row
    lanes = lanes[None, :] + np.arange(path.banks, dtype=np.int64)[:, None] * path.bank_lanes
    lanes.setflags(write=False)
    return lanes


def accumulator_location(
    m: int,
    n: int,
    cta_group: int = 1,
    ws: bool = False,
    sparse: bool = False,
    lane: int = 0,
) -> TensorLocation:
    """Location of element (m, n) of matrix D.

    Parameters
    ----------
    m, n : shape of the instruction
    lane : lane of the D address: 0, or 16 in the layouts that use half of the lanes (C and F)

    Returns
    -------
    three arrays int64[m, n]

    Examples
    --------
    >>> d = accumulator_location(m=128, n=256, cta_group=2)
    >>> d.cta[64, 0], d.lane[64, 200], d.column[64, 200]
    (np.int64(1), np.int64(64), np.int64(72))
    """
    path = path_of(m, cta_group, ws, sparse)
    if n <= 0 or n % path.banks:
        raise LayoutError(f"N = {n} does not fall into {path.banks} equal parts, as layout {path.letter} needs")
    lanes = data_path_lanes(m, cta_group, ws, sparse)
    rows, columns = np.arange(m, dtype=np.int64)[:, None], np.arange(n, dtype=np.int64)[None, :]
    part = n // path.banks
    shape = (m, n)
    return TensorLocation(
        np.broadcast_to(rows // path.rows, shape),
        lanes[columns // part, rows % path.rows] + lane,
        np.broadcast_to(columns % part, shape),
    )


def a_location(
    m: int,
    k: int,
    bits: int,
    cta_group: int = 1,
    ws: bool = False,
    sparse: bool = False,
    lane: int = 0,
) -> OperandLocation:
    """Location of element (m, k) of a matrix A in tensor memory.

    Parameters
    ----------
    bits : of the container of an element: 32, 16, 8, or 4 for packed 4-bit elements
    lane : lane of the A address, as of D

    Returns
    -------
    four arrays int64[copies, m, k]: where the columns of D fall into several banks, each bank reads its own copy of A

    Examples
    --------
    >>> a = a_location(m=128, k=16, bits=16)
    >>> a.lane.shape, a.column[0, 5, 3], a.bit[0, 5, 3]
    ((1, 128, 16), np.int64(1), np.int64(16))
    """
    path = path_of(m, cta_group, ws, sparse)
    lanes = data_path_lanes(m, cta_group, ws, sparse)
    rows = np.arange(m, dtype=np.int64)
    place = np.arange(k, dtype=np.int64) * bits
    shape = (path.banks, m, k)
    return OperandLocation(
        np.broadcast_to((rows // path.rows)[None, :, None], shape),
        np.broadcast_to(lanes[:, rows % path.rows][:, :, None] + lane, shape),
        np.broadcast_to(place // 32, shape),
        np.broadcast_to(place % 32, shape),
    )


@lru_cache(maxsize=64)
def copy_destination(shape: str, multicast: str = "") -> CopyDestination:
    """Where tcgen05.cp puts each row of its source matrix, relative to the lane and column of its address; the array is read-only.

    Examples
    --------
    >>> copy_destination("64x128b", "warpx2::01_23").lanes[33].tolist()
    [65, 97]
    """
    lanes = COPY_LAYOUTS.get((shape, multicast))
    if lanes is None:
        raise LayoutError(f"tcgen05.cp has no shape .{shape}{'.' + multicast if multicast else ''}")
    bits = int(shape.partition("x")[2].removesuffix("b"))
    found = parse_layout(lanes).offsets()
    found.setflags(write=False)
    return CopyDestination(found, bits // 32)


class Decompression(NamedTuple):
    """Lowest bit of each of 16 elements: in the 16 bytes of a source slot, and in the 16 bytes that tcgen05.cp makes of them."""

    source: Array
    destination: Array
    bits: int


def decompression(name: str) -> Decompression:
    """What tcgen05.cp with a source format does to each slot of 16 bytes.

    Parameters
    ----------
    name : ``b4x16_p64`` or ``b6x16_p32``

    Examples
    --------
    >>> d = decompression("b4x16_p64")
    >>> d.source[:3].tolist(), d.destination[:3].tolist(), d.bits
    ([0, 4, 8], [2, 10, 18], 4)
    """
    if name not in DECOMPRESSIONS:
        raise LayoutError(f"tcgen05.cp has no source format .{name}; the formats are {', '.join(DECOMPRESSIONS)}")
    source, destination = DECOMPRESSIONS[name]
    element = np.arange(16, dtype=np.int64)
    return Decompression(element * source.pitch + source.low, element * destination.pitch + destination.low, source.bits)


SCALE_TILE_BYTES = 512
"""A tile in memory: 128 rows of 4 scale factors, which one tcgen05.cp.32x128b.warpx4 copies into 4 columns."""


class ScaleLocation(NamedTuple):
    """Lane ``[copies, rows, scales]``; column relative to the address, and byte in the 32-bit cell, ``[rows, scales]``."""

    lane: Array
    column: Array
    byte: Array


def scale_factor_location(rows: int, scales: int, scale_id: int = 0, split: bool = False) -> ScaleLocation:
    """Location of the scale factors of one instruction in tensor memory.

    Parameters
    ----------
    rows : for matrix A the rows of M that the CTA keeps, for B all of N (each CTA of a pair keeps them all)
    scales : scale factors of a row: 1, 2 or 4; 3 or 6 for K = 96
    scale_id : the scale factor ID: the first byte
    split : for B with M = 128 and cta_group::2: the halves of N take two of the four groups of 32 lanes each

    Examples
    --------
    >>> at = scale_factor_location(rows=256, scales=1, scale_id=2)
    >>> at.lane[:, 200, 0].tolist(), int(at.column[200, 0]), int(at.byte[200, 0])
    ([8, 40, 72, 104], 6, 2)
    """
    row = np.arange(rows, dtype=np.int64)[:, None]
    byte = scale_id + np.arange(scales, dtype=np.int64)[None, :]
    part = rows // 2 if split else rows
    inside = row % part
    groups = np.arange(2 if split else 4, dtype=np.int64)[:, None, None] + row // part * 2
    shape = (rows, scales)
    column = byte // 4 * (4 * -(-part // 128)) + inside // 32
    return ScaleLocation(np.broadcast_to(inside % 32 + 32 * groups, (len(groups), *shape)), column, np.broadcast_to(byte % 4, shape))


def scale_factor_offset(rows: int, scales: int) -> Array:
    """Byte offset of each scale factor in global or shared memory, ``int64[rows, scales]``.

    Tiles of 128 rows x 4 scale factors; the tiles of a row block follow each other along K.

    Examples
    --------
    >>> scale_factor_offset(256, 8)[[1, 33, 1, 129], [0, 0, 5, 0]].tolist()
    [16, 20, 529, 1040]
    """
    row = np.arange(rows, dtype=np.int64)[:, None]
    scale = np.arange(scales, dtype=np.int64)[None, :]
    tile = row // 128 * -(-scales // 4) + scale // 4
    found: Array = tile * SCALE_TILE_BYTES + row % 32 * 16 + row % 128 // 32 * 4 + scale % 4
    return found


class ZeroColumns(Protocol):
    """What the mask depends on; `ptxlab.descriptors.ZeroColumnMask` has it."""

    @property
    def start_counts(self) -> tuple[int, int, int, int]: ...
    @property
    def first_spans(self) -> tuple[int, int, int, int]: ...
    @property
    def non_zero(self) -> bool: ...
    @property
    def zeroed(self) -> int: ...
    @property
    def kept(self) -> int: ...


def zero_column_mask(descriptor: ZeroColumns, m: int, n: int) -> NDArray[np.bool_]:
    """The columns of the product whose column of B counts as zero: section "Zero-Column Mask Descriptor".

    Parameters
    ----------
    m, n : shape of the instruction; M = 128, 64 and 32 have 1, 2 and 4 sub-masks

    Examples
    --------
    >>> from ptxlab.descriptors import ZeroColumnMask
    >>> d = ZeroColumnMask(non_zero=True, skip_span=2, use_span=3)
    >>> "".join("01"[int(bit)] for bit in zero_column_mask(d, 128, 14)[::-1])
    '11100001110000'
    """
    mask = np.zeros(n, bool)
    if not descriptor.non_zero:
        return mask
    if m not in (32, 64, 128):
        raise LayoutError(f"there is no zero-column mask for M = {m}; M is 32, 64 or 128")
    parts = 128 // m
    width = n // parts
    column = np.arange(width, dtype=np.int64)
    for part in range(parts):
        zero_first = bool(descriptor.first_spans[part])
        # A count beyond the first span is not defined; it is taken as the span's last column.
        first = descriptor.zeroed if zero_first else descriptor.kept
        place = (column + min(descriptor.start_counts[part], first - 1)) % (descriptor.zeroed + descriptor.kept)
        mask[part * width : (part + 1) * width] = place < first if zero_first else place >= first
    return mask


class Ownership(NamedTuple):
    """CTA rank in the pair that keeps each row of A, column of B, and row of D."""

    a: NDArray[np.int64]
    b: NDArray[np.int64]
    d: NDArray[np.int64]


def pair_ownership(m: int, n: int, cta_group: int = 2) -> Ownership:
    """Which CTA of the pair keeps what. Scale factors and metadata of A follow A; scale factors of B are in both CTAs.

    Examples
    --------
    >>> o = pair_ownership(256, 128)
    >>> int(o.a[127]), int(o.a[128]), int(o.b[63]), int(o.b[64])
    (0, 1, 0, 1)
    """
    rows, columns = (np.arange(size, dtype=np.int64) * cta_group // size for size in (m, n))
    return Ownership(rows, columns, rows)
