"""Matrix operands in shared memory: sections "Canonical Layouts" and "Major-ness supported by Strides" of tcgen05 and wgmma."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab._records import dataclass
from ptxlab.layout._shared_memory import swizzle_bytes
from ptxlab.layout.cute import ComposedLayout, Layout, LayoutError, parse_layout
from ptxlab.tables import CANONICAL_LAYOUTS, SWIZZLE_ATOMS, SWIZZLES

__all__ = [
    "Major",
    "OperandDescriptor",
    "OperandIndex",
    "atom_shape",
    "canonical_layout",
    "exact_layout",
    "linear_addresses",
    "operand_addresses",
    "operand_index",
]

Major = Literal["k", "mn"]
Addresses = NDArray[np.int64]

_SLOT = 16
"""Bytes that stay together in every layout: the 128-bit elements of the canonical layouts."""

_PATTERN = 1024
"""A multiple of the period of every swizzle pattern, in bytes."""

_BITS = (4, 6, 8, 16, 32)

_WIDE = np.dtype(np.complex128)
"""A 16-byte type that NumPy gathers as it is."""


class OperandDescriptor(Protocol):
    """What the address of an element depends on; both shared-memory descriptors have it. All in bytes."""

    @property
    def start(self) -> int: ...
    @property
    def leading(self) -> int: ...
    @property
    def stride(self) -> int: ...
    @property
    def swizzle(self) -> str: ...
    @property
    def base_offset(self) -> int: ...


def _linear(
    start: int, leading: int, stride: int, swizzle: str, lines: NDArray[np.int64], byte: NDArray[np.int64], major: Major, absolute: bool
) -> Addresses:
    """Addresses before the swizzle.

    ``lines`` are rows of K-major operands and steps of k of MN-major ones; ``byte`` is the offset inside a line without gaps.
    """
    mode = SWIZZLES[swizzle]
    count = 8 if major == "k" else mode.lines
    within = lines // count * stride + lines % count * mode.width
    if absolute:
        # What exceeds the 128 bytes of a row lies in the buffer whose address takes the place of the leading dimension.
        spilled = start % mode.width + byte - mode.width
        return start + within + np.where(spilled >= 0, leading + spilled - start, byte)
    if major == "mn" and not mode.bits:
        # Without swizzling the two strides exchange their roles.
        within, leading = lines // count * leading + lines % count * mode.width, stride
    # The leading dimension steps from one width to the next; K-major operands that are not sparse have only one.
    found: Addresses = start + within + byte // mode.width * leading + byte % mode.width
    return found


def _slots(
    start: int,
    leading: int,
    stride: int,
    swizzle: str,
    base_offset: int,
    outer: int,
    inner: int,
    major: Major,
    absolute: bool,
) -> Addresses:
    """Addresses of the 16-byte slots: ``[row, slot of k]`` for K-major, ``[k, slot of mn]`` for MN-major."""
    lines, byte = np.arange(outer, dtype=np.int64)[:, None], np.arange(inner, dtype=np.int64)[None, :] * _SLOT
    return swizzle_bytes(_linear(start, leading, stride, swizzle, lines, byte, major, absolute), swizzle, base_offset)


def linear_addresses(descriptor: OperandDescriptor, rows: int, k: int, bits: int, major: Major = "k") -> Addresses:
    """Byte addresses ``int64[rows, k]`` of elements before the swizzle; ``bits`` of a container, 8 for those in padded slots.

    Examples
    --------
    >>> from ptxlab.descriptors import SharedMemoryDescriptor
    >>> d = SharedMemoryDescriptor(start=0x400, stride=1024, swizzle="128B")
    >>> linear_addresses(d, rows=128, k=16, bits=16)[1, [0, 8]].tolist()
    [1152, 1168]
    """
    outer, across = (rows, k) if major == "k" else (k, rows)
    lines, byte = np.arange(outer, dtype=np.int64)[:, None], np.arange(across, dtype=np.int64)[None, :] * bits // 8
    found = _linear(descriptor.start, descriptor.leading, descriptor.stride, descriptor.swizzle, lines, byte, major, False)
    return found if major == "k" else found.T


def operand_addresses(
    descriptor: OperandDescriptor,
    rows: int,
    k: int,
    bits: int,
    major: Major = "k",
    padded: bool = False,
) -> Addresses:
    """The address of each element of an operand of ``rows`` x ``k``.

    Parameters
    ----------
    descriptor : a shared-memory descriptor of tcgen05 or wgmma; its leading dimension may be an absolute address (K = 96)
    rows, k : size of the operand, rows being M for matrix A and N for matrix B
    bits : size of an element: 4, 6, 8, 16 or 32
    major : ``"k"``, or ``"mn"`` for a transposed operand
    padded : 4-bit elements in slots of 16 bytes for 16 elements (``kind::f8f6f4``); 6-bit elements always are

    Returns
    -------
    int64[rows, k]: byte addresses; bit addresses (byte address * 8 + bit) for 4- and 6-bit elements

    Examples
    --------
    >>> from ptxlab.descriptors import SharedMemoryDescriptor
    >>> d = SharedMemoryDescriptor(start=0x400, stride=1024, swizzle="128B")
    >>> operand_addresses(d, rows=128, k=16, bits=16)[1, [0, 8]].tolist()
    [1168, 1152]
    """
    if descriptor.swizzle not in SWIZZLES:
        raise LayoutError(f"the swizzling mode of the descriptor is {descriptor.swizzle!r}; it can be {', '.join(SWIZZLES)}")
    if bits not in _BITS or major not in ("k", "mn") or rows <= 0 or k <= 0:
        raise LayoutError(f"there is no operand of {rows} x {k} elements of {bits} bits, {major!r}-major")
    per_slot = 16 if bits == 6 or padded else 128 // bits
    outer, across = (rows, k) if major == "k" else (k, rows)
    slots = _slots(
        descriptor.start,
        descriptor.leading,
        descriptor.stride,
        descriptor.swizzle,
        descriptor.base_offset,
        outer,
        -(-across // per_slot),
        major,
        getattr(descriptor, "leading_mode", "relative") == "absolute",
    )
    element = np.arange(per_slot, dtype=np.int64) * bits
    places = slots[:, :, None] * 8 + element if bits < 8 else slots[:, :, None] + element // 8
    found: Addresses = places.reshape(outer, -1)[:, :across]
    return found if major == "k" else found.T


@dataclass(frozen=True, slots=True, eq=False)
class OperandIndex:
    """How to gather one operand out of shared memory.

    Attributes
    ----------
    low, high : bytes touched, ``[base + low, base + high)`` with ``base = start & ~1023``
    rows, k : size of the operand
    """

    low: int
    high: int
    rows: int
    k: int
    _order: NDArray[np.intp]
    _dtype: np.dtype[Any]
    _transposed: bool

    def gather(self, shared: NDArray[np.uint8], start: int) -> NDArray[Any]:
        """The elements, unsigned ``[rows, k]``; ``start`` is the descriptor's start address as an index into ``shared``.

        The caller has checked that ``[base + low, base + high)`` is inside ``shared``, whose memory is 16-byte aligned.
        """
        base = start & -_PATTERN
        slots = shared[base + self.low : base + self.high].view(_WIDE)
        found = slots.take(self._order).view(self._dtype)
        if self._transposed:
            return found[:, : self.rows].T
        return found[:, : self.k]


@dataclass(frozen=True, slots=True, eq=False)
class PlacedOperand:
    """A matrix operand in shared memory: how it is gathered, and its start address as an index into that memory."""

    start: int
    index: OperandIndex

    @classmethod
    def of(cls, descriptor: OperandDescriptor, major: Major, rows: int, k: int, element_bytes: int) -> PlacedOperand:
        """The operand of ``rows`` x ``k`` that a descriptor selects; its leading dimension is not an absolute address."""
        d = descriptor
        index = operand_index(d.start % _PATTERN, d.leading, d.stride, d.swizzle, d.base_offset, major, rows, k, element_bytes)
        return cls(d.start, index)

    def read(self, shared: NDArray[np.uint8]) -> NDArray[Any]:
        """The elements [rows, k]; bytes of the slots for 4- and 6-bit types."""
        return self.index.gather(shared, self.start)

    @property
    def slots(self) -> tuple[int, NDArray[np.int64], int, int]:
        """The offset of the first slot, the order in which the gather takes slots of 16 bytes from there, and strides of what it gathers.

        The strides are the bytes from row to row and from k to k.
        """
        index = self.index
        order = np.ascontiguousarray(index._order, np.int64)
        line, element = order.shape[1] * _SLOT, index._dtype.itemsize
        strides = (element, line) if index._transposed else (line, element)
        return (self.start & -_PATTERN) + index.low, order.reshape(-1), *strides

    @property
    def chunks(self) -> NDArray[np.intp]:
        """The slots of 16 bytes that it consists of, by number: ``[row, slot of k]`` if K-major, else ``[k, slot of rows]``."""
        return ((self.start & -_PATTERN) + self.index.low) // _SLOT + self.index._order

    def bytes_of(self, row: int) -> NDArray[np.intp]:
        """The bytes of the elements of a row; those of the slots that hold them, for 4- and 6-bit types."""
        index, chunks = self.index, self.chunks
        if not index._transposed:
            line: NDArray[np.intp] = (chunks[row][:, None] * _SLOT + np.arange(_SLOT)).reshape(-1)
            return line[: index.k * index._dtype.itemsize]
        per_slot = _SLOT // index._dtype.itemsize
        first = chunks[: index.k, row // per_slot] * _SLOT + row % per_slot * index._dtype.itemsize
        across: NDArray[np.intp] = (first[:, None] + np.arange(index._dtype.itemsize)).reshape(-1)
        return across

    @property
    def bounds(self) -> tuple[int, int]:
        """First byte and end of what is read."""
        base = self.start & -_PATTERN
        return base + self.index.low, base + self.index.high

    @property
    def runs(self) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """What is read as runs of neighbouring bytes: the first byte and the size of each."""
        return self.runs_of(_SLOT)

    def runs_of(self, used: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """The runs if only the first ``used`` bytes of each slot hold elements, and the others are padding."""
        starts, sizes = _runs(self.index, used)
        return starts + np.uint64((self.start & -_PATTERN) + self.index.low), sizes


@lru_cache(maxsize=1024)
def _runs(index: OperandIndex, used: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    slots = distinct(index._order)
    if used < _SLOT:
        return (slots * _SLOT).astype(np.uint64), np.full(len(slots), used, np.uint32)
    firsts = np.flatnonzero(np.diff(slots, prepend=slots[0] - 2) != 1)
    lengths = np.diff(firsts, append=len(slots))
    return (slots[firsts] * _SLOT).astype(np.uint64), (lengths * _SLOT).astype(np.uint32)


@lru_cache(maxsize=1024)
def operand_index(
    start: int,
    leading: int,
    stride: int,
    swizzle: str,
    base_offset: int,
    major: Major,
    rows: int,
    k: int,
    element_bytes: int,
    absolute: bool = False,
) -> OperandIndex:
    """The gather of an operand whose descriptor starts at ``start`` modulo 1024; cached, since a kernel uses few geometries.

    Parameters
    ----------
    start : the start address modulo 1024, which is all that the swizzle sees of it
    leading, stride, swizzle, base_offset : as in the descriptor
    element_bytes : of an element in shared memory, 1, 2 or 4; 1 gathers padded slots of 4- and 6-bit elements as bytes
    absolute : the leading dimension is an address (K = 96): ``leading`` is that of the next buffer less ``start & ~1023``

    Examples
    --------
    >>> index = operand_index(0, 16, 1024, "128B", 0, "k", 128, 16, 2)
    >>> index.low, index.high
    (0, 16384)
    >>> index.gather(np.arange(16384, dtype=np.uint16).view(np.uint8), 0)[1, [0, 8]].tolist()
    [72, 64]
    """
    outer, across = (rows, k) if major == "k" else (k, rows)
    slots = _slots(start, leading, stride, swizzle, base_offset, outer, -(-across * element_bytes // _SLOT), major, absolute)
    low = int(slots.min())
    order = ((slots - low) // _SLOT).astype(np.intp)
    order.setflags(write=False)
    dtype = np.dtype(f"u{element_bytes}")
    return OperandIndex(low, int(slots.max()) + _SLOT, rows, k, order, dtype, major == "mn")


_SLOT_BITS = 128


def canonical_layout(major: Major, swizzle: str) -> ComposedLayout:
    """The canonical layout with its symbols T, m, k, LBO and SBO; offsets in elements, the swizzle on bytes.

    Examples
    --------
    >>> str(canonical_layout("k", "32B"))
    'Swizzle<1,4,3> o ((8,m),(T,2k)):((2T,SBO),(1,T))'
    """
    row = CANONICAL_LAYOUTS.get((major, swizzle))
    if row is None:
        raise LayoutError(f"there is no canonical layout for {major!r}-major operands with swizzling mode {swizzle!r}")
    found = parse_layout(f"{row.swizzle} o {row.layout}")
    assert isinstance(found, ComposedLayout)
    return found


def exact_layout(descriptor: OperandDescriptor, rows: int, k: int, bits: int, major: Major = "k") -> ComposedLayout:
    """The layout of an operand of ``rows`` x ``k`` as its descriptor says; offsets in elements from the start, the swizzle on bytes.

    Parameters
    ----------
    rows, k : size of the operand
    bits : of an element's container: 4, 8, 16 or 32; 8 for padded 4- and 6-bit elements, whose 16 take 16 bytes

    Raises
    ------
    LayoutError
        if the size is not one of whole atoms, or the leading dimension is an absolute address

    Examples
    --------
    >>> from ptxlab.descriptors import SharedMemoryDescriptor
    >>> d = SharedMemoryDescriptor(leading=256, stride=128)
    >>> str(exact_layout(d, 16, 16, 32))
    'Swizzle<0,4,3> o ((8,2),(4,4)):((4,32),(1,64))'
    """
    if getattr(descriptor, "leading_mode", "relative") == "absolute":
        raise LayoutError("an operand in two buffers (absolute leading dimension) is not one layout")
    swizzle = canonical_layout(major, descriptor.swizzle).swizzle
    t = _SLOT_BITS // bits
    mode = SWIZZLES[descriptor.swizzle]
    chunks = mode.width // 16
    leading, stride = descriptor.leading * 8 // bits, descriptor.stride * 8 // bits
    if major == "k":
        _whole(rows, 8, "rows", k, t, "K")
        across: tuple[int, ...] = (t, k // t)
        steps: tuple[int, ...] = (1, t if mode.bits else leading)
        if mode.bits and k // t > chunks:
            _whole(rows, 8, "rows", k, chunks * t, "K")
            across, steps = (t, chunks, k // t // chunks), (1, t, leading)
        return ComposedLayout(swizzle, Layout(((8, rows // 8), across), ((chunks * t, stride), steps)))
    lines = mode.lines
    _whole(k, lines, "K", rows, t, "rows")
    outer = chunks if mode.bits else 1
    width = min(outer, rows // t)
    repeats, rest = divmod(rows, t * width)
    if rest:
        raise LayoutError(f"{rows} rows are not a whole number of widths of {t * width} elements, so they are not one layout")
    strides = (leading, stride) if mode.bits else (stride, leading)
    return ComposedLayout(
        swizzle, Layout(((t, width, repeats), (lines, k // lines)), ((1, t, strides[0]), (chunks * t if mode.bits else t, strides[1])))
    )


def _whole(across: int, lines: int, across_name: str, along: int, t: int, along_name: str) -> None:
    if across % lines or along % t:
        raise LayoutError(f"the canonical layout needs {across_name} in steps of {lines} and {along_name} in steps of {t}")


def atom_shape(major: Major, swizzle: str, bits: int) -> tuple[int, int]:
    """Size of a swizzle atom in elements, as (M or N, K): table "Layout for swizzle atoms".

    Examples
    --------
    >>> atom_shape("mn", "128B", 32), atom_shape("k", "64B", 16)
    ((32, 8), (8, 32))
    """
    shape = SWIZZLE_ATOMS.get(swizzle, {}).get(major)
    if shape is None:
        raise LayoutError(f"swizzling mode {swizzle} has no atom for {major.upper()}-major operands")
    t = _SLOT_BITS // bits
    return (shape[0] * t, shape[1]) if major == "mn" else (shape[0], shape[1] * t)
