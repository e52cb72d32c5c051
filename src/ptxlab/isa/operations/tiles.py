"""Which data a copy places in shared memory.

An asynchronous operation that copies boxes of arrays to shared memory says so (`AsyncOperation.tiles`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa.context import Cta

__all__ = ["CHUNK", "CopiedBytes", "CopiedTile", "TileArray"]

CHUNK = 16
"""Bytes that every swizzle and every canonical layout keeps together."""


@dataclass(frozen=True, slots=True, eq=False)
class TileArray:
    """An array in global memory as a tensor map describes it; two maps are two arrays.

    Attributes
    ----------
    element : the element type that the map names
    counts : size of the box, innermost first, the innermost dimension in chunks
    regular : whether coordinates say where in the array a box lies (not for im2col and gathered rows)
    swizzle : the swizzling mode, by its name in shared-memory descriptors; empty if descriptors have no such mode
    per_chunk : elements in a chunk of shared memory
    address : of the first element
    whole_rows : whether a row of the box is a row of the array, which may be arranged in blocks of columns
    """

    element: str
    counts: tuple[int, ...]
    regular: bool
    swizzle: str
    per_chunk: int
    address: int
    whole_rows: bool


@dataclass(slots=True, eq=False)
class CopiedTile:
    """A box that is copied to shared memory.

    Attributes
    ----------
    array, coordinates : the box in the array
    cta, offset, size : its first byte in shared memory, and the number of bytes from there to its end
    chunks : for each chunk of the box, in order of the array, its chunk in shared memory, counted from ``offset``
    contents : returns the bytes of the box in order of the array, as the copy writes them
    address, places : of the first chunk of the box in global memory, and of each chunk its distance in bytes from there; None if a part
        of the box is outside the array, or if it is converted
    data : the bytes of a chunk that come from global memory, the first ones; padding follows them
    """

    array: TileArray
    coordinates: tuple[int, ...]
    cta: Cta
    offset: int
    size: int
    chunks: NDArray[np.intp]
    contents: Callable[[], NDArray[np.uint8]]
    address: int = 0
    places: NDArray[np.int64] | None = None
    data: int = CHUNK


class CopiedBytes(NamedTuple):
    """Contiguous bytes that are copied to shared memory as they are.

    Attributes
    ----------
    cta, offset, size : the bytes in shared memory
    address : the global address from which they come, if they come from global memory
    origin : the CTA and the offset of the bytes in its shared memory from which they come, if they do
    words : if they come from registers, from where each word has been loaded (`WarpContext.loaded_from`)
    """

    cta: Cta
    offset: int
    size: int
    address: int | None
    origin: tuple[Cta, int] | None = None
    words: NDArray[np.uint64] | None = None
