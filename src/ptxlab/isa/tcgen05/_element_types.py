"""Packing of the element types of A and B in shared memory and in tensor memory.

Section "Packing formats of elements in Tensor and Shared memory".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.formats import Packing, unpack
from ptxlab.tables import MMA_KINDS, TYPE_BITS

__all__ = ["Format", "format_of"]

Codes = NDArray[Any]


def _same(codes: Codes) -> Codes:
    return codes


@dataclass(frozen=True, slots=True)
class Format:
    """An element type: bits of an element and of its container, and functions that extract the codes.

    ``shared`` takes elements gathered from shared memory, ``tensor`` the cells of a row in tensor memory. ``packed``: the gathered values
    are not yet the codes.
    """

    name: str
    bits: int
    container: int
    shared: Callable[[Codes], Codes]
    tensor: Callable[[NDArray[np.uint32]], Codes]
    packed: bool

    @property
    def slot_bytes(self) -> int:
        """The bytes of a slot of 16 in shared memory that hold elements; padding follows them."""
        return 16 * self.bits // self.container


def _as(container: int) -> Callable[[NDArray[np.uint32]], Codes]:
    dtype = np.dtype(f"u{container // 8}")

    def view(cells: NDArray[np.uint32]) -> Codes:
        return cells.view(dtype)

    return view


def _packed(name: str, packing: Packing) -> Callable[[Codes], Codes]:
    def codes_of(found: Codes) -> Codes:
        return unpack(found.view(np.uint8), name, packing)

    return codes_of


_PADDED: tuple[Packing, Packing] = ("padded", "bytes")
_PACKINGS: dict[tuple[int, int], tuple[Packing, Packing]] = {(6, 8): _PADDED, (4, 8): _PADDED, (4, 4): ("dense", "dense")}
"""(bits, container) -> packing in shared and in tensor memory."""


def _format(name: str, container: int) -> Format:
    bits = TYPE_BITS[name]
    if (bits, container) in _PACKINGS:
        shared, tensor = (_packed(name, packing) for packing in _PACKINGS[bits, container])
        return Format(name, bits, container, shared, tensor, True)
    return Format(name, bits, container, _same, _as(container), False)


_FORMATS = {(kind.name, name): _format(name, kind.container) for kind in MMA_KINDS.values() for name in kind.ab}


def format_of(kind: str, name: str) -> Format:
    """The packing of an element type for a .kind."""
    return _FORMATS[kind, name]
