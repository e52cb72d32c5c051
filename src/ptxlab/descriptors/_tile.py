"""An operand tile in shared memory: descriptors from a layout, the layout from a descriptor, and advancing the way kernels do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.descriptors._bitfields import DescriptorError, Finding, escaped, html_of
from ptxlab.descriptors._shared_memory import SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.layout import (
    ComposedLayout,
    Layout,
    LayoutError,
    Major,
    canonical_layout,
    exact_layout,
    linear_addresses,
    operand_addresses,
    parse_layout,
)
from ptxlab.tables import SWIZZLES, TYPE_BITS, SwizzleMode

__all__ = ["OperandTile"]

_STRIDES = "Major-ness supported by Strides"
_CANONICAL = "Canonical Layouts"
_MMA_BITS = 256
"""Bits of each row of an operand that one instruction takes."""
_UNUSED = (None, 0, 16)
"""Leading dimension byte offsets that are not used: compilers write them where rows have one width of the swizzle."""


@dataclass(frozen=True, slots=True)
class OperandTile:
    """A tile of matrix A or B in shared memory, from which instructions take parts.

    Parameters
    ----------
    rows, k : size of the tile; rows are M of matrix A or N of matrix B
    type : element type, as in PTX
    major : ``"k"`` or ``"mn"``
    swizzle : ``none``, ``32B``, ``64B``, ``128B`` or ``128B_32B``
    start : address in shared memory
    padded : 4-bit elements in slots of 16 bytes for 16 of them, as ``kind::f8f6f4`` needs; 6-bit elements always are
    leading, stride : byte offsets; None: atoms follow each other without gaps, those along M or N first, as a copy of a tensor map of
        the swizzle's width leaves them. A leading one of 0 or 16 bytes counts as None if a K-major tile is swizzled
    base_offset : of the descriptor

    Examples
    --------
    >>> tile = OperandTile(rows=128, k=64, type="f16", start=0x400)
    >>> hex(int(tile.descriptor()))
    '0x4000404000010040'
    >>> str(tile.layout())
    'Swizzle<3,4,3> o ((8,16),(8,8)):((64,512),(1,8))'
    >>> hex(tile.advance(k=16).start)
    '0x420'
    """

    rows: int
    k: int
    type: str
    major: Major = "k"
    swizzle: str = "128B"
    start: int = 0
    padded: bool = False
    leading: int | None = None
    stride: int | None = None
    base_offset: int = 0

    def __post_init__(self) -> None:
        if self.type not in TYPE_BITS:
            raise DescriptorError(f"element type {self.type!r} is unknown; it can be {', '.join(TYPE_BITS)}")
        if self.swizzle not in SWIZZLES:
            raise DescriptorError(f"swizzling mode {self.swizzle!r} is unknown; it can be {', '.join(SWIZZLES)}")
        slot = 128 // self.container
        across, along = (self.rows, self.k) if self.major == "k" else (self.k, self.rows)
        lines = 8 if self.major == "k" else self._mode.lines
        if across <= 0 or along <= 0 or across % lines or along % slot:
            message = f"a tile of {self.rows} x {self.k} elements of type .{self.type}, {self.major.upper()}-major"
            need = f"{'rows' if self.major == 'k' else 'K'} must be a multiple of {lines}, {'K' if self.major == 'k' else 'rows'} of {slot}"
            raise DescriptorError(f"{message}: {need}", _CANONICAL)

    @property
    def container(self) -> int:
        """Bits that an element takes in shared memory: 8 for elements in padded slots."""
        bits = TYPE_BITS[self.type]
        return 8 if self.padded or bits == 6 else bits

    @property
    def _mode(self) -> SwizzleMode:
        return SWIZZLES[self.swizzle]

    @property
    def _swizzled(self) -> bool:
        return self._mode.bits > 0

    @property
    def _is_wide(self) -> bool:
        """Whether K-major rows have several widths of the swizzle."""
        return self.major == "k" and self._swizzled and self._bytes(self.k) > self._mode.width

    def _bytes(self, elements: int) -> int:
        return elements * self.container // 8

    @property
    def strides(self) -> tuple[int, int]:
        """Leading and stride dimension byte offset.

        The leading one of a swizzled K-major tile is not used inside one width of the swizzle, and is 16; in a wider tile it is the step
        from one width of K to the next.
        """
        if self.major == "k" and self._swizzled:
            stride = 8 * self._mode.width if self.stride is None else self.stride
            if self._is_wide:
                return self.rows // 8 * stride if self.leading in _UNUSED else self.leading, stride
            leading = 16
        elif self.major == "k":
            leading, stride = self.rows * 16, 128
        elif self._swizzled:
            leading, stride = self.k * self._mode.width, self._mode.lines * self._mode.width
        else:
            leading, stride = self._bytes(self.rows) * 8, 128
        return (leading if self.leading is None else self.leading, stride if self.stride is None else self.stride)

    @property
    def size(self) -> int:
        """Bytes from the start to the end of the tile."""
        return int(self.addresses().max()) // (8 if TYPE_BITS[self.type] < 8 else 1) // 16 * 16 + 16 - self.start

    def _repr_html_(self) -> str:
        """The layout of the tile, as notebooks show it, and its descriptor."""
        what = f"{self.rows} x {self.k} elements of type .{self.type}, {self.major.upper()}-major, {self.size} bytes from {self.start:#x}"
        try:
            layout = self.layout()
        except LayoutError:  # not of whole atoms
            layout = self.canonical()
        try:
            described = html_of(self.descriptor())
        except DescriptorError as error:
            described = f"<p>no descriptor: {escaped(error.diagnostic.message)}</p>"
        return f"<p>{what}</p>{layout._repr_html_()}{described}"

    def descriptor(self) -> SharedMemoryDescriptor:
        """The descriptor of tcgen05 for the whole tile; instructions take parts of it, see `advance`."""
        return SharedMemoryDescriptor(self.start, *self.strides, self.swizzle, self.base_offset)

    def wgmma_descriptor(self) -> WgmmaDescriptor:
        """The matrix descriptor of wgmma."""
        return WgmmaDescriptor(self.start, *self.strides, self.swizzle, self.base_offset)

    @classmethod
    def from_descriptor(
        cls, descriptor: SharedMemoryDescriptor | WgmmaDescriptor, rows: int, k: int, type: str, major: Major = "k", padded: bool = False
    ) -> OperandTile:
        """The tile that a descriptor describes."""
        if getattr(descriptor, "leading_mode", "relative") == "absolute":
            raise DescriptorError("a descriptor with an absolute leading dimension describes two buffers, not one tile", _STRIDES)
        return cls(
            rows,
            k,
            type,
            major,
            descriptor.swizzle,
            descriptor.start,
            padded,
            descriptor.leading,
            descriptor.stride,
            descriptor.base_offset,
        )

    @classmethod
    def from_layout(cls, layout: Layout | ComposedLayout | str, type: str, start: int = 0, padded: bool = False) -> OperandTile:
        """The tile whose elements a CuTe layout places, (M or N, K) -> offset in elements.

        Parameters
        ----------
        layout : of rank 2; the swizzle on bytes as the specification writes it, or on elements as CuTe does

        Raises
        ------
        DescriptorError
            if no descriptor describes the layout

        Examples
        --------
        >>> tile = OperandTile.from_layout("Swizzle<0,4,3> o ((8,2),(4,4)):((4,32),(1,64))", "tf32")
        >>> tile.major, tile.strides
        ('k', (256, 128))
        """
        found = parse_layout(layout) if isinstance(layout, str) else layout
        inner = found.layout if isinstance(found, ComposedLayout) else found
        if inner.rank != 2 or inner.symbols:
            raise DescriptorError(f"{found} is not a layout of (M or N, K) with integers only", _CANONICAL)
        bits = 8 if padded or TYPE_BITS[type] == 6 else TYPE_BITS[type]
        swizzle = _mode_of(found, bits)
        offsets = inner.offsets() * bits // 8
        rows, k = offsets.shape
        for major in ("k", "mn"):
            try:
                tile = cls(rows, k, type, major, swizzle, start, padded)
            except DescriptorError:
                continue
            tile = tile._with_strides(offsets)
            if np.array_equal(tile._linear() - start, offsets):
                return tile
        raise DescriptorError(f"no descriptor describes {found} for elements of type .{type}", _CANONICAL)

    def _with_strides(self, offsets: NDArray[np.int64]) -> OperandTile:
        """The strides that the offsets show, where the tile is large enough to show them."""
        across, along = offsets if self.major == "k" else offsets.T, 128 // self.container
        line = 8 if self.major == "k" else self._mode.lines
        by_line = int(across[line, 0]) if line < len(across) else None
        step = along if not self._swizzled else along * self._mode.width // 16
        by_step = int(across[0, step]) if step < across.shape[1] else None
        if self.major == "k":
            return replace(self, stride=by_line, leading=by_step)
        leading, stride = (by_step, by_line) if self._swizzled else (by_line, by_step)
        return replace(self, leading=leading, stride=stride)

    def layout(self) -> ComposedLayout:
        """The exact layout in CuTe notation, of a K-major tile that is wider than its swizzle the first width of it.

        Offsets are in elements, the swizzle is on bytes.
        """
        k = min(self.k, self._mode.width * 8 // self.container) if self.major == "k" and self._swizzled else self.k
        return exact_layout(self.descriptor(), self.rows, k, self.container, self.major)

    def canonical(self) -> ComposedLayout:
        """The canonical layout with its symbols."""
        return canonical_layout(self.major, self.swizzle)

    def addresses(self) -> NDArray[np.int64]:
        """As `ptxlab.layout.operand_addresses`, of the whole tile."""
        return operand_addresses(self.descriptor(), self.rows, self.k, TYPE_BITS[self.type], self.major, self.padded)

    def _linear(self) -> NDArray[np.int64]:
        """Byte addresses before the swizzle, of the containers."""
        return linear_addresses(self.descriptor(), self.rows, self.k, self.container, self.major)

    def advance(self, k: int = 0, mn: int = 0, rows: int | None = None, width: int | None = None) -> SharedMemoryDescriptor:
        """The descriptor of the part that begins at element (mn, k): the start address moves.

        Nothing else changes, except that a part inside one width of the swizzle does not use the leading dimension of a wider tile.

        Parameters
        ----------
        k, mn : the part's first element
        rows, width : size of the part along M or N and along K; None: all rows that are left, and K of one instruction (256 bits)

        Raises
        ------
        DescriptorError
            if that descriptor would reach other elements than the part's

        Examples
        --------
        >>> tile = OperandTile(rows=64, k=128, type="bf16", start=0x400)
        >>> hex(tile.advance(k=64).start)
        '0x2400'
        """
        rows = self.rows - mn if rows is None else rows
        width = min(_MMA_BITS // self.container, self.k - k) if width is None else width
        if not (0 <= mn < mn + rows <= self.rows and 0 <= k < k + width <= self.k):
            raise DescriptorError(f"a part of {rows} x {width} elements from ({mn}, {k}) is outside the tile of {self.rows} x {self.k}")
        start = int(self._linear()[mn, k])
        if start % 16:
            message = f"element ({mn}, {k}) is at {start:#x}; a start address is a multiple of 16 bytes"
            raise DescriptorError(message, _STRIDES, self._advice(k, mn, width, rows))
        wide = self._mode.width * 8 // self.container
        moved = replace(self.descriptor(), start=start)
        if self._is_wide and k % wide + width <= wide:
            moved = replace(moved, leading=16)
        wanted = self.addresses()[mn : mn + rows, k : k + width]
        reached = operand_addresses(moved, rows, width, TYPE_BITS[self.type], self.major, self.padded)
        if np.array_equal(reached, wanted):
            return moved
        i, j = (int(x) for x in np.argwhere(reached != wanted)[0])
        unit = 8 if TYPE_BITS[self.type] < 8 else 1
        used, true = int(reached[i, j]) // unit, int(wanted[i, j]) // unit
        message = (
            f"a descriptor that starts at {start:#x} looks for element ({mn + i}, {k + j}) of the tile at {used:#x}; it is at {true:#x}"
        )
        raise DescriptorError(message, _STRIDES, self._advice(k, mn, width, rows))

    def _advice(self, k: int, mn: int, width: int, rows: int) -> str:
        wide = self._mode.width * 8 // self.container
        if self.major == "k":
            if self._swizzled and k % wide + width > wide:
                inside = f"a part stays inside one width of {self._mode.width} bytes ({wide} elements) along K"
                return f"{inside}; the next begins {self.strides[0]:#x} bytes on"
            return f"advance along M or N by multiples of 8 rows, along K by multiples of {128 // self.container} elements"
        if mn % wide and mn % wide + rows > wide:
            return f"a part that is not inside one width of {self._mode.width} bytes begins at a multiple of {wide} elements along M or N"
        return f"advance along K by multiples of {self._mode.lines}, along M or N by multiples of {wide} elements"

    def findings(self) -> list[Finding]:
        """What is not legal for tcgen05."""
        return self.descriptor().findings(self.major, TYPE_BITS[self.type])


def _mode_of(layout: Layout | ComposedLayout, bits: int) -> str:
    """The swizzling mode of a layout whose swizzle is on bytes or on elements."""
    if isinstance(layout, Layout) or not layout.swizzle.bits:
        return "none"
    if layout.offset:
        raise DescriptorError(f"{layout} has an offset inside its swizzle", _CANONICAL, "put it into the start address")
    for name, mode in SWIZZLES.items():
        on_bytes = canonical_layout("k", name).swizzle
        if mode.bits and layout.swizzle in (on_bytes, on_bytes.recast(bits)):
            return name
    raise DescriptorError(f"{layout.swizzle} is not a swizzling mode of a descriptor", _CANONICAL)
