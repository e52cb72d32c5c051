"""Enumerations of tensor maps: the driver's numbers, those of tensormap.replace, and the codes in the 128 bytes.

Section "tensormap.replace", table "Tensormap new_val validity", and the driver's ``CUtensorMap`` enumerations.
Swizzling modes are in `ptxlab.tables.TENSOR_MAP_SWIZZLES`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxlab._records import dataclass

__all__ = [
    "ELEMENT_TYPES",
    "ELEMENT_TYPE_NAMES",
    "INTERLEAVES",
    "L2_PROMOTIONS",
    "OOB_FILLS",
    "REPLACE_ELEMENT_TYPES",
    "ElementType",
]


@dataclass(frozen=True, slots=True)
class ElementType:
    """An element type of tensor maps.

    Attributes
    ----------
    name : as PTX writes it
    driver : number in the driver's ``CUtensorMapDataType``
    replace : number of ``tensormap.replace.tile.elemtype``
    code, rounds : the two fields of the map: storage format, and whether values are rounded to tf32
    bits : of one element in global memory
    padded : bytes of data in each 16-byte slot of shared memory; 0 where elements are not padded
    nan : bits that fill mode NaN puts outside the tensor (as an H200 does); None for types that have no NaN
    sm_100 : needs sm_100 or later; the codes of these three are those that CuTe DSL's host code writes
    """

    name: str
    driver: int
    replace: int
    code: int
    rounds: bool
    bits: int
    padded: int = 0
    nan: int | None = None
    sm_100: bool = False

    @property
    def integer(self) -> bool:
        """Whether elements are integers of whole bytes."""
        return self.nan is None and self.bits >= 8


_TYPES = (
    #           name      driver replace code rounds bits
    ElementType("u8",         0,  0,  0, False,  8),
    ElementType("u16",        1,  1,  1, False, 16),
    ElementType("u32",        2,  2,  2, False, 32),
    ElementType("s32",        3,  3,  3, False, 32),
    ElementType("u64",        4,  4,  4, False, 64),
    ElementType("s64",        5,  5,  5, False, 64),
    ElementType("f16",        6,  6,  6, False, 16, nan=0x7FF7),
    ElementType("f32",        7,  7,  7, False, 32, nan=0x7FF77FF7),
    ElementType("f64",        8,  9,  9, False, 64, nan=0x7FF77FF77FF77FF7),
    ElementType("bf16",       9, 10, 10, False, 16, nan=0x7FF7),
    ElementType("f32.ftz",   10,  8,  8, False, 32, nan=0x7FF77FF7),
    ElementType("tf32",      11, 11,  7, True,  32, nan=0x7FF77FF7),
    ElementType("tf32.ftz",  12, 12,  8, True,  32, nan=0x7FF77FF7),
    ElementType("b4x16",     13, 13, 11, False,  4, sm_100=True),
    ElementType("b4x16_p64", 14, 14, 12, False,  4, padded=8, sm_100=True),
    ElementType("b6x16_p32", 15, 15, 13, False,  6, padded=12, sm_100=True),
)  # fmt: skip

ELEMENT_TYPES: Mapping[int, ElementType] = {t.driver: t for t in _TYPES}
"""By the driver's number."""

ELEMENT_TYPE_NAMES: Mapping[str, ElementType] = {t.name: t for t in _TYPES}

REPLACE_ELEMENT_TYPES: Mapping[int, ElementType] = {t.replace: t for t in _TYPES}
"""By the number of ``tensormap.replace``."""

INTERLEAVES: Mapping[int, str] = {0: "none", 1: "16B", 2: "32B"}
L2_PROMOTIONS: Mapping[int, str] = {0: "none", 1: "64B", 2: "128B", 3: "256B"}
OOB_FILLS: Mapping[int, str] = {0: "none", 1: "nan"}
