"""What the CUDA driver's encoders of tensor maps accept, and the bits they make of it.

The rules are those of ``cuTensorMapEncodeTiled`` and ``cuTensorMapEncodeIm2col``; they agree with all recorded refusals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd
from typing import Any

from ptxlab.descriptors._bitfields import TensorMapError
from ptxlab.descriptors.tensor_map.codec import CORNER_RANGES, TensorMapFields, copied_bytes, pack_tensor_map
from ptxlab.tables import ELEMENT_TYPES, INTERLEAVES, L2_PROMOTIONS, OOB_FILLS, TENSOR_MAP_SWIZZLES, ElementType

__all__ = ["encode_tensor_map"]

_LARGEST_COPY = 228 * 1024
"""Shared memory of an SM."""
_PADDED_ROW = 128
"""Elements in a row of a box, and divisor of a row of the tensor, of the types that are padded in shared memory."""


def encode_tensor_map(
    *,
    data_type: int,
    rank: int,
    address: int,
    dims: Iterable[int],
    strides: Iterable[int],
    box: Iterable[int] = (),
    element_strides: Iterable[int],
    interleave: int = 0,
    swizzle: int = 0,
    l2_promotion: int = 0,
    oob_fill: int = 0,
    im2col: bool = False,
    lower: Iterable[int] | None = None,
    upper: Iterable[int] | None = None,
    channels: int | None = None,
    pixels: int | None = None,
    target: str = "sm_90a",
) -> bytes:
    """Do what the driver does; dimensions innermost first.

    Sequences may be longer than the rank, as the driver's arrays may: further values are ignored.

    Parameters
    ----------
    data_type, interleave, swizzle, l2_promotion, oob_fill : the driver's numbers
    rank, address, dims, box, element_strides : the tensor, innermost dimension first
    strides : bytes, of dimensions 1 and up
    im2col : encode as ``cuTensorMapEncodeIm2col`` does; then ``box`` is not looked at, and the next four are needed
    lower, upper, channels, pixels : corners of the bounding box, channels per pixel, pixels per column
    target : the device; from sm_100 on there are swizzling modes 4 to 6 and element types of 4 and 6 bits

    Returns
    -------
    the 128 bytes

    Raises
    ------
    TensorMapError
        where the driver gives CUDA_ERROR_INVALID_VALUE

    Examples
    --------
    >>> raw = encode_tensor_map(data_type=6, rank=2, address=0x10000, dims=(512, 256), strides=(1024,), box=(64, 128),
    ...                         element_strides=(1, 1), swizzle=3)
    >>> len(raw), raw[32:40].hex()
    (128, 'ff010000ff000000')
    """
    blackwell = int(target[3:].rstrip("af")) >= 100
    element = _element(data_type, target, blackwell and not im2col)
    swizzles = [number for number, mode in TENSOR_MAP_SWIZZLES.items() if not mode.atomicity or blackwell]
    _known("swizzle", swizzle, swizzles, f"swizzling mode of {target}")
    _known("interleave", interleave, INTERLEAVES, "interleave layout")
    _known("l2_promotion", l2_promotion, L2_PROMOTIONS, "L2 promotion")
    _known("oob_fill", oob_fill, OOB_FILLS, "fill mode")
    _rank(rank, interleave, im2col)
    if oob_fill and element.nan is None:
        raise TensorMapError("oob_fill", f"fill mode NaN needs a floating-point type, not {element.name}")
    unit = 32 if interleave == 2 or element.padded else 16
    if element.padded and interleave:
        raise TensorMapError("interleave", f"elements of type {element.name} cannot be interleaved")
    if address % unit or not 0 <= address < 1 << 64:
        raise TensorMapError("address", f"the global address {address:#x} is not a multiple of {unit}", _align(unit))
    sizes = _take("dims", dims, rank, range(1, (1 << 32) + 1), "the size is {}; it can be 1 to 2^32")
    whole = _PADDED_ROW if element.padded else 8 // gcd(element.bits, 8)
    if sizes[0] % whole:
        raise TensorMapError("dims[0]", f"the size is {sizes[0]}; of elements of type {element.name} it must be a multiple of {whole}")
    message = f"the stride is {{}} bytes; it must be a multiple of {unit} below 2^40"
    pitches = _take("strides", strides, rank - 1, range(0, 1 << 40, unit), message, _align(unit))
    steps = _take("element_strides", element_strides, rank, range(1, 9), "the traversal stride is {}; it can be 1 to 8")
    common: dict[str, Any] = {
        "data_type": data_type,
        "rank": rank,
        "address": address,
        "dims": sizes,
        "strides": pitches,
        "element_strides": steps,
        "interleave": interleave,
        "swizzle": swizzle,
        "l2_promotion": l2_promotion,
        "oob_fill": oob_fill,
    }
    if not im2col:
        counts = _take("box", box, rank, range(1, 257), "the number is {}; it can be 1 to 256")
        if element.padded and counts[0] != _PADDED_ROW:
            raise TensorMapError("box[0]", f"the number is {counts[0]}; of elements of type {element.name} it must be {_PADDED_ROW}")
        _copied("box", copied_bytes(element, counts, steps))
        fields = TensorMapFields(box=counts, **common)
        _inner("box[0]", fields.box[0], element, interleave, swizzle)
    else:
        low, high = _corners(lower, upper, sizes, 0 if interleave else 1)
        fields = TensorMapFields(
            box=(),
            im2col=True,
            lower=low,
            upper=high,
            channels=_count("channels", channels, 256),
            pixels=_count("pixels", pixels, 1024),
            **common,
        )
        _inner("channels", fields.channels, element, interleave, swizzle)
        _copied("channels * pixels", fields.channels * fields.pixels * element.bits // 8)
    return pack_tensor_map(fields)


def _align(unit: int) -> str:
    return f"align the tensor and its rows to {unit} bytes"


def _element(data_type: int, target: str, narrow: bool) -> ElementType:
    element = ELEMENT_TYPES.get(data_type)
    if element is None:
        raise TensorMapError("data_type", f"{data_type} is not an element type; they are 0 to {max(ELEMENT_TYPES)}")
    if element.sm_100 and not narrow:
        raise TensorMapError("data_type", f"{target} has no element type {element.name} in this mode", "it needs sm_100 and tiled mode")
    return element


def _known(argument: str, value: int, values: Iterable[int], what: str) -> None:
    known = list(values)
    if value not in known:
        raise TensorMapError(argument, f"{value} is not a valid {what}; valid are {', '.join(map(str, known))}")


def _rank(rank: int, interleave: int, im2col: bool) -> None:
    least = 3 if interleave or im2col else 1
    if not least <= rank <= 5:
        why = " in im2col mode" if im2col else f" with interleave layout {INTERLEAVES[interleave]}" if interleave else ""
        raise TensorMapError("rank", f"the rank is {rank}; it can be {least} to 5{why}")


def _take(argument: str, values: Iterable[int], count: int, allowed: range, message: str, fix: str = "") -> tuple[int, ...]:
    """The first values of an argument; ``message`` says what is wrong with one that is not allowed."""
    taken = tuple(int(value) for value in values)[:count]
    if len(taken) < count:
        raise TensorMapError(argument, f"{len(taken)} values; the rank needs {count}")
    for d, value in enumerate(taken):
        if value not in allowed:
            raise TensorMapError(f"{argument}[{d}]", message.format(value), fix)
    return taken


def _count(argument: str, value: int | None, most: int) -> int:
    if value is None or not 1 <= value <= most:
        raise TensorMapError(argument, f"the number is {value}; it can be 1 to {most}")
    return int(value)


def _copied(argument: str, size: int) -> None:
    if size > _LARGEST_COPY:
        raise TensorMapError(argument, f"one copy has {size} bytes; shared memory has {_LARGEST_COPY}", "make the box smaller")


def _inner(argument: str, count: int, element: ElementType, interleave: int, swizzle: int) -> None:
    size = count * element.bits // 8
    if size % 16:
        raise TensorMapError(argument, f"{count} elements of {element.name} are {size} bytes; they must be a multiple of 16 bytes")
    mode = TENSOR_MAP_SWIZZLES[swizzle]
    if swizzle and not interleave and size > mode.width:
        raise TensorMapError(
            argument,
            f"{count} elements of {element.name} are {size} bytes, more than the {mode.width} bytes of {mode.name} swizzling",
            f"use at most {mode.width * 8 // element.bits} elements, or a wider swizzling mode",
        )


def _corners(
    lower: Iterable[int] | None, upper: Iterable[int] | None, sizes: Sequence[int], width: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The corners of the bounding box; ``width`` is the first dimension of the image."""
    spatial = len(sizes) - 2
    allowed = CORNER_RANGES[spatial]
    message = f"the corner is {{}}; it can be {allowed[0]} to {allowed[-1]} for rank {len(sizes)}"
    low = _take("lower", () if lower is None else lower, spatial, allowed, message)
    high = _take("upper", () if upper is None else upper, spatial, allowed, message)
    for d in range(spatial):
        size = sizes[width + d]
        if size + high[d] - low[d] <= 0:
            message = f"the bounding box of dimension {width + d} is empty: size {size}, lower corner {low[d]}, upper corner {high[d]}"
            raise TensorMapError(f"upper[{d}]", message)
    return low, high
