"""Operands of tcgen05 instructions in registers: tensor memory addresses and the zero-column mask descriptor.

Sections "Tensor Memory Addressing" and "Zero-Column Mask Descriptor".
"""

from __future__ import annotations

from typing import Any, ClassVar

from ptxlab._records import dataclass
from ptxlab.descriptors._bitfields import BitDescriptor, BitField, BitFormat, Finding
from ptxlab.tables import TENSOR_MEMORY_COLUMNS, TENSOR_MEMORY_LANES

__all__ = ["TENSOR_ADDRESS_FORMAT", "ZERO_COLUMN_FORMAT", "TensorMemoryAddress", "ZeroColumnMask"]


TENSOR_ADDRESS_FORMAT = BitFormat(
    "tensor memory address",
    "Tensor Memory Addressing",
    32,
    (BitField("column", 0, 16, "Column index"), BitField("lane", 16, 16, "Lane index")),
)


@dataclass(frozen=True, slots=True)
class TensorMemoryAddress(BitDescriptor):
    """A 32-bit address: lane and column.

    Examples
    --------
    >>> a = TensorMemoryAddress.decode(0x00200040)
    >>> a.lane, a.column, a.warp, hex(int(a))
    (32, 64, 1, '0x200040')
    """

    FORMAT: ClassVar[BitFormat] = TENSOR_ADDRESS_FORMAT

    lane: int = 0
    column: int = 0

    @property
    def warp(self) -> int:
        """The warp of a warpgroup that reaches the lane with tcgen05.ld and st."""
        return self.lane // 32

    def findings(self) -> list[Finding]:
        """What is outside tensor memory."""
        return [
            Finding("D702", name, f"{name} {value} is outside the {size} {name}s of tensor memory", "Tensor Memory")
            for name, value, size in (("lane", self.lane, TENSOR_MEMORY_LANES), ("column", self.column, TENSOR_MEMORY_COLUMNS))
            if value >= size
        ]


_SECTION = 'Zero-Column Mask Descriptor, table "Zero-Column Mask descriptor layout"'
_FLAG = {False: 0, True: 1}

ZERO_COLUMN_FORMAT = BitFormat(
    "zero-column mask descriptor",
    _SECTION,
    64,
    (
        *(BitField(f"start_count{i}", 8 * i, 8, f"Start Count {i}: columns of sub-mask {i} to begin after") for i in range(4)),
        *(BitField(f"first_span{i}", 32 + i, 1, f"First Span {i}: 1 if sub-mask {i} begins with zeroed columns") for i in range(4)),
        BitField("non_zero", 39, 1, "Non-Zero Mask: 0 if no column is zeroed", values=_FLAG),
        BitField("skip_span", 40, 8, "Skip Span: zeroed columns in a row, less 1"),
        BitField("use_span", 48, 8, "Use Span: columns of B in a row, less 1"),
        BitField("shift", 56, 6, "Column Shift"),
    ),
)


@dataclass(frozen=True, slots=True)
class ZeroColumnMask(BitDescriptor):
    """The 64-bit descriptor.

    Attributes
    ----------
    start_counts, first_spans : of the four sub-masks; M = 128 uses the first, M = 64 two of them
    non_zero : whether any column is zeroed
    skip_span, use_span : columns zeroed and columns kept in turn, each less 1. The text of the specification's table exchanges the two;
        its examples do not
    shift : columns of B that the product begins later
    reserved : unnamed bits that are not 0

    Examples
    --------
    >>> d = ZeroColumnMask(non_zero=True, skip_span=2, use_span=3)
    >>> hex(int(d)), d.zeroed, d.kept
    ('0x3028000000000', 3, 4)
    >>> ZeroColumnMask.decode(int(d)) == d
    True
    """

    FORMAT: ClassVar[BitFormat] = ZERO_COLUMN_FORMAT

    start_counts: tuple[int, int, int, int] = (0, 0, 0, 0)
    first_spans: tuple[int, int, int, int] = (0, 0, 0, 0)
    non_zero: bool = False
    skip_span: int = 0
    use_span: int = 0
    shift: int = 0
    reserved: int = 0

    @classmethod
    def decode(cls, value: int) -> ZeroColumnMask:
        """Read the 64 bits; every value can be read."""
        found = ZERO_COLUMN_FORMAT.decode(value)
        counts, spans = (tuple(found.pop(f"{name}{i}") for i in range(4)) for name in ("start_count", "first_span"))
        return cls(start_counts=counts, first_spans=spans, **found)

    @property
    def zeroed(self) -> int:
        """Columns zeroed in a row."""
        return self.skip_span + 1

    @property
    def kept(self) -> int:
        """Columns of B used in a row."""
        return self.use_span + 1

    def findings(self, m: int | None = None, max_shift: int | None = None) -> list[Finding]:
        """What is not legal; with M, and the maximum shift of the instruction descriptor, also what they limit."""
        found = list(ZERO_COLUMN_FORMAT.findings(self._values(), "D702"))
        limit = 16 if m == 32 else 32
        if self.shift > limit:
            found.append(_finding("shift", f"the column shift is {self.shift}; it can be 0 to {limit}{f' for M = {m}' if m else ''}"))
        elif max_shift is not None and self.shift > max_shift:
            fix = "set bits 30-31 of the instruction descriptor to a larger maximum shift"
            found.append(_finding("shift", f"the column shift is {self.shift}, the instruction descriptor allows {max_shift}", fix))
        if self.non_zero:
            for i in range(1 if m is None else 128 // m):
                span = self.zeroed if self.first_spans[i] else self.kept
                if self.start_counts[i] >= span:
                    message = f"start count {i} is {self.start_counts[i]}, but the first span has {span} columns"
                    found.append(_finding("start_counts", message))
        return found

    def _values(self) -> dict[str, Any]:
        return {
            **{f"start_count{i}": count for i, count in enumerate(self.start_counts)},
            **{f"first_span{i}": span for i, span in enumerate(self.first_spans)},
            **{name: getattr(self, name) for name in ("non_zero", "skip_span", "use_span", "shift", "reserved")},
        }


def _finding(field: str, message: str, fix: str = "") -> Finding:
    return Finding("D702", field, message, _SECTION, fix)
