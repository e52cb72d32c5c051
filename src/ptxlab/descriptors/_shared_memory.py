"""Shared-memory descriptors of tcgen05 (section "Shared memory descriptor") and wgmma ("Matrix Descriptor Format")."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar, Literal

from ptxlab._records import dataclass
from ptxlab.descriptors._bitfields import BitDescriptor, BitField, BitFormat, Finding
from ptxlab.layout import Major
from ptxlab.tables import SWIZZLES, TRANSPOSED_SWIZZLES

__all__ = ["TCGEN05_FORMAT", "WGMMA_FORMAT", "SharedMemoryDescriptor", "WgmmaDescriptor"]

_TABLE = 'Shared memory descriptor, table "Shared memory descriptor layout"'
_COMBINATIONS = "Valid Combinations of Type-Size, Major-ness and Swizzling"
_ABSOLUTE = "Restrictions on the Leading Dimension Absolute Address Stride"

_COMMON = (
    BitField("start", 0, 14, "Matrix start address", shift=4),
    BitField("leading", 16, 14, "Leading dimension byte offset", shift=4),
    BitField("stride", 32, 14, "Stride dimension byte offset", shift=4),
    BitField("base_offset", 49, 3, "Matrix base offset"),
)

_TCGEN05_CODES = {name: mode.tcgen05 for name, mode in SWIZZLES.items() if mode.tcgen05 is not None}
_WGMMA_CODES = {name: mode.wgmma for name, mode in SWIZZLES.items() if mode.wgmma is not None}

TCGEN05_FORMAT = BitFormat(
    "shared memory descriptor",
    _TABLE,
    64,
    (
        *_COMMON,
        BitField("leading_mode", 52, 1, "Leading dimension stride mode", values={"relative": 0, "absolute": 1}),
        BitField("swizzle", 61, 3, "The swizzling mode", values=_TCGEN05_CODES),
    ),
    fixed=0b001 << 46,
)

WGMMA_FORMAT = BitFormat(
    "matrix descriptor",
    "Matrix Descriptor Format",
    64,
    (
        *_COMMON,
        BitField("swizzle", 62, 2, "The swizzling mode", values=_WGMMA_CODES),
    ),
)


@dataclass(frozen=True, slots=True)
class _MatrixDescriptor(BitDescriptor):
    """The fields that both descriptors have."""

    start: int = 0
    leading: int = 0
    stride: int = 0
    swizzle: str = "none"
    base_offset: int = 0


@dataclass(frozen=True, slots=True)
class SharedMemoryDescriptor(_MatrixDescriptor):
    """A 64-bit descriptor of tcgen05.mma and tcgen05.cp. Addresses and strides are in bytes.

    Attributes
    ----------
    start : matrix start address, bits 0-17 of a shared memory address
    leading : leading dimension byte offset; with ``leading_mode="absolute"`` the address of the next buffer
    stride : stride dimension byte offset
    swizzle : ``none``, ``32B``, ``64B``, ``128B`` or ``128B_32B`` (128B swizzling with 32B atomicity)
    base_offset : 0-7
    reserved : unnamed bits that are not what they must be

    Examples
    --------
    >>> d = SharedMemoryDescriptor(start=0x400, leading=16, stride=1024, swizzle="128B")
    >>> hex(int(d))
    '0x4000404000010040'
    >>> SharedMemoryDescriptor.decode(int(d)) == d
    True
    """

    FORMAT: ClassVar[BitFormat] = TCGEN05_FORMAT

    leading_mode: Literal["relative", "absolute"] = "relative"
    reserved: int = 0

    @classmethod
    def decode(cls, value: int) -> SharedMemoryDescriptor:
        """Read the 64 bits; every value can be read, `findings` says what is wrong with it."""
        return _decode(value)

    def findings(self, major: Major | None = None, bits: int | None = None) -> list[Finding]:
        """What is not legal: the fields alone, and with ``major`` and element ``bits`` (container of the type) the combination."""
        found = list(TCGEN05_FORMAT.findings(self._values(), "D702"))
        # Without swizzling nothing depends on it: Triton sets it from the address there, and its kernels work.
        if self.base_offset and self.swizzle == "128B_32B":
            message = f"the matrix base offset is {self.base_offset} with swizzling mode {self.swizzle}"
            found.append(_finding("base_offset", message, _TABLE))
        if self.leading_mode == "absolute":
            found += self._check_absolute(major)
        if major == "mn" and bits is not None and self.swizzle not in TRANSPOSED_SWIZZLES.get(bits, ()):
            found.append(self._transposed(bits))
        return found

    def _check_absolute(self, major: Major | None) -> Iterator[Finding]:
        if self.swizzle != "128B":
            yield _finding("leading_mode", f"the absolute leading dimension needs 128B swizzling, not {self.swizzle}", _ABSOLUTE)
        if major == "mn":
            yield _finding("leading_mode", "the absolute leading dimension needs a K-major operand", _ABSOLUTE)
        if self.base_offset:
            yield _finding("base_offset", "the matrix base offset must be 0 with an absolute leading dimension", _ABSOLUTE)

    def _transposed(self, bits: int) -> Finding:
        """The finding about an MN-major operand that the swizzling mode does not allow."""
        message = f"a transposed (MN-major) operand of {bits}-bit elements"
        if bits not in TRANSPOSED_SWIZZLES:
            fix = "lay the operand out K-major"
        elif self.swizzle == "128B_32B":
            message += " with 128B swizzling of 32B atomicity"
            fix = "use another swizzling mode, or a K-major operand"
        else:
            message += f" with swizzling mode {self.swizzle}"
            fix = "use 128B swizzling with 32B atomicity (layout code 1), or clear the transpose bit for a K-major operand"
        return Finding("D705", "swizzle", f"{message} is not supported", _COMBINATIONS, fix)


@dataclass(frozen=True, slots=True)
class WgmmaDescriptor(_MatrixDescriptor):
    """A 64-bit matrix descriptor of wgmma.mma_async; attributes as in `SharedMemoryDescriptor`.

    Examples
    --------
    >>> hex(int(WgmmaDescriptor(start=0x400, leading=16, stride=1024, swizzle="128B")))
    '0x4000004000010040'
    """

    FORMAT: ClassVar[BitFormat] = WGMMA_FORMAT

    reserved: int = 0

    def findings(self, major: Major | None = None, bits: int | None = None) -> list[Finding]:
        """What is not legal: the fields alone, and with ``major`` and element ``bits`` the combination."""
        found = list(WGMMA_FORMAT.findings(self._values(), "D702"))
        if self.base_offset and self.swizzle == "none":
            message = f"the matrix base offset is {self.base_offset} without swizzling"
            found.append(_finding("base_offset", message, WGMMA_FORMAT.section))
        if major == "mn" and bits is not None and bits != 16:
            message = f"an MN-major operand of {bits}-bit elements; only 16-bit elements can be transposed"
            found.append(Finding("D705", "swizzle", message, "Shared Memory Matrix Layout", "lay the operand out K-major"))
        return found


def _finding(field: str, message: str, section: str) -> Finding:
    return Finding("D702", field, message, section)


@lru_cache(maxsize=4096)
def _decode(value: int) -> SharedMemoryDescriptor:
    return SharedMemoryDescriptor(**TCGEN05_FORMAT.decode(value))
