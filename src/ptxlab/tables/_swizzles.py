"""Swizzling modes of shared memory: sections "Shared Memory Layout and Swizzling" and "Shared memory descriptor"."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PHASE_SHIFT", "SWIZZLES", "SwizzleMode"]

PHASE_SHIFT = 7
"""Every mode takes its phase from the address bits that begin here: a row of 128 bytes."""


@dataclass(frozen=True, slots=True)
class SwizzleMode:
    """One mode: address bits [base, base+bits) are XORed with the bits that begin at `PHASE_SHIFT`.

    Attributes
    ----------
    name : as the API writes it
    tcgen05, wgmma : code in the two shared-memory descriptors; None where the instruction has no such mode
    width : bytes of one row of the swizzle atom; 16 without swizzling
    atom : bytes that stay together
    bits, base : size and place of the bits that change
    lines : rows of the atom in MN-major (steps of k)
    """

    name: str
    tcgen05: int
    wgmma: int | None
    width: int
    atom: int
    bits: int
    base: int
    lines: int

    @property
    def repeat(self) -> int:
        """Bytes after which the pattern repeats: table "Starting address of repeating pattern for various swizzling modes"."""
        return 1 << (PHASE_SHIFT + self.bits) if self.bits else 16


SWIZZLES: dict[str, SwizzleMode] = {
    mode.name: mode
    for mode in (
        #           name       tcgen05 wgmma width atom bits base lines
        SwizzleMode("none",          0,    0,   16,  16,   0,   4,   8),
        SwizzleMode("32B",           6,    3,   32,  16,   1,   4,   8),
        SwizzleMode("64B",           4,    2,   64,  16,   2,   4,   8),
        SwizzleMode("128B",          2,    1,  128,  16,   3,   4,   8),
        SwizzleMode("128B_32B",      1, None,  128,  32,   2,   5,   4),
    )
}  # fmt: skip
