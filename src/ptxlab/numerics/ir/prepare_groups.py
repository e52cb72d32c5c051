"""Operands of steps on groups: what `numerics.ir._group` reads."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.formats import FORMATS, decode
from ptxlab.numerics.ir._group import ARRAYS

__all__ = ["fill_groups"]

MODEST = 50
"""Exponents of scales, up to which products of two scales stay inside float32's range."""


@cache
def _values() -> NDArray[np.float32]:
    return np.tile(decode(np.arange(16, dtype=np.uint8), "e2m1"), 16)


@cache
def _scales(fmt: str) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.bool_], NDArray[np.int32]]:
    """Of every code: value, exponent as the significand is not normalised, whether it is zero, whether it needs the general path."""
    row = FORMATS[fmt]
    codes = np.arange(256, dtype=np.uint8)
    value = decode(codes, fmt)
    field = (codes & row.magnitude_mask).astype(np.int32) >> row.mantissa
    exponent = (field - row.bias if row.mantissa == 0 else np.maximum(field, 1) - row.bias).astype(np.int32)
    return value, exponent, value == 0, (np.isnan(value) | (np.abs(exponent) > MODEST)).astype(np.int32)


def fill_groups(
    words: NDArray[np.uint8],
    address: int,
    codes: NDArray[np.uint8],
    scales: NDArray[np.uint8],
    *,
    scale: str,
    groups: int,
    padded: int,
    role: str,
    negate: bool,
) -> None:
    """Write header and arrays into ``words``, which begin at ``address``; ``codes`` [rows, k] and ``scales`` [rows, groups]."""
    rows, k = codes.shape
    value, exponent, zero, wild = _scales(scale)
    sizes = [padded * k, *[padded * groups] * 3, padded]
    offsets = 64 + 4 * np.cumsum([0, *sizes])
    header = np.zeros(8, np.int64)
    header[: len(ARRAYS)] = address + offsets[:-1]
    header[len(ARRAYS)] = padded if role == "a" else k
    words[:64] = header.view(np.uint8)
    lines = [words[start:stop].view(np.float32) for start, stop in pairwise(offsets.tolist())]

    def place(line: NDArray[np.float32], table: NDArray[Any], given: NDArray[Any]) -> None:
        # Every code has an entry; without a check of bounds `take` is twice as fast.
        out = line.view(table.dtype)
        if role == "b":
            np.take(table, given, out=out.reshape(rows, -1), mode="clip")
            return
        across = out.reshape(-1, padded)
        if rows == padded:
            np.take(table, given.T, out=across, mode="clip")
        else:
            across[:, :rows] = table[given.T]
            across[:, rows:] = 0

    place(lines[0], -_values() if negate else _values(), codes)
    nonzero = np.packbits((codes & 7) != 0, axis=1).reshape(rows, groups, -1)
    live = np.zeros((rows, groups, 4), np.uint8)
    live[:, :, : nonzero.shape[2]] = nonzero
    place(lines[1], value, scales)
    place(lines[2], exponent, scales)
    bits = np.where(zero[scales], 0, live.view(np.int32)[:, :, 0])
    if role == "b":
        lines[3].view(np.int32).reshape(rows, -1)[...] = bits
    else:
        across = lines[3].view(np.int32).reshape(-1, padded)
        across[:, :rows], across[:, rows:] = bits.T, 0
    flags = lines[4].view(np.int32)
    flags[:rows], flags[rows:] = wild[scales].max(axis=1), 0
