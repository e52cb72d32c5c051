"""How elements are stored that are smaller than their container.

Sections "Packing formats of elements in Tensor and Shared memory" and "Optional Decompression".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["DECOMPRESSIONS", "PACKINGS", "Packing"]


@dataclass(frozen=True, slots=True)
class Packing:
    """One format.

    Attributes
    ----------
    bits : of an element
    pitch : bits from one element to the next; in padded slots the elements follow each other without gaps and the padding comes last
    low : lowest bit of the element in its container
    slot, data : bytes of a slot with padding, and those of them that hold elements; 0 without padding
    """

    bits: int
    pitch: int
    low: int = 0
    slot: int = 0
    data: int = 0


PACKINGS: Mapping[tuple[str, str, int], Packing] = {
    ("f8f6f4", "tensor memory", 8): Packing(8, 8),
    ("f8f6f4", "tensor memory", 6): Packing(6, 8),
    ("f8f6f4", "tensor memory", 4): Packing(4, 8, low=2),
    ("f8f6f4", "shared memory", 8): Packing(8, 8),
    ("f8f6f4", "shared memory", 6): Packing(6, 6, slot=16, data=12),
    ("f8f6f4", "shared memory", 4): Packing(4, 4, slot=16, data=8),
    ("mxf4",   "tensor memory", 4): Packing(4, 4),
    ("mxf4",   "shared memory", 4): Packing(4, 4),
}  # fmt: skip
"""(kind, memory, element bits) -> packing; ``mxf8f6f4`` is as ``f8f6f4``, ``mxf4nvf4`` as ``mxf4``."""

DECOMPRESSIONS: Mapping[str, tuple[Packing, Packing]] = {
    "b4x16_p64": (PACKINGS["f8f6f4", "shared memory", 4], PACKINGS["f8f6f4", "tensor memory", 4]),
    "b6x16_p32": (PACKINGS["f8f6f4", "shared memory", 6], PACKINGS["f8f6f4", "tensor memory", 6]),
}
"""Source format of tcgen05.cp -> packing of the 16 elements of a slot before and after."""
