"""Reductions of bulk copies: elementwise on arrays of bytes.

Sections "Data Movement and Conversion Instructions: cp.reduce.async.bulk" and "cp.reduce.async.bulk.tensor".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa import context, operations
from ptxlab.isa.native_ops import REDUCED_TYPES

__all__ = ["FLOATS", "INTEGERS", "Combine", "combiner", "put", "put_undefined", "undefined_combiner", "watched", "whole_elements"]

U8 = NDArray[np.uint8]
Combine = Callable[[U8, U8], None]

INTEGERS: dict[str, np.dtype[Any]] = {
    "u32": np.dtype(np.uint32), "s32": np.dtype(np.int32), "b32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64), "s64": np.dtype(np.int64), "b64": np.dtype(np.uint64),
}  # fmt: skip
FLOATS: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16), "bf16": np.dtype(np.uint16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
}  # fmt: skip

_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FFFFFFFFFFFFFFF}
_BITS: dict[int, Any] = {2: np.uint16, 4: np.uint32, 8: np.uint64}

_INTEGER_OPERATIONS: dict[str, Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda d, s: np.where(d >= s, d.dtype.type(0), d + d.dtype.type(1)),
    "dec": lambda d, s: np.where((d == 0) | (d > s), s, d - d.dtype.type(1)),
}


def _values(raw: NDArray[Any], type: str) -> NDArray[Any]:
    if type == "bf16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return raw


def _bits(values: NDArray[Any], type: str) -> NDArray[Any]:
    """Bits of results, rounded to nearest even (bf16) and with the canonical NaN."""
    if type == "bf16":
        wide = values.view(np.uint32)
        found: NDArray[Any] = ((wide + np.uint32(0x7FFF) + (wide >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    else:
        found = values.view(_BITS[values.itemsize])
    return np.where(np.isnan(values), found.dtype.type(_NAN[type]), found)


def _add(target: NDArray[Any], source: NDArray[Any], type: str) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        total = _bits(_values(target, type) + _values(source, type), type)
    if type != "f64":
        return total
    # A NaN operand is the result, unchanged; if both are NaN, that of the source.
    kept = np.where(np.isnan(target), target.view(np.uint64), total)
    return np.where(np.isnan(source), source.view(np.uint64), kept)


def _extreme(target: NDArray[Any], source: NDArray[Any], type: str, largest: bool) -> NDArray[Any]:
    """Minimum or maximum. If one operand is NaN, the result is the other one; -0 is less than +0."""
    a, b = _values(target, type), _values(source, type)
    raw_a, raw_b = target.view(np.uint16), source.view(np.uint16)
    first = a > b if largest else a < b
    tie = raw_a & raw_b if largest else raw_a | raw_b
    chosen = np.where(first, raw_a, np.where(a == b, np.where(raw_a == raw_b, raw_a, tie), raw_b))
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    chosen = np.where(nan_b, raw_a, np.where(nan_a, raw_b, chosen))
    return np.where(nan_a & nan_b, np.uint16(_NAN[type]), chosen)


def combiner(operation: str, type: str) -> Combine | None:
    """A function that reduces source bytes into target bytes, both with a contiguous last axis; None if the type has no such operation."""
    if type not in REDUCED_TYPES[operation]:
        return None
    if type in INTEGERS:
        dtype, function = INTEGERS[type], _INTEGER_OPERATIONS[operation]

        def integers(target: U8, source: U8) -> None:
            wide = target.view(dtype)
            wide[...] = function(wide, source.view(dtype))

        return integers

    dtype = FLOATS[type]

    def floats(target: U8, source: U8) -> None:
        wide, other = target.view(dtype), source.view(dtype)
        result = _add(wide, other, type) if operation == "add" else _extreme(wide, other, type, operation == "max")
        target.view(result.dtype)[...] = result

    return floats


def put(target: U8, source: U8, combine: Combine | None) -> None:
    """Copy bytes, or reduce them into the target."""
    if combine is None:
        target[:] = source
    else:
        combine(target, source)


def whole_elements(masks: NDArray[Any]) -> NDArray[Any]:
    """Masks of undefined bits in which an element is wholly undefined if one of its bits is."""
    found: NDArray[Any] = np.where(masks != 0, ~masks.dtype.type(0), masks.dtype.type(0))
    return found


@cache
def undefined_combiner(type: str) -> Combine:
    """What a reduction of elements of a type makes of undefined bits: an element has some if that of the source or of the target has."""
    dtype = _BITS[(INTEGERS | FLOATS)[type].itemsize]

    def either(target: U8, source: U8) -> None:
        wide = target.view(dtype)
        wide[...] = whole_elements(wide | source.view(dtype))

    return either


def put_undefined(target: U8, source: U8, combine: Combine | None, undefined: operations.UndefinedBits) -> None:
    """Do to undefined bits what `put` does to the data."""
    put(undefined.of(target), undefined.of(source), combine)


def watched(warp: context.WarpContext, operation: str, type: str, combine: Combine) -> Combine:
    """The same reduction; a floating-point addition is also recorded, for the check for results that depend on the order."""
    notes = warp.machine.additions
    if notes is None or operation != "add" or type not in FLOATS:
        return combine
    found: Combine = notes.watched(warp.op, FLOATS[type], partial(_values, type=type), combine)
    return found
