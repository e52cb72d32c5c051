"""An operand in the form that the machine keeps: its layout, and the memory that holds it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.formats import FORMATS
from ptxlab.native import address_of
from ptxlab.numerics.ir import prepare_groups
from ptxlab.numerics.ir.prepare import CHUNK, HEADER, NAN_SCALE, absent_exponent, has_pairs

__all__ = ["BLOCK", "Layout", "Prepared", "layout_of"]

BLOCK = 64
"""The number of rows that kernels process at once; a prepared A is padded to a multiple of it."""


@cache
def _extent(fmt: str, role: str, rows: int, k: int, wide: bool, groups: int) -> tuple[int, int]:
    """Elements of a line with its padding, and bytes of the buffer, in which the header has to begin at a multiple of 64."""
    pairs = has_pairs(FORMATS[fmt])
    element, row = 4 + (3 if wide else 1) + 2 * pairs, 8 + 8 * pairs
    padded_rows = -(-rows // BLOCK) * BLOCK
    if groups:
        padded = padded_rows if role == "a" else rows
        size = prepare_groups.extent(padded, k, groups)
    elif role == "a":
        padded = padded_rows
        size = padded * (k * element + row)
    else:
        padded = -(-k // CHUNK) * CHUNK
        size = rows * (padded * element + row)
    return padded, HEADER + 64 + size


_NOTHING = np.empty(0, np.uint8)
_MOST_UNUSED = 32
_unused: dict[int, list[NDArray[np.uint8]]] = {}
"""Memory of operands that are gone, by its size: new memory costs a page fault for each of its pages."""


def _buffer(size: int) -> NDArray[np.uint8]:
    """Memory for an operand."""
    try:
        return _unused[size].pop()
    except (KeyError, IndexError):
        return np.empty(size, np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """What two operands must have in common: the attributes of `Prepared`, and the stored elements of a row; `layout_of` makes it."""

    fmt: str
    role: str
    k: int
    stored: int
    wide: bool
    scale: tuple[str, int] | None
    groups: int


layout_of = cache(Layout)
"""Equal layouts are one object, which is quickly found in a cache."""


class Prepared:
    """An operand ready to be multiplied: values, exponents and flags as `numerics.ir.prepare` or `numerics.ir.group` lays them out.

    Attributes
    ----------
    layout : all that decides with which operands it can be multiplied, and by which function
    """

    __slots__ = ("_buffer", "address", "fmt", "groups", "k", "layout", "padded", "role", "rows", "scale", "wide")

    def __init__(self, fmt: str, role: str, rows: int, k: int, wide: bool, scale: tuple[str, int] | None = None, groups: int = 0) -> None:
        self.fmt, self.role, self.rows, self.k, self.wide, self.scale, self.groups = fmt, role, rows, k, wide, scale, groups
        self.layout = layout_of(fmt, role, k, k, wide, scale, groups)
        self.padded, size = _extent(fmt, role, rows, k, wide, groups)
        self._buffer = _buffer(size)
        self.address = (address_of(self._buffer) + 63) & -64

    def __repr__(self) -> str:
        sparse = ", sparse" if self.layout.stored != self.k else ""
        return f"Prepared({self.fmt} {self.role.upper()}, {self.rows} rows, k = {self.k}{sparse})"

    def recycle(self) -> None:
        """Leave the memory to the next operand of this size; this one can no longer be used."""
        if len(_unused) >= _MOST_UNUSED:
            _unused.clear()
        _unused.setdefault(len(self._buffer), []).append(self._buffer)
        self._buffer = _NOTHING

    def words(self) -> NDArray[np.uint8]:
        """The bytes of the operand, from the header on."""
        return self._buffer[self.address - address_of(self._buffer) :]

    def _lines(self) -> tuple[int, int]:
        """How many lines of ``padded`` elements there are, and how many rows have a flag."""
        return (self.k, self.padded) if self.role == "a" else (self.rows, self.rows)

    def forget(self, absent: NDArray[np.bool_]) -> None:
        """Mark elements [rows, k] as not stored."""
        if FORMATS[self.fmt].is_integer:
            return
        lines, flagged = self._lines()
        first = HEADER + 4 * lines * self.padded
        self._mark(first, np.dtype(np.int16 if self.wide else np.uint8), absent, absent_exponent(self.wide))
        if self.wide:
            self._mark(first + 2 * lines * self.padded + 4 * flagged, np.dtype(np.uint8), absent, absent_exponent(False))

    def _mark(self, first: int, dtype: np.dtype[Any], absent: NDArray[np.bool_], exponent: int) -> None:
        lines, _ = self._lines()
        exponents = self.words()[first : first + dtype.itemsize * lines * self.padded].view(dtype).reshape(lines, self.padded)
        here = exponents[:, : self.rows] if self.role == "a" else exponents[:, : self.k]
        here[absent.T if self.role == "a" else absent] = exponent

    def add_scales(self, scales: NDArray[np.uint8]) -> None:
        """Write one ue8m0 scale for each row, after the flags; a NaN flags its row."""
        lines, flagged = self._lines()
        first = HEADER + lines * self.padded * (6 if self.wide else 5)
        words = self.words()
        flags, exponents = (words[start : start + 4 * flagged].view(np.int32) for start in (first, first + 4 * flagged))
        codes = scales[:, 0]
        is_nan = codes == 0xFF
        exponents[self.rows :] = 0
        exponents[: self.rows] = np.where(is_nan, NAN_SCALE, codes.astype(np.int32) - 127)
        flags[: self.rows] |= is_nan
        words[32:40] = np.array([self.address + first + 4 * flagged], np.int64).view(np.uint8)
