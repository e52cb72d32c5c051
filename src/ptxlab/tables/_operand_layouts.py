"""Layouts of operands in shared memory: sections "Shared Memory Layout and Swizzling", "Canonical Layouts" and what they refer to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["CANONICAL_LAYOUTS", "STRIDE_ROLES", "SWIZZLE_ATOMS", "TRANSPOSED_SWIZZLES", "Canonical"]

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
