"""Canonical layouts of operands as CuTe layouts, symbolic and exact: section "Canonical Layouts"."""

from __future__ import annotations

from ptxlab.layout._operands import Major, OperandDescriptor
from ptxlab.layout.cute import ComposedLayout, Layout, LayoutError, parse_layout
from ptxlab.tables import CANONICAL_LAYOUTS, SWIZZLE_ATOMS, SWIZZLES

__all__ = ["atom_shape", "canonical_layout", "exact_layout"]

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
