"""Descriptors: their bits, their fields, and what they describe."""

from __future__ import annotations

import sys
from dataclasses import replace

from ptxlab.descriptors import InstructionDescriptor, Interpretation, SharedMemoryDescriptor, WgmmaDescriptor, ZeroColumnMask, explain
from ptxlab.layout import Major, zero_column_mask
from ptxlab.tables import DATA_PATHS, MMA_KINDS, SWIZZLES, WGMMA_KINDS
from ptxlab.view._picture import EMPTY, Panel, Picture
from ptxlab.view._shared_memory import draw_operand
from ptxlab.view._tensor_memory import draw_accumulator

__all__ = ["draw_descriptor", "draw_explanation", "draw_zero_columns"]

_ROW = 32


def draw_descriptor(value: int, as_: str | None = None, kind: str | None = None, major: Major | None = None) -> Picture:
    """Bits and fields of a value, and the memory that it describes.

    Parameters
    ----------
    value : the raw word
    as_, kind, major : as of `ptxlab.explain`: how to read it; None: the likeliest way, and a matrix in shared memory as K-major elements
        of 16 bits

    Examples
    --------
    >>> picture = draw_descriptor(0x4000404000010040, "smem")
    >>> [panel.title for panel in picture.panels]
    ['Bits', 'Fields', 'Matrix: addresses', 'Shared memory']
    """
    return _draw(explain(value, as_, kind, major).best, kind, major)


def draw_explanation(interpretation: Interpretation, kind: str | None = None, major: Major | None = None) -> str:
    """The text that ``ptxlab explain --draw`` prints; coloured on a terminal."""
    return _draw(interpretation, kind, major).text(color=sys.stdout.isatty()) + "\n"


def _draw(one: Interpretation, kind: str | None, major: Major | None) -> Picture:
    panels = [_bits(one), _fields(one)] if one.what != "tensormap" else [_fields(one)]
    decoded = one.decoded
    if isinstance(decoded, SharedMemoryDescriptor | WgmmaDescriptor) and decoded.swizzle in SWIZZLES:
        panels += _operand(decoded, kind, major or "k").panels
    elif isinstance(decoded, InstructionDescriptor):
        panels += _accumulator(decoded)
    elif isinstance(decoded, ZeroColumnMask):
        panels += draw_zero_columns(decoded, 128, 64).panels
    return Picture(one.title, panels, one.as_dict())


def _operand(descriptor: SharedMemoryDescriptor | WgmmaDescriptor, kind: str | None, major: Major) -> Picture:
    """As much as shows the swizzle and both strides: two groups of lines, one width (K-major) or two (MN-major)."""
    bits = 16 if kind is None else MMA_KINDS[kind].container if kind in MMA_KINDS else WGMMA_KINDS[kind].bits
    mode = SWIZZLES[descriptor.swizzle]
    if major == "k":
        return draw_operand(descriptor, 16, max(mode.width, 32) * 8 // bits, bits, major)
    return draw_operand(descriptor, 2 * mode.width * 8 // bits, 16, bits, major, lines=32)


def _accumulator(i: InstructionDescriptor) -> list[Panel]:
    """Matrix D for the first combination of qualifiers that the descriptor is legal for."""
    for ws, group in ((False, 1), (False, 2), (True, 1)):
        if (i.m, group, ws, i.sparse) in DATA_PATHS and not i.findings(group, ws):
            first, *rest = (picture := draw_accumulator(i.m, i.n, group, ws, i.sparse)).panels
            return [replace(first, title=f"{first.title}: {picture.title}"), *rest]
    return []


def _bits(one: Interpretation) -> Panel:
    value = int(one.decoded)
    owner: dict[int, int] = {}
    for index, row in enumerate(one.fields):
        for piece in row.bits.split(","):
            first, _, last = piece.strip().partition("-")
            owner |= dict.fromkeys(range(int(first), int(last or first) + 1), index % 8)
    size = 64 if one.what in ("smem", "wgmma", "mask") else 32
    rows = [range(top, top - _ROW, -1) for top in range(size - 1, 0, -_ROW)]
    labels = [[str(value >> bit & 1) for bit in row] for row in rows]
    colors = [[owner.get(bit, EMPTY) for bit in row] for row in rows]
    return Panel("Bits", labels, colors, [f"{row[0]}-{row[-1]}" for row in rows], note="without colour: bits that no field names")


def _fields(one: Interpretation) -> Panel:
    rows = [[row.bits, row.name, row.value, row.meaning] for row in one.fields]
    colors = [[i % 8, EMPTY, EMPTY, EMPTY] for i in range(len(rows))]
    return Panel("Fields", rows, colors, (), ("bits", "field", "value", "meaning"), plain=True)


def draw_zero_columns(mask: ZeroColumnMask, m: int, n: int) -> Picture:
    """Columns of the product whose column of B counts as zero: rows of 32 columns, a 1 for each such column.

    Examples
    --------
    >>> print(draw_zero_columns(ZeroColumnMask(non_zero=True, skip_span=2, use_span=3), 128, 14).text().splitlines()[3])
    0-13 0  0  0  0  1  1  1  0  0  0  0  1  1  1
    """
    found = zero_column_mask(mask, m, n)
    width = min(n // (128 // m), _ROW)
    labels = [[str(int(bit)) for bit in found[first : first + width]] for first in range(0, n, width)]
    colors = [[0 if bit == "0" else 3 for bit in row] for row in labels]
    names = [f"{first}-{min(first + width, n) - 1}" for first in range(0, n, width)]
    panel = Panel("Columns of B", labels, colors, names, note="1: counts as zero; column 0 is at the left")
    return Picture(f"Zero-column mask {int(mask):#018x}, M = {m}, N = {n}", [panel], {"mask": found.tolist()})
