"""Tensor maps in memory: read, decoded, checked and cached."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ptxlab._records import dataclass
from ptxlab.descriptors import TENSOR_MAP_BYTES, TensorMapError, TensorMapFields, decode_tensor_map, replace_field
from ptxlab.isa import context
from ptxlab.isa.bulk._tiled import Box, Columns, Pixels, Region
from ptxlab.isa.operations.tiles import CHUNK, TileArray
from ptxlab.layout import wide_positions
from ptxlab.native import BoundedCache
from ptxlab.tables import SWIZZLES, TENSOR_MAP_SWIZZLES

__all__ = ["BYTES", "TileMap", "array_of", "map_of", "raw_map", "replaced", "tile_map"]

BYTES = TENSOR_MAP_BYTES
_ALIGNMENT = 64
_UNIT = 16

_REDUCED = {"f32.ftz": "f32", "tf32": "f32", "tf32.ftz": "f32"}
"""Element type -> the type that reductions of it use."""


@dataclass(frozen=True, slots=True, eq=False)
class TileMap:
    """A decoded tensor map: the box that a copy moves, and the element type of reductions."""

    box: Box | Columns
    element: str
    unit: int
    """Coordinate 0 must be a multiple of this."""
    rank: int
    """The number of coordinates of an instruction."""
    raw: bytes = b""
    """The bytes of the map; none if it is not in memory."""

    @property
    def im2col(self) -> bool:
        """Whether the map is in im2col mode."""
        return isinstance(self.box, Columns)

    def takes(self, coordinates: tuple[int, ...], store: bool) -> bool:
        """Whether the hardware accepts these coordinates; otherwise an H200 ends the kernel with an illegal-instruction error."""
        if coordinates[0] % self.unit or (store and min(coordinates) < 0):
            return False
        return not isinstance(self.box, Columns) or self.box.begins(self.placed(coordinates))

    def refusal(self, coordinates: tuple[int, ...]) -> str:
        """Why the hardware does not accept these coordinates."""
        if coordinates[0] % self.unit:
            size = "" if self.box.padded else f" ({_UNIT} bytes)"
            return f"coordinate 0 is {coordinates[0]}; it must be a multiple of {self.unit} elements{size}"
        if isinstance(self.box, Columns) and not self.box.begins(self.placed(coordinates)):
            corners = " to ".join(str(corner) for corner in self.box.corners())
            return f"the coordinates {coordinates} begin outside the bounding box, whose corners are {corners}"
        return f"the coordinates {coordinates} of a write to global memory must not be negative"

    def placed(self, coordinates: tuple[int, ...]) -> tuple[int, ...]:
        """The coordinates in the box; for an interleaved tensor the dimension within a channel slice is added in front."""
        return (0, *coordinates) if self.box.slices else coordinates

    def region(self, coordinates: tuple[int, ...], offsets: tuple[int, ...], store: bool = False) -> Region | Pixels:
        """Clip a copy at these coordinates, with these im2col offsets, to the tensor; for a ``store`` to what it writes."""
        at = self.placed(coordinates)
        return self.box.region(at, offsets, store) if isinstance(self.box, Columns) else self.box.region(at, store)

    def wide(self, halo: int, fixed: bool) -> TileMap:
        """The map in the mode im2col::w, or im2col::w::128 if ``fixed``."""
        assert isinstance(self.box, Columns)
        return replace(self, box=replace(self.box, positions=wide_positions(self.box.rows, halo, fixed), halo=halo))


@lru_cache(maxsize=1024)
def array_of(box: Box | Columns, element: str, regular: bool) -> TileArray | None:
    """The array that a box is copied from, for observers; None if shared memory does not hold its chunks whole."""
    if box.slices or box.chunk != CHUNK or box.row % CHUNK:
        return None
    mode = TENSOR_MAP_SWIZZLES[box.swizzle].name
    return TileArray(
        element=element,
        counts=(box.row // CHUNK, *(box.counts[1:] if isinstance(box, Box) else (box.rows,))),
        regular=regular and isinstance(box, Box),
        swizzle=mode if mode in SWIZZLES else "",
        per_chunk=16 if box.padded else CHUNK * 8 // box.bits,
        address=box.address,
        whole_rows=isinstance(box, Box) and box.dims[0] <= box.counts[0],
    )


_MAPS = BoundedCache[bytes, TileMap | str](1024)


def tile_map(warp: context.WarpContext, address: int) -> TileMap:
    """The tensor map at a generic address; a fault if it cannot be used."""
    return map_of(warp, address, raw_map(warp, address))


def raw_map(warp: context.WarpContext, address: int) -> bytes:
    """The bytes of the tensor map at a generic address."""
    if address % _ALIGNMENT:
        message = f"the tensor map address {address:#x} is not a multiple of {_ALIGNMENT}"
        warp.fault("D721", message, fix="align the tensor map to 64 bytes or more")
    return warp.machine.read_generic(warp, address, BYTES, warp.cta).tobytes()


def map_of(warp: context.WarpContext, address: int, raw: bytes) -> TileMap:
    """The tensor map of these bytes; a fault if it cannot be used."""
    found = _MAPS.get(raw)
    if found is None:
        found = _MAPS[raw] = _interpret(raw)
    if isinstance(found, str):
        warp.fault("D722", f"the tensor map at {address:#x}: {found}", details=_facts(raw))
    return found


def _interpret(raw: bytes) -> TileMap | str:
    """Decode a tensor map, or return the reason why it cannot be used."""
    try:
        fields = decode_tensor_map(raw)
    except TensorMapError as error:
        return error.diagnostic.message
    wrong = _wrong(fields)
    if wrong:
        return wrong
    element = fields.element
    size = max(element.bits // 8, 1)
    fill = element.nan.to_bytes(size, "little") if fields.oob_fill and element.nan is not None else bytes(size)
    slice_bytes = _UNIT * fields.interleave
    # The channels of a slice are an additional dimension, which the rank of the map does not include.
    of_slice: tuple[int, ...] = (slice_bytes // size,) if slice_bytes else ()
    common: dict[str, Any] = {
        "address": fields.address,
        "bits": element.bits,
        "dims": (*of_slice, *fields.dims),
        "pitches": (slice_bytes, *fields.strides) if slice_bytes else fields.strides,
        "swizzle": fields.swizzle,
        "fill": fill,
        "padded": element.padded,
        "rounds": element.rounds,
        "slices": bool(slice_bytes),
    }
    box: Box | Columns
    if fields.im2col:
        first = 0 if slice_bytes else 1
        box = Columns(
            channels=of_slice[0] if slice_bytes else fields.channels,
            positions=np.arange(fields.pixels, dtype=np.int64),
            lower=fields.lower,
            upper=fields.upper,
            steps=fields.element_strides[first : first + len(fields.lower)],
            **common,
        )
    else:
        steps = fields.element_strides if slice_bytes else (1, *fields.element_strides[1:])
        counts = [-(-size // step) for size, step in zip(fields.box, steps, strict=True)]
        if slice_bytes:
            counts[-2] = 1
        box = Box(counts=(*of_slice, *counts), steps=(1,) * len(of_slice) + steps, **common)
    unit = 1 if slice_bytes else 128 if element.padded else _UNIT * 8 // element.bits
    return TileMap(box, _REDUCED.get(element.name, element.name), unit, fields.rank, raw)


def _wrong(fields: TensorMapFields) -> str | None:
    if fields.address % _UNIT:
        return f"the global address {fields.address:#x} is not a multiple of {_UNIT}"
    for i, stride in enumerate(fields.strides):
        if stride % _UNIT:
            return f"the global stride {stride} of dimension {i + 1} is not a multiple of {_UNIT}"
    if fields.interleave:
        return _wrong_slices(fields)
    what, count = ("number of channels", fields.channels) if fields.im2col else ("innermost box dimension", fields.box[0])
    row = count * fields.element.bits
    if row % (_UNIT * 8) or (fields.element.padded and count % 128):
        return f"the {what} of {count} elements is not a multiple of {_UNIT} bytes"
    mode = fields.swizzle_mode
    if fields.element.padded:
        row = count * 8
    if mode.bits and row > mode.width * 8:
        return f"the {what} is {row // 8} bytes, more than the {mode.width} of {mode.name} swizzling"
    return None


def _wrong_slices(fields: TensorMapFields) -> str | None:
    if fields.rank < 3:
        return f"an interleaved tensor has 3 to 5 dimensions, not {fields.rank}"
    if fields.element.bits < 8:
        return f"an interleaved tensor cannot have the element type {fields.element.name}"
    return None


def _facts(raw: bytes) -> tuple[tuple[str, str], ...]:
    try:
        fields = decode_tensor_map(raw)
    except TensorMapError:
        return (("bytes", raw.hex(" ", 8)),)
    return tuple(
        (name, str(getattr(fields, name)))
        for name in ("data_type", "rank", "address", "dims", "strides", "box", "element_strides", "interleave", "swizzle", "oob_fill")
    )


def replaced(warp: context.WarpContext, raw: context.U8, field: str, ordinal: int | None, value: int) -> context.U8:
    """The bytes of a tensor map after ``tensormap.replace``."""
    made = np.array(raw, np.uint8)
    try:
        replace_field(made, field, ordinal, value)
    except TensorMapError as error:
        warp.fault("D727", error.diagnostic.message)
    return made
