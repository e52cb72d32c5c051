"""Boxes of tensor maps in tiled mode, element by element: sections "Tensors: Tiled Mode" and "Swizzling Modes".

The package copies whole rows and chunks (`ptxlab.isa.bulk`); nothing of that is used here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.descriptors import TensorMapFields

Array = NDArray[np.int64]

WIDTHS = {0: 0, 1: 32, 2: 64, 3: 128, 4: 128, 5: 128, 6: 128}
"""Driver's number of a swizzling mode -> bytes of a row of its atom."""


class TmaBox(NamedTuple):
    """For every element of a box, outermost dimension first.

    Attributes
    ----------
    offset : byte offset from the global address; meaningless where the element is outside
    inside : whether the element lies in the tensor
    shared : byte offset from the box's address in shared memory
    """

    offset: Array
    inside: NDArray[np.bool_]
    shared: Array


def tma_box(fields: TensorMapFields, coordinates: Sequence[int], shared_address: int = 0) -> TmaBox:
    """Where each element of a copy lies in global and in shared memory.

    Parameters
    ----------
    fields : a decoded tensor map without interleave, its elements of 8 bits or more
    coordinates : of the box's first element, innermost dimension first; negative ones and ones beyond the tensor are allowed
    shared_address : of the box in shared memory; the swizzle depends on its low bits
    """
    size = fields.element.bits // 8
    # The traversal stride of dimension 0 counts for nothing without interleave.
    steps = (1, *fields.element_strides[1:])
    counts = [-(-box // step) for box, step in zip(fields.box, steps, strict=True)]
    index = np.indices(counts[::-1])[::-1]
    offset, inside = np.zeros(counts[::-1], np.int64), np.ones(counts[::-1], bool)
    for i, at, step, pitch, extent in zip(index, coordinates, steps, (size, *fields.strides), fields.dims, strict=True):
        place = at + i * step
        offset += place * pitch
        inside &= (place >= 0) & (place < extent)
    row = np.arange(int(np.prod(counts[1:]))).reshape([*counts[:0:-1], 1])
    # A row takes the whole width of the swizzle, however short it is.
    linear = shared_address + row * max(counts[0] * size, WIDTHS[fields.swizzle]) + index[0] * size
    return TmaBox(offset, inside, swizzled(linear, fields.swizzle) - shared_address)


def swizzled(address: Array, swizzle: int) -> Array:
    """The chunk pictures of the specification."""
    row, place = np.divmod(address, 128)
    if swizzle in (1, 2, 3):
        place = place ^ (row % 2**swizzle) * 16
    elif swizzle in (4, 5):
        place = place ^ (row % 4) * 32
    elif swizzle == 6:
        place = place ^ (row % 2) * 64
    if swizzle == 5:
        place = place ^ (row % 2) * 8
    found: Array = row * 128 + place
    return found
