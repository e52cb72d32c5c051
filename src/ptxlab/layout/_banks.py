"""Bank conflicts of accesses to shared memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ptxlab.layout.cute import LayoutError

__all__ = ["BANKS", "BankConflicts", "bank_conflicts", "matrix_rows"]

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
        ways.append(int(np.bincount(np.unique(phase) % BANKS, minlength=BANKS).max()))
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
