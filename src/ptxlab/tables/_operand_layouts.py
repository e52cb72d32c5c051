"""Layouts of operands in shared memory, their swizzles, and how elements are stored that are smaller than their container.

Sections "Shared Memory Layout and Swizzling", "Canonical Layouts" and what they refer to, "Packing formats of elements in Tensor and Shared
memory" and "Optional Decompression".
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxlab._records import dataclass

__all__ = [
    "CANONICAL_LAYOUTS",
    "DECOMPRESSIONS",
    "PACKINGS",
    "PHASE_SHIFT",
    "STRIDE_ROLES",
    "SWIZZLES",
    "SWIZZLE_ATOMS",
    "TENSOR_MAP_SWIZZLES",
    "TRANSPOSED_SWIZZLES",
    "Canonical",
    "Packing",
    "SwizzleMode",
]

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


SWIZZLE_ATOMS: Mapping[str, Mapping[str, tuple[int, int] | None]] = {
    #                 M/N                 K
    "128B_32B": {"mn": (8, 4), "k": None},
    "128B":     {"mn": (8, 8), "k": (8, 8)},
    "64B":      {"mn": (4, 8), "k": (8, 4)},
    "32B":      {"mn": (2, 8), "k": (8, 2)},
    "none":     {"mn": (1, 8), "k": (8, 1)},
}  # fmt: skip
"""Swizzling mode -> leading dimension -> shape of the atom in elements of 128 bits.

Table "Layout for swizzle atoms"; without its first row it is wgmma's "Various combinations of swizzling mode, leading dimension and
swizzle-atom layout".
"""


@dataclass(frozen=True, slots=True)
class Canonical:
    """A row of the table of canonical layouts: the layout in elements, and the swizzle of the byte address it is seen through."""

    layout: str
    swizzle: str


CANONICAL_LAYOUTS: Mapping[tuple[str, str], Canonical] = {
    ("mn", "none"):     Canonical("((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))", "Swizzle<0,4,3>"),
    ("mn", "32B"):      Canonical("((T,2,m),(8,k)):((1,T,LBO),(2T,SBO))", "Swizzle<1,4,3>"),
    ("mn", "64B"):      Canonical("((T,4,m),(8,k)):((1,T,LBO),(4T,SBO))", "Swizzle<2,4,3>"),
    ("mn", "128B"):     Canonical("((T,8,m),(8,k)):((1,T,LBO),(8T,SBO))", "Swizzle<3,4,3>"),
    ("mn", "128B_32B"): Canonical("((T,8,m),(4,k)):((1,T,LBO),(8T,SBO))", "Swizzle<2,5,2>"),
    ("k", "none"):      Canonical("((8,m),(T,2k)):((1T,SBO),(1,LBO))", "Swizzle<0,4,3>"),
    ("k", "32B"):       Canonical("((8,m),(T,2k)):((2T,SBO),(1,T))", "Swizzle<1,4,3>"),
    ("k", "64B"):       Canonical("((8,m),(T,2k)):((4T,SBO),(1,T))", "Swizzle<2,4,3>"),
    ("k", "128B"):      Canonical("((8,m),(T,2k)):((8T,SBO),(1,T))", "Swizzle<3,4,3>"),
    ("k", "128B_32B"):  Canonical("((8,m),(T,2k)):((8T,SBO),(1,T))", "Swizzle<2,5,2>"),
}  # fmt: skip
"""(major-ness, swizzling mode) -> canonical layout. The rows of 32B atomicity follow from the atom; the specification has none."""

STRIDE_ROLES: Mapping[tuple[str, bool], tuple[str, str]] = {
    ("k", False):  ("from one column of 16 bytes to the next", "from 8 rows to the next 8"),
    ("k", True):   ("not used", "from 8 rows to the next 8"),
    ("mn", False): ("from 8 columns (steps of k) to the next 8", "from one row of 16 bytes to the next"),
    ("mn", True):  ("from one width of the swizzle to the next, along M or N", "from the lines of one atom (steps of k) to the next"),
}  # fmt: skip
"""(major-ness, swizzled) -> what the leading and the stride dimension byte offset mean: section "Strides"."""

TRANSPOSED_SWIZZLES: Mapping[int, tuple[str, ...]] = {
    8:  ("none", "32B", "64B", "128B"),
    16: ("none", "32B", "64B", "128B"),
    32: ("128B_32B",),
}  # fmt: skip
"""Element bits -> swizzling modes of an MN-major operand; K-major ones may have every size and mode.

Table "Valid Combinations of Type-Size, Major-ness and Swizzling".
"""


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
