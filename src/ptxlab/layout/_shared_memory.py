"""Shared memory: the swizzle of addresses (section "Shared Memory Layout and Swizzling"), and bank conflicts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ptxlab._arrays import distinct
from ptxlab.layout.cute import LayoutError
from ptxlab.tables import PHASE_SHIFT, SWIZZLES, SwizzleMode

__all__ = ["BANKS", "BankConflicts", "bank_conflicts", "matrix_base_offset", "matrix_rows", "swizzle_addresses", "swizzle_bytes"]


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


BANKS = 32
"""Banks of 4 bytes each."""

_PHASE_BYTES = 128


class BankConflicts(NamedTuple):
    """The cost of an access by one warp.

    Attributes
    ----------
    banks : first bank of each thread
    ways : for each phase (the threads that are served together) the most words that one bank must deliver
    """

    banks: NDArray[np.int64]
    ways: tuple[int, ...]

    @property
    def wavefronts(self) -> int:
        """Passes that the access takes."""
        return sum(self.ways)

    @property
    def free(self) -> bool:
        """Whether no two threads of a phase access different words of one bank."""
        return max(self.ways) == 1


def bank_conflicts(addresses: ArrayLike, size: int = 4) -> BankConflicts:
    """Conflicts of ld.shared or st.shared; of ldmatrix or stmatrix with the row addresses and ``size=16``.

    Parameters
    ----------
    addresses : byte address of each thread of the warp (or of each row of the matrices), aligned to ``size``
    size : bytes of each access: 1, 2, 4, 8 or 16; threads are served together up to 128 bytes: the warp, a half of it, or a quarter

    Examples
    --------
    >>> bank_conflicts(np.arange(32) * 128).ways
    (32,)
    >>> from ptxlab.descriptors import SharedMemoryDescriptor
    >>> from ptxlab.layout import operand_addresses
    >>> tile = operand_addresses(SharedMemoryDescriptor(stride=1024, swizzle="128B"), 64, 64, 16)
    >>> bank_conflicts(matrix_rows(tile, 0, 8, matrices=4), size=16).ways
    (1, 1, 1, 1)
    """
    if size not in (1, 2, 4, 8, 16):
        raise LayoutError(f"an access of {size} bytes; it can be 1, 2, 4, 8 or 16")
    address = np.asarray(addresses, np.int64).reshape(-1)
    together = min(len(address), _PHASE_BYTES // max(size, 4))
    words = max(size // 4, 1)
    ways = []
    for first in range(0, len(address), together):
        phase = address[first : first + together, None] // 4 + np.arange(words, dtype=np.int64)
        # Threads that access the same word are served together.
        ways.append(int(np.bincount(distinct(phase) % BANKS, minlength=BANKS).max()))
    return BankConflicts(address // 4 % BANKS, tuple(ways))


def matrix_rows(addresses: NDArray[np.int64], row: int, column: int, matrices: int = 4) -> NDArray[np.int64]:
    """Row addresses of ldmatrix or stmatrix over a tile: 8x8 matrices of 16-bit elements, one below the other.

    Parameters
    ----------
    addresses : as of `operand_addresses`, ``[rows, k]``
    row, column : the first element
    matrices : 1, 2 or 4
    """
    return addresses[row : row + 8 * matrices, column]
