"""The swizzle of shared memory addresses: section "Shared Memory Layout and Swizzling"."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxlab.tables import PHASE_SHIFT, SWIZZLES, SwizzleMode

__all__ = ["matrix_base_offset", "swizzle_addresses", "swizzle_bytes"]


def swizzle_bytes(address: NDArray[np.int64], swizzle: str, base_offset: int = 0) -> NDArray[np.int64]:
    """The address in shared memory of the byte at a linear address.

    Parameters
    ----------
    address : absolute byte addresses in shared memory: the bits of the address itself count, not those of an offset into a tile
    swizzle : ``none``, ``32B``, ``64B``, ``128B`` or ``128B_32B`` (128B swizzling with 32B atomicity)
    base_offset : the descriptor's matrix base offset; it is subtracted from the number of the 128-byte row that the phase is taken from

    Examples
    --------
    >>> swizzle_bytes(np.array([0x80, 0x90, 0x390]), "128B").tolist()
    [144, 128, 992]
    """
    return swizzle_addresses(address, SWIZZLES[swizzle], base_offset)


def swizzle_addresses(address: NDArray[np.int64], mode: SwizzleMode, base_offset: int = 0) -> NDArray[np.int64]:
    """`swizzle_bytes` for any mode of descriptors or tensor maps."""
    if mode.bits:
        row = (address >> PHASE_SHIFT) - base_offset
        address = address ^ (row & ((1 << mode.bits) - 1)) << mode.base
    if mode.flip:
        address = address ^ (address >> PHASE_SHIFT & 1) << 3
    return address


def matrix_base_offset(pattern_start: int, swizzle: str) -> int:
    """The matrix base offset of a tile whose swizzle pattern begins at an address: section "Shared memory descriptor".

    0 where the address is on the boundary of table "Starting address of repeating pattern for various swizzling modes".

    Examples
    --------
    >>> matrix_base_offset(0x400, "128B"), matrix_base_offset(0x480, "128B"), matrix_base_offset(0x480, "32B")
    (0, 1, 1)
    """
    mode = SWIZZLES[swizzle]
    return pattern_start >> PHASE_SHIFT & 7 if mode.bits and pattern_start % mode.repeat else 0
