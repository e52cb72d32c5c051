"""Sparse A: what the metadata selects (section "Sparse Matrices")."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.numerics._steps import NumericsError

__all__ = ["check_codes", "chunk_of", "expand", "legal_codes"]

_ORDERED = (4, 8, 9, 12, 13, 14)
CODES = {"sp::ordered_metadata": _ORDERED, "sp": (*_ORDERED, 1, 2, 3, 6, 7, 11), "mma_async": (*_ORDERED, 6)}
"""Two different positions, the first in the low two bits: in increasing order, in any, and what tcgen05 and wgmma take."""
ONE_OF_TWO = {4: 0, 14: 1}


def chunk_of(fmt: str, grouped: bool) -> tuple[int, int]:
    """Stored and whole elements of a chunk: tf32 1:2; e2m1 of the four-bit kinds 4:8, in pairs; else 2:4."""
    return (1, 2) if fmt == "tf32" else (4, 8) if grouped else (2, 4)


def legal_codes(fmt: str, variant: str = "mma_async") -> tuple[int, ...]:
    """The metadata codes of a type: of tcgen05 and wgmma, or of mma with the modifier ``sp`` or ``sp::ordered_metadata``.

    Examples
    --------
    >>> legal_codes("tf32"), legal_codes("f16", "sp::ordered_metadata")
    ((4, 14), (4, 8, 9, 12, 13, 14))
    """
    return tuple(ONE_OF_TWO) if fmt == "tf32" else CODES[variant]


def check_codes(metadata: NDArray[Any], fmt: str, variant: str) -> None:
    """Refuse codes that select nothing."""
    legal = sorted(legal_codes(fmt, variant))
    wrong = metadata[~np.isin(metadata, legal)]
    if wrong.size:
        raise NumericsError(f"metadata of {fmt}: expected codes {', '.join(map(hex, legal))}, got {int(wrong.flat[0]):#x}")


@cache
def _sources(stored: int, whole: int) -> NDArray[np.intp]:
    """For each code and each element of the whole chunk: which stored element it is, or ``stored``: none."""
    table = np.full((16, whole), stored, np.intp)
    if stored == 1:
        for code, position in ONE_OF_TWO.items():
            table[code, position] = 0
        return table
    pair = stored // 2
    for code in CODES["sp"]:
        for index, position in enumerate((code & 3, code >> 2)):
            table[code, position * pair : (position + 1) * pair] = np.arange(index * pair, (index + 1) * pair)
    return table


def expand(codes: NDArray[Any], metadata: NDArray[Any], fmt: str, grouped: bool) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Codes [rows, whole K], zero where nothing is stored, and where that is.

    Examples
    --------
    >>> expand(np.array([[7, 9]]), np.array([[0xC]], np.uint8), "f16", False)[0].tolist()
    [[7, 0, 0, 9]]
    """
    stored, whole = chunk_of(fmt, grouped)
    rows, k = codes.shape
    chunks = k // stored
    if metadata.shape != (rows, chunks):
        raise NumericsError(f"metadata: expected [{rows}, {chunks}], one code for {stored} stored elements, got {list(metadata.shape)}")
    source = _sources(stored, whole)[metadata]
    padded = np.zeros((rows, chunks, stored + 1), codes.dtype)
    padded[:, :, :stored] = codes.reshape(rows, chunks, stored)
    return np.take_along_axis(padded, source, axis=2).reshape(rows, -1), (source == stored).reshape(rows, -1)
