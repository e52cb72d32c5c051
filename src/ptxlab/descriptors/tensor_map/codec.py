"""Tensor maps: one codec for the driver's 128 bytes and for tensormap.replace.

The layout of the bits was found by comparing 14,000 recorded calls of the CUDA driver's encoders with their arguments, and what
tensormap.replace changed on an H200; where sm_100 has more, it is what CuTe DSL's host code writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.descriptors._bitfields import BitField, BitFormat, DescriptorError, TensorMapError
from ptxlab.tables import ELEMENT_TYPES, INTERLEAVES, OOB_FILLS, REPLACE_ELEMENT_TYPES, TENSOR_MAP_SWIZZLES, ElementType, SwizzleMode

__all__ = ["TENSOR_MAP_BYTES", "TensorMapFields", "decode_tensor_map", "pack_tensor_map", "replace_field"]

TENSOR_MAP_BYTES = 128

_DIMENSIONS = range(5)

_HEAD = (
    BitField("address", 0, 64, "global address"),
    BitField("im2col", 64, 1, "im2col mode"),
    BitField("rank", 68, 3, "rank", bias=1),
    BitField("code", 71, 4, "storage format"),
    BitField("interleave", 75, 2, "interleave layout"),
    BitField("mode", 77, 2, "swizzling mode", upper=(86, 1)),
    BitField("oob_fill", 79, 1, "fill mode"),
    BitField("rounds", 80, 1, "round to tf32"),
    BitField("l2_promotion", 81, 2, "L2 promotion"),
    BitField("atomicity", 83, 2, "swizzle atomicity"),
    *(BitField(f"stride{d}", 96 + 32 * d, 32, f"global stride of dimension {d + 1}", shift=4, upper=(224 + 4 * d, 4)) for d in range(4)),
    *(BitField(f"dim{d}", 256 + 32 * d, 32, f"size of dimension {d}", bias=1) for d in _DIMENSIONS),
    *(BitField(f"element_stride{d}", 416 + 3 * d, 3, f"traversal stride of dimension {d}", bias=1) for d in _DIMENSIONS),
)

_TAIL = (
    BitField("copied", 512, 18, "bytes of one copy"),
    BitField("unswizzled", 580, 1, "1 without swizzling"),
    BitField("spread", 584, 3, "one bit for each swizzling mode"),
)
"""Fields that the driver derives from the others; maps made by tensormap.replace lack them."""

_TILED = BitFormat(
    "tensor map",
    "Tensor-map",
    1024,
    (*_HEAD, *(BitField(f"box{d}", 440 + 8 * d, 8, f"box size of dimension {d}", bias=1) for d in _DIMENSIONS), *_TAIL),
)


def _im2col(spatial: int, width: int) -> BitFormat:
    corners = [
        BitField(f"{name}{d}", at + width * d, width, f"{name} corner of the bounding box in dimension {d + 1}", signed=True)
        for name, at in (("lower", 448), ("upper", 464))
        for d in range(spatial)
    ]
    channels = BitField("channels", 440, 8, "channels per pixel", bias=1)
    pixels = BitField("pixels", 480, 10, "pixels per column", bias=1)
    return BitFormat("tensor map", "Tensor-map", 1024, (*_HEAD, channels, *corners, pixels, *_TAIL))


_IM2COL = {1: _im2col(1, 16), 2: _im2col(2, 8), 3: _im2col(3, 5)}
"""By the number of spatial dimensions (rank - 2)."""

CORNER_RANGES = {1: range(-(1 << 15), 1 << 15), 2: range(-(1 << 7), 1 << 7), 3: range(-(1 << 4), 1 << 4)}
"""Spatial dimensions -> what a corner of the bounding box can be."""

_FIELDS = {item.name: item for item in _TILED.fields}


@dataclass(frozen=True, slots=True)
class TensorMapFields:
    """What a tensor map says; numbers as in the driver's encoders, dimensions innermost first.

    Attributes
    ----------
    data_type : the driver's number; `element` is the table's row
    rank, address, dims, interleave, l2_promotion, oob_fill : as the driver's arguments
    strides : bytes, of dimensions 1 and up (rank - 1 of them)
    swizzle : the driver's number, 0-6; `swizzle_mode` is the table's row
    box, element_strides : tiled mode; ``box`` is empty in im2col mode
    lower, upper : im2col mode: corners of the bounding box for each spatial dimension
    channels, pixels : im2col mode: channels per pixel, pixels per column
    """

    data_type: int
    rank: int
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: int = 0
    swizzle: int = 0
    l2_promotion: int = 0
    oob_fill: int = 0
    im2col: bool = False
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0

    @property
    def element(self) -> ElementType:
        """The element type."""
        return ELEMENT_TYPES[self.data_type]

    @property
    def swizzle_mode(self) -> SwizzleMode:
        """The swizzling mode."""
        return TENSOR_MAP_SWIZZLES[self.swizzle]


def pack_tensor_map(fields: TensorMapFields) -> bytes:
    """The 128 bytes, with all that the driver writes; values that do not fit their field raise a `DescriptorError`."""
    element, swizzle = fields.element, fields.swizzle_mode
    values: dict[str, Any] = {
        "address": fields.address,
        "im2col": int(fields.im2col),
        "rank": fields.rank,
        "code": element.code,
        "rounds": int(element.rounds),
        "interleave": fields.interleave,
        "mode": swizzle.mode,
        "atomicity": swizzle.atomicity,
        "oob_fill": fields.oob_fill,
        "l2_promotion": fields.l2_promotion,
        "unswizzled": int(not swizzle.mode),
        "spread": (1 << swizzle.mode) >> 1,
    }
    for d in _DIMENSIONS:
        inside = d < fields.rank
        values[f"dim{d}"] = fields.dims[d] if inside else 1
        values[f"element_stride{d}"] = fields.element_strides[d] if inside else 1
        values[f"box{d}"] = fields.box[d] if inside and fields.box else 1
        if d < 4:
            values[f"stride{d}"] = fields.strides[d] if d < fields.rank - 1 else 0
    if fields.im2col:
        layout = _IM2COL[fields.rank - 2]
        values |= {"channels": fields.channels, "pixels": fields.pixels, "copied": fields.channels * fields.pixels * element.bits // 8}
        for d in range(fields.rank - 2):
            values |= {f"lower{d}": fields.lower[d], f"upper{d}": fields.upper[d]}
    else:
        layout = _TILED
        values["copied"] = copied_bytes(element, fields.box, fields.element_strides)
    return layout.encode(values).to_bytes(TENSOR_MAP_BYTES, "little")


def copied_bytes(element: ElementType, box: Sequence[int], element_strides: Sequence[int]) -> int:
    """Bytes of one copy in tiled mode as the driver counts them: it rounds the steps along each dimension down."""
    return prod(size // step for size, step in zip(box, element_strides, strict=True)) * element.bits // 8


def decode_tensor_map(raw: bytes | bytearray | memoryview | NDArray[np.uint8]) -> TensorMapFields:
    """Read 128 bytes of the driver, or of tensormap.replace: nothing that the driver only adds is required.

    Raises
    ------
    TensorMapError
        if a field holds a code without a meaning

    Examples
    --------
    >>> decode_tensor_map(bytes(128)).dims
    (1,)
    """
    data = bytes(raw)
    if len(data) != TENSOR_MAP_BYTES:
        raise TensorMapError("raw", f"a tensor map has {TENSOR_MAP_BYTES} bytes, not {len(data)}")
    return _decode(data)


_CODES = {(t.code, int(t.rounds)): t.driver for t in ELEMENT_TYPES.values()}
_SWIZZLES = {(s.mode, s.atomicity): s.driver for s in TENSOR_MAP_SWIZZLES.values()}


@lru_cache(maxsize=512)
def _decode(data: bytes) -> TensorMapFields:
    word = int.from_bytes(data, "little")
    head: dict[str, int] = {item.name: item.get(word) for item in _HEAD}
    rank = head["rank"]
    if rank > len(_DIMENSIONS):
        raise TensorMapError("rank", f"the rank field holds {rank - 1}, which means {rank} dimensions; a tensor has 1 to 5")
    data_type = _CODES.get((head["code"], head["rounds"]), _CODES.get((head["code"], 0)))
    if data_type is None:
        raise TensorMapError("data_type", f"the storage format field holds {head['code']}, which is not an element type")
    if head["interleave"] == 3:
        raise TensorMapError("interleave", "the interleave field holds 3, which is not a layout")
    swizzle = _SWIZZLES.get((head["mode"], head["atomicity"]))
    if swizzle is None:
        mode, atomicity = head["mode"], head["atomicity"]
        why = (
            f"the swizzling mode field holds {mode}, which is not a mode"
            if mode > 3
            else f"swizzle atomicity {atomicity} needs 128B swizzling, not mode {mode}"
        )
        raise TensorMapError("swizzle", why)
    common = {
        "data_type": data_type,
        "rank": rank,
        "address": head["address"],
        "dims": tuple(head[f"dim{d}"] for d in range(rank)),
        "strides": tuple(head[f"stride{d}"] for d in range(rank - 1)),
        "element_strides": tuple(head[f"element_stride{d}"] for d in range(rank)),
        "interleave": head["interleave"],
        "swizzle": swizzle,
        "l2_promotion": head["l2_promotion"],
        "oob_fill": head["oob_fill"],
    }
    if not head["im2col"]:
        box = tuple(_FIELDS[f"box{d}"].get(word) for d in range(rank))
        return TensorMapFields(box=box, **common)  # type: ignore[arg-type]
    if rank < 3:
        raise TensorMapError("rank", f"an im2col map of rank {rank}; it needs 3 to 5 dimensions")
    values = _IM2COL[rank - 2].decode(word)
    return TensorMapFields(
        box=(),
        im2col=True,
        lower=tuple(values[f"lower{d}"] for d in range(rank - 2)),
        upper=tuple(values[f"upper{d}"] for d in range(rank - 2)),
        channels=values["channels"],
        pixels=values["pixels"],
        **common,  # type: ignore[arg-type]
    )


_REPLACED = {
    "global_address": ("address", None),
    "rank": ("rank", None),
    "box_dim": ("box", 5),
    "global_dim": ("dim", 5),
    "global_stride": ("stride", 4),
    "element_stride": ("element_stride", 5),
    "interleave_layout": ("interleave", None),
    "swizzle_mode": ("mode", None),
    "swizzle_atomicity": ("atomicity", None),
    "fill_mode": ("oob_fill", None),
}
"""Field of tensormap.replace -> field of the map, and how many there are; None: one without an ordinal."""

_LIMITS = {
    "interleave_layout": max(INTERLEAVES),
    "swizzle_mode": max(mode.mode for mode in TENSOR_MAP_SWIZZLES.values()),
    "swizzle_atomicity": max(mode.atomicity for mode in TENSOR_MAP_SWIZZLES.values()),
    "fill_mode": max(OOB_FILLS),
    "rank": len(_DIMENSIONS) - 1,
}


def replace_field(raw: bytearray | NDArray[np.uint8], field: str, ordinal: int | None, value: int) -> None:
    """Do what ``tensormap.replace.tile.FIELD`` does, in place.

    Parameters
    ----------
    raw : the 128 bytes
    field : as in the opcode; ``rank`` takes the rank less one, ``elemtype`` the instruction's own numbers, ``global_stride`` bytes
    ordinal : of the dimension, for the fields that have one
    value : the new value, unsigned

    Raises
    ------
    TensorMapError
        if the field cannot hold the value

    Examples
    --------
    >>> raw = bytearray(128)
    >>> replace_field(raw, "rank", None, 1)
    >>> replace_field(raw, "box_dim", 1, 64)
    >>> decode_tensor_map(raw).box
    (1, 64)
    """
    word = int.from_bytes(bytes(raw), "little")
    for item, stored in _stores(field, ordinal, value):
        try:
            word = word & ~item.mask | item.put(stored)
        except DescriptorError as error:
            raise TensorMapError(field, error.diagnostic.message) from None
    np.frombuffer(raw, np.uint8)[:] = np.frombuffer(word.to_bytes(TENSOR_MAP_BYTES, "little"), np.uint8)


def _stores(field: str, ordinal: int | None, value: int) -> list[tuple[BitField, int]]:
    if field == "elemtype":
        element = REPLACE_ELEMENT_TYPES.get(value)
        if element is None:
            raise TensorMapError(field, f"{value} is not an element type of tensormap.replace; they are 0 to {max(REPLACE_ELEMENT_TYPES)}")
        # Types without rounding leave the bit as it is: an H200 does so.
        return [(_FIELDS["code"], element.code), *([(_FIELDS["rounds"], 1)] if element.rounds else [])]
    if field not in _REPLACED:
        raise TensorMapError(field, f"tensormap.replace has no field .{field}; the fields are {', '.join([*_REPLACED, 'elemtype'])}")
    name, count = _REPLACED[field]
    if value > _LIMITS.get(field, value):
        raise TensorMapError(field, f"the new value is {value}; it can be 0 to {_LIMITS[field]}")
    if count is None:
        return [(_FIELDS[name], value + 1 if field == "rank" else value)]
    if ordinal is None or not 0 <= ordinal < count:
        raise TensorMapError(field, f"the ordinal is {ordinal}; it can be 0 to {count - 1}")
    return [(_FIELDS[f"{name}{ordinal}"], value)]
