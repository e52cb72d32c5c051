"""Boxes of tensor maps in tiled mode: which element goes where. Section "Tensors: Tiled Mode" and "Swizzling Modes"."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ptxlab.tables import PHASE_SHIFT, TENSOR_MAP_SWIZZLES, ElementType

__all__ = ["TensorMapGeometry", "TmaBox", "tma_box"]

_PATTERN = 1024
"""Every swizzle pattern repeats within so many bytes."""


class TensorMapGeometry(Protocol):
    """What a box depends on; `ptxlab.descriptors.TensorMapFields` has it."""

    @property
    def element(self) -> ElementType: ...
    @property
    def dims(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def box(self) -> tuple[int, ...]: ...
    @property
    def element_strides(self) -> tuple[int, ...]: ...
    @property
    def swizzle(self) -> int: ...


class TmaBox(NamedTuple):
    """For every element of a box, outermost dimension first.

    Attributes
    ----------
    offset : byte offset from the global address; meaningless where the element is outside
    inside : whether the element lies in the tensor
    shared : byte offset from the box's address in shared memory
    """

    offset: NDArray[np.int64]
    inside: NDArray[np.bool_]
    shared: NDArray[np.int64]


def tma_box(fields: TensorMapGeometry, coordinates: Sequence[int], shared_address: int = 0) -> TmaBox:
    """Where each element of a copy lies in global and in shared memory.

    Parameters
    ----------
    fields : a decoded tensor map without interleave, its elements of 8 bits or more
    coordinates : of the box's first element, innermost dimension first; negative ones and ones beyond the tensor are allowed
    shared_address : of the box in shared memory; the swizzle depends on its low bits

    Examples
    --------
    >>> from ptxlab.descriptors import TensorMap
    >>> tm = TensorMap(np.zeros((256, 512), np.float16), box=(64, 128), swizzle="128B")
    >>> box = tma_box(tm.fields, (0, 2))
    >>> box.offset[1, 8], box.inside.all(), box.shared[1, [0, 8]].tolist()
    (np.int64(3088), np.True_, [144, 128])
    """
    size = fields.element.bits // 8
    # The traversal stride of dimension 0 counts for nothing without interleave.
    steps = (1, *fields.element_strides[1:])
    counts = tuple(-(-box // step) for box, step in zip(fields.box, steps, strict=True))
    pitches = (size, *fields.strides)
    offset = _offsets(counts, steps, pitches) + sum(at * pitch for at, pitch in zip(coordinates, pitches, strict=True))
    shared = _shared(counts, size, fields.swizzle, shared_address % _PATTERN)
    return TmaBox(offset, _inside(counts, steps, tuple(fields.dims), tuple(coordinates)), shared)


@lru_cache(maxsize=256)
def _offsets(counts: tuple[int, ...], steps: tuple[int, ...], pitches: tuple[int, ...]) -> NDArray[np.int64]:
    found = np.zeros((1,) * len(counts), np.int64)
    for d, (count, step, pitch) in enumerate(zip(counts, steps, pitches, strict=True)):
        found = found + _along(np.arange(count, dtype=np.int64) * (step * pitch), d, len(counts))
    found.setflags(write=False)
    return found


@lru_cache(maxsize=256)
def _shared(counts: tuple[int, ...], size: int, swizzle: int, phase: int) -> NDArray[np.int64]:
    mode = TENSOR_MAP_SWIZZLES[swizzle]
    row = counts[0] * size
    rows = np.arange(int(np.prod(counts[1:])), dtype=np.int64)[:, None]
    # A row takes the whole width of the swizzle, however short it is.
    address = phase + rows * max(row, mode.width) + np.arange(counts[0], dtype=np.int64)[None, :] * size
    address ^= (address >> PHASE_SHIFT & ((1 << mode.bits) - 1)) << mode.base
    if mode.flip:
        address ^= (address >> PHASE_SHIFT & 1) << 3
    found: NDArray[np.int64] = (address - phase).reshape(counts[::-1])
    found.setflags(write=False)
    return found


@lru_cache(maxsize=256)
def _inside(counts: tuple[int, ...], steps: tuple[int, ...], dims: tuple[int, ...], coordinates: tuple[int, ...]) -> NDArray[np.bool_]:
    found = np.ones(counts[::-1], bool)
    for d, (count, step, size, at) in enumerate(zip(counts, steps, dims, coordinates, strict=True)):
        last = at + (count - 1) * step
        if at < 0 or last >= size:
            place = at + np.arange(count, dtype=np.int64) * step
            found &= _along((place >= 0) & (place < size), d, len(counts))
    found.setflags(write=False)
    return found


def _along(values: NDArray[Any], dimension: int, rank: int) -> NDArray[Any]:
    """Give the axis of a dimension; axes are outermost first."""
    return values.reshape([-1 if axis == rank - 1 - dimension else 1 for axis in range(rank)])
