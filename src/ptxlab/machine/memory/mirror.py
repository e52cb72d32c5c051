"""The undefined bits that device memory keeps between launches, and where they come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab._records import dataclass
from ptxlab.diagnostics import Diagnostic

__all__ = ["WRITE_IT", "DeviceMirror", "Origin"]

WRITE_IT = "write it before: with Device.array, Buffer.write, a copy or a fill of the host, or a kernel"
"""The fix for memory that nothing has written."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where undefined bits of device memory come from; ``text`` and ``unwritten`` tell one from another one.

    Attributes
    ----------
    text : the launch and the instruction, or the allocation that nothing has written, as findings show it
    fix : what to do about it
    found : the finding if the host reads such bits
    unwritten : whether they stand in memory that nothing has written
    """

    text: str
    fix: str = field(compare=False)
    found: Diagnostic = field(compare=False)
    unwritten: bool = False


class DeviceMirror:
    """The undefined bits of an allocation.

    Attributes
    ----------
    bits : for each byte of the allocation a byte with its undefined bits
    numbers : for each byte the position of its origins in ``origins``; it means nothing where all bits are defined
    origins : the sets of origins
    """

    def __init__(self, bits: NDArray[np.uint8], numbers: NDArray[np.uint32], origins: list[tuple[Origin, ...]]) -> None:
        self.bits = bits
        self.numbers = numbers
        self.origins = origins

    @classmethod
    def unwritten(cls, size: int, origin: Origin) -> DeviceMirror:
        """The mirror of memory that nothing has written."""
        return cls(np.broadcast_to(np.uint8(0xFF), size), np.broadcast_to(np.uint32(0), size), [(origin,)])

    def copy(self) -> DeviceMirror:
        """A mirror with the same bits and origins."""
        made = DeviceMirror(self.bits, self.numbers, list(self.origins))
        if self.bits.flags.writeable:
            made.bits, made.numbers = self.bits.copy(), self.numbers.copy()
        return made

    def define(self, bytes_: slice | NDArray[np.bool_]) -> None:
        """All bits of some bytes are defined."""
        self._own()
        self.bits[bytes_] = 0

    def _own(self) -> None:
        """Give each byte its own element: those of memory that nothing has written share one."""
        if not self.bits.flags.writeable:
            self.bits, self.numbers = self.bits.copy(), self.numbers.copy()

    def within(self, first: int, stop: int) -> Iterator[Origin]:
        """The origins of the undefined bits in a range of bytes, each once."""
        numbers = distinct(self.numbers[first:stop][self.bits[first:stop] != 0]).tolist()
        return iter(dict.fromkeys(origin for number in numbers for origin in self.origins[number]))

    def take(self, at: int, other: DeviceMirror, first: int, stop: int) -> None:
        """Take over the undefined bits of a range of bytes of another mirror."""
        self._own()
        self.numbers[at : at + stop - first] = other.numbers[first:stop] + np.uint32(len(self.origins))
        self.bits[at : at + stop - first] = other.bits[first:stop]
        self.origins += other.origins
