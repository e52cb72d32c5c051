"""Codes in memory: dense bit strings, slots with padding, byte containers.

Section "Packing formats of elements in Tensor and Shared memory".
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptxlab.formats._table import Format, FormatError, codes_array, find

__all__ = ["CONTAINER_SHIFT", "Packing", "pack", "unpack"]

Packing = Literal["dense", "padded", "bytes"]
Bytes = NDArray[np.uint8]

SLOT = 16
"""Elements, and bytes, of a padded slot."""
CONTAINER_SHIFT = {4: 2, 6: 0}
"""Bits -> lowest bit of a code in its byte container: e2m1 in bits 5:2, six bits in bits 5:0."""
PACKINGS = ("dense", "padded", "bytes")


def pack(codes: Any, fmt: str, packing: Packing = "dense") -> Bytes:
    """Bytes that hold element codes along the last axis.

    Parameters
    ----------
    codes : [..., count] right-aligned codes
    fmt : the element type
    packing : "dense" is a little-endian bit string: two 4-bit codes in a byte, low nibble first, four 6-bit codes in three bytes;
        "padded" gives every 16 codes of 4 or 6 bits 16 bytes: their bit string, then zeros; "bytes" gives each a byte: e2m1 in bits 5:2,
        e2m3 and e3m2 in bits 5:0. Types of 8 and more bits are the same in all three

    Examples
    --------
    >>> pack([1, 2, 3, 15], "e2m1").tolist()
    [33, 243]
    >>> pack([1, 2, 3, 63], "e3m2").tolist()
    [129, 48, 252]
    >>> pack([1, 15], "e2m1", "bytes").tolist()
    [4, 60]
    """
    row = _check(fmt, packing)
    array = codes_array(codes, row)
    if row.bits >= 8:
        return np.ascontiguousarray(array.astype(row.dtype)).view(np.uint8)
    array = array.astype(np.uint8)
    if packing == "bytes":
        return array << np.uint8(CONTAINER_SHIFT[row.bits])
    whole = SLOT if packing == "padded" else 8 // np.gcd(8, row.bits)
    if array.shape[-1] % whole:
        raise FormatError(f"{packing} {fmt}: expected a multiple of {whole} codes, got {array.shape[-1]}")
    dense = _join4(array) if row.bits == 4 else _join6(array)
    if packing == "dense":
        return dense
    slots = np.zeros((*array.shape[:-1], array.shape[-1] // SLOT, SLOT), np.uint8)
    slots[..., : 2 * row.bits] = dense.reshape(*slots.shape[:-1], 2 * row.bits)
    return slots.reshape(array.shape)


def unpack(data: Any, fmt: str, packing: Packing = "dense") -> NDArray[Any]:
    """Element codes of bytes, along the last axis: the inverse of `pack`; padding is ignored.

    Examples
    --------
    >>> unpack([33, 243], "e2m1").tolist()
    [1, 2, 3, 15]
    """
    row = _check(fmt, packing)
    array = np.asarray(data)
    if array.dtype != np.uint8:
        if array.dtype.kind not in "ui" or (array.size and (int(array.min()) < 0 or int(array.max()) > 255)):
            raise FormatError(f"packed {fmt}: expected uint8, got {array.dtype}")
        array = array.astype(np.uint8)
    count = array.shape[-1]
    if packing == "bytes" and row.bits < 8:
        return (array >> np.uint8(CONTAINER_SHIFT[row.bits])) & np.uint8((1 << row.bits) - 1)
    whole = row.dtype.itemsize if row.bits >= 8 else SLOT if packing == "padded" else row.bits // np.gcd(8, row.bits)
    if count % whole:
        raise FormatError(f"{packing} {fmt}: expected a multiple of {whole} bytes, got {count}")
    if row.bits >= 8:
        return np.ascontiguousarray(array).view(row.dtype)
    if packing == "padded":
        slots = array.reshape(*array.shape[:-1], count // SLOT, SLOT)
        array = slots[..., : 2 * row.bits].reshape(*array.shape[:-1], -1)
    return _split4(array) if row.bits == 4 else _split6(array)


def _check(fmt: str, packing: str) -> Format:
    if packing not in PACKINGS:
        raise FormatError(f"no packing {packing!r}; there are {', '.join(PACKINGS)}")
    return find(fmt)


def _join4(codes: Bytes) -> Bytes:
    return codes[..., ::2] | codes[..., 1::2] << np.uint8(4)


def _split4(data: Bytes) -> Bytes:
    found = np.empty((*data.shape, 2), np.uint8)
    np.bitwise_and(data, 15, out=found[..., 0])
    np.right_shift(data, 4, out=found[..., 1])
    return found.reshape(*data.shape[:-1], -1)


def _join6(codes: Bytes) -> Bytes:
    four = codes.reshape(*codes.shape[:-1], -1, 4).astype(np.uint32)
    word = four[..., 0] | four[..., 1] << np.uint32(6) | four[..., 2] << np.uint32(12) | four[..., 3] << np.uint32(18)
    three = np.stack([word >> np.uint32(shift) & np.uint32(255) for shift in (0, 8, 16)], axis=-1)
    return three.astype(np.uint8).reshape(*codes.shape[:-1], -1)


def _split6(data: Bytes) -> Bytes:
    three = data.reshape(*data.shape[:-1], -1, 3).astype(np.uint32)
    word = three[..., 0] | three[..., 1] << np.uint32(8) | three[..., 2] << np.uint32(16)
    four = np.stack([word >> np.uint32(shift) & np.uint32(63) for shift in (0, 6, 12, 18)], axis=-1)
    return four.astype(np.uint8).reshape(*data.shape[:-1], -1)
