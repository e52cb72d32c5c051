"""Swizzling modes of shared memory.

Sections "Shared Memory Layout and Swizzling", "Shared memory descriptor", "Swizzling Modes" and "tensormap.replace", and the driver's
``CUtensorMapSwizzle``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["PHASE_SHIFT", "SWIZZLES", "TENSOR_MAP_SWIZZLES", "SwizzleMode"]

PHASE_SHIFT = 7
"""Every mode takes its phase from the address bits that begin here: a row of 128 bytes."""


@dataclass(frozen=True, slots=True)
class SwizzleMode:
    """One mode: address bits [base, base+bits) are XORed with the bits that begin at `PHASE_SHIFT`.

    Attributes
    ----------
    name : as the API writes it
    tcgen05, wgmma : code in the two shared-memory descriptors; None where the instruction has no such mode
    driver : number in the driver's ``CUtensorMapSwizzle``
    mode, atomicity : the two fields of a tensor map, and the values of tensormap.replace
    width : bytes of one row of the swizzle atom; 16 without swizzling
    bits, base : number and position of the bits that change
    lines : rows of the atom in MN-major (steps of k)
    flip : whether the halves of each 16 bytes are exchanged in odd rows of 128 bytes
    """

    name: str
    tcgen05: int | None
    wgmma: int | None
    driver: int
    mode: int
    atomicity: int
    width: int
    bits: int
    base: int
    lines: int = 8
    flip: bool = False

    @property
    def repeat(self) -> int:
        """Bytes after which the pattern repeats: table "Starting address of repeating pattern for various swizzling modes"."""
        return 1 << (PHASE_SHIFT + self.bits) if self.bits else 16


_MODES = (
    #           name             tcgen05 wgmma driver mode atom width bits base
    SwizzleMode("none",               0,    0,     0,   0,   0,   16,   0,   4),
    SwizzleMode("32B",                6,    3,     1,   1,   0,   32,   1,   4),
    SwizzleMode("64B",                4,    2,     2,   2,   0,   64,   2,   4),
    SwizzleMode("128B",               2,    1,     3,   3,   0,  128,   3,   4),
    SwizzleMode("128B_32B",           1, None,     4,   3,   1,  128,   2,   5, lines=4),
    SwizzleMode("128B_32B_flip_8B", None, None,    5,   3,   2,  128,   2,   5, flip=True),
    SwizzleMode("128B_64B",        None, None,     6,   3,   3,  128,   1,   6),
)  # fmt: skip

SWIZZLES: Mapping[str, SwizzleMode] = {mode.name: mode for mode in _MODES if mode.tcgen05 is not None}
"""Name -> mode, of the modes that shared-memory descriptors have."""

TENSOR_MAP_SWIZZLES: Mapping[int, SwizzleMode] = {mode.driver: mode for mode in _MODES}
"""Driver's number -> mode; 4 and above need sm_100."""
