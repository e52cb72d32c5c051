"""Tensor memory addresses: section "Tensor Memory Addressing"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ptxlab.descriptors._bitfields import BitDescriptor, BitField, BitFormat
from ptxlab.descriptors._errors import Finding
from ptxlab.tables import TENSOR_MEMORY_COLUMNS, TENSOR_MEMORY_LANES

__all__ = ["TENSOR_ADDRESS_FORMAT", "TensorMemoryAddress"]

_SECTION = "Tensor Memory Addressing"

TENSOR_ADDRESS_FORMAT = BitFormat(
    "tensor memory address",
    _SECTION,
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

    @classmethod
    def decode(cls, value: int) -> TensorMemoryAddress:
        """Read the 32 bits."""
        found = TENSOR_ADDRESS_FORMAT.decode(value)
        return cls(found["lane"], found["column"])

    @property
    def warp(self) -> int:
        """The warp of a warpgroup that reaches the lane with tcgen05.ld and st."""
        return self.lane // 32

    def findings(self) -> list[Finding]:
        """What is outside tensor memory."""
        found = []
        for name, value, size in (("lane", self.lane, TENSOR_MEMORY_LANES), ("column", self.column, TENSOR_MEMORY_COLUMNS)):
            if value >= size:
                found.append(Finding("D702", name, f"{name} {value} is outside the {size} {name}s of tensor memory", "Tensor Memory"))
        return found
