"""The element types of the tensor cores, as data (sections "Fundamental Types", "Alternate floating-point data formats")."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.diagnostics import PtxlabError, diagnose
from ptxlab.formats._arrays import array_of

__all__ = ["FORMATS", "NUMPY_TYPES", "Format", "FormatError", "bits_of", "codes_array", "find"]

_BYTE, _HALF, _WORD = np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32)


class FormatError(PtxlabError, ValueError):
    """A format, value or mode that does not exist or does not fit."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(diagnose("N102", message, fix=fix))


@dataclass(frozen=True, slots=True)
class Format:
    """An element type.

    Attributes
    ----------
    name : as PTX spells it
    bits : bits of a code, right-aligned in its container; tf32 has the 32 bits of its container
    exponent, mantissa : field widths; 0 exponent bits: an integer
    bias : of the exponent
    signed : whether the top bit is a sign; in ue4m3 the top bit is ignored
    inf : magnitude code of infinity, if there is one
    nan : smallest magnitude code of a NaN, if there are any
    dropped : low bits of the container that are cleared before everything else
    """

    name: str
    bits: int
    exponent: int
    mantissa: int
    bias: int
    signed: bool = True
    inf: int | None = None
    nan: int | None = None
    dropped: int = 0

    @property
    def is_integer(self) -> bool:
        """Whether this is an integer type."""
        return self.exponent == 0

    @property
    def emin(self) -> int:
        """The exponent of subnormal numbers and of the smallest normal ones."""
        return 1 - self.bias

    @property
    def magnitude_mask(self) -> int:
        """The bits of a code below the sign that take part."""
        return ((1 << (self.exponent + self.mantissa)) - 1) << self.dropped

    @property
    def sign_mask(self) -> int:
        """The sign bit, or 0."""
        return 1 << (self.bits - 1) if self.signed else 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned dtype that holds a code."""
        return _BYTE if self.bits <= 8 else _HALF if self.bits <= 16 else _WORD


def _ieee(name: str, bits: int, exponent: int, mantissa: int, dropped: int = 0) -> Format:
    infinity = ((1 << exponent) - 1) << (mantissa + dropped)
    return Format(name, bits, exponent, mantissa, (1 << (exponent - 1)) - 1, True, infinity, infinity + (1 << dropped), dropped)


FORMATS: dict[str, Format] = {
    row.name: row
    for row in (
        _ieee("f32", 32, 8, 23),
        _ieee("tf32", 32, 8, 10, dropped=13),
        _ieee("f16", 16, 5, 10),
        _ieee("bf16", 16, 8, 7),
        _ieee("e5m2", 8, 5, 2),
        Format("e4m3", 8, 4, 3, 7, nan=0x7F),
        Format("e3m2", 6, 3, 2, 3),
        Format("e2m3", 6, 2, 3, 1),
        Format("e2m1", 4, 2, 1, 1),
        Format("ue8m0", 8, 8, 0, 127, signed=False, nan=0xFF),
        Format("ue4m3", 8, 4, 3, 7, signed=False, nan=0x7F),
        Format("s8", 8, 0, 7, 0),
        Format("u8", 8, 0, 8, 0, signed=False),
    )
}


NUMPY_TYPES = {
    "f32": "float32", "tf32": "float32", "f16": "float16", "bf16": "bfloat16", "e5m2": "float8_e5m2", "e4m3": "float8_e4m3fn",
    "e3m2": "float6_e3m2fn", "e2m3": "float6_e2m3fn", "e2m1": "float4_e2m1fn", "ue8m0": "float8_e8m0fnu", "ue4m3": "float8_e4m3fn",
    "s8": "int8", "s32": "int32",
}  # fmt: skip
"""Names of element types -> names of the types of NumPy and ml_dtypes with the same codes."""


def bits_of(given: Any, name: str) -> NDArray[Any]:
    """The elements of an array, as unsigned words if its type is that of the name in NumPy or ml_dtypes, else as they are.

    Examples
    --------
    >>> bits_of(np.ones(2, np.float16), "f16")
    array([15360, 15360], dtype=uint16)
    """
    found = array_of(given)
    array = np.asarray(given) if found is None else found
    dtype = array.dtype
    return array.view(f"u{dtype.itemsize}") if dtype.kind != "u" and _name(dtype) == NUMPY_TYPES.get(name) else array


@cache
def _name(dtype: np.dtype[Any]) -> str:
    """The name of a type, which NumPy computes anew each time."""
    return dtype.name


def find(name: str) -> Format:
    """The format of a name."""
    try:
        return FORMATS[name]
    except KeyError:
        raise FormatError(f"no element type {name!r}; there are {', '.join(FORMATS)}") from None


def codes_array(codes: Any, row: Format) -> NDArray[Any]:
    """Codes as an array; values that are not codes of the type are refused."""
    array = bits_of(codes, row.name)
    if array.dtype.kind not in "ui" or (array.size and (int(array.min()) < 0 or int(array.max()) >> row.bits)):
        fix = f"pass the bit patterns: array.view(np.uint{8 * array.dtype.itemsize})" if array.dtype.kind == "f" else ""
        raise FormatError(f"{row.name} codes are unsigned integers below 2^{row.bits}; got {array.dtype}", fix)
    return array
