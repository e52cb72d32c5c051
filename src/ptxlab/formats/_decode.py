"""Codes to values."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.formats._table import Format, codes_array, find

__all__ = ["decode"]


def decode(codes: Any, fmt: str) -> NDArray[np.float32]:
    """Values of element codes; every value of every type is exact in float32.

    Parameters
    ----------
    codes : right-aligned codes, any unsigned dtype; bits above the type's own are refused
    fmt : the element type

    Examples
    --------
    >>> decode([0x38, 0x7E, 0x80], "e4m3").tolist()
    [1.0, 448.0, -0.0]
    >>> decode([0x3F801FFF], "tf32").tolist()  # the low 13 bits are dropped
    [1.0]
    """
    row = find(fmt)
    array = codes_array(codes, row)
    if row.bits == 32:
        kept = array.astype(np.uint32) & np.uint32(0xFFFFFFFF ^ ((1 << row.dropped) - 1))
        return np.asarray(kept).view(np.float32)
    if row.name == "bf16":
        return np.asarray(array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return np.asarray(_table(row)[array])


@cache
def _table(row: Format) -> NDArray[np.float32]:
    codes = np.arange(1 << row.bits, dtype=np.int64)
    if row.is_integer:
        return np.where((codes & row.sign_mask) != 0, codes - (1 << row.bits), codes).astype(np.float32)
    magnitude = codes & row.magnitude_mask
    field, fraction = magnitude >> row.mantissa, magnitude & ((1 << row.mantissa) - 1)
    # ue8m0 has no subnormal numbers: code 0 is 2^-127.
    normal = (field > 0) | (row.mantissa == 0)
    significand = np.where(normal, fraction + (1 << row.mantissa), fraction)
    exponent = np.where(normal, field, 1) - row.bias - row.mantissa
    values = np.ldexp(significand.astype(np.float64), exponent.astype(np.int32))
    if row.inf is not None:
        values[magnitude == row.inf] = np.inf
    if row.nan is not None:
        values[magnitude >= row.nan] = np.nan
    values = np.copysign(values, np.where((codes & row.sign_mask) != 0, -1.0, 1.0))
    table = values.astype(np.float32)
    table.setflags(write=False)
    return table
