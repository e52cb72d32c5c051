"""Rows of fields, from the declaration of a format."""

from __future__ import annotations

from collections.abc import Sequence

from ptxlab.descriptors._bitfields import BitField, BitFormat
from ptxlab.descriptors.describe.explanation import FieldRow

__all__ = ["field_rows"]

_ADDRESSES = ("start", "leading", "stride", "address")


def _bits(low: int, width: int) -> str:
    return str(low) if width == 1 else f"{low}-{low + width - 1}"


def _row(item: BitField, raw: int) -> FieldRow:
    place = _bits(item.low, item.width)
    code = raw >> item.low & ((1 << item.width) - 1)
    if item.upper[1]:
        place += f", {_bits(*item.upper)}"
        code |= (raw >> item.upper[0] & ((1 << item.upper[1]) - 1)) << item.width
    value = item.get(raw)
    if isinstance(value, bool):
        shown = "yes" if value else "no"
    elif isinstance(value, int) and item.name in _ADDRESSES:
        shown = f"{value:#x}" if item.name in ("start", "address") else f"{value} ({value:#x})"
    else:
        shown = str(value)
    return FieldRow(item.name, place, code, shown, item.meaning)


def field_rows(form: BitFormat, raw: int, fields: Sequence[BitField] | None = None) -> tuple[FieldRow, ...]:
    """A row for each field in the order of the bits, and for each run of unnamed bits that is not what it must be."""
    rows = [(item.low, _row(item, raw)) for item in fields or form.fields]
    if fields is None:
        for low, width in form.unnamed():
            found, must = (word >> low & ((1 << width) - 1) for word in (raw, form.fixed))
            if must or found:
                name, meaning = ("constant", f"must be 0b{must:0{width}b}") if must else ("reserved", "must be 0")
                rows.append((low, FieldRow(name, _bits(low, width), found, f"0b{found:0{width}b}", meaning)))
    return tuple(row for _, row in sorted(rows, key=lambda pair: pair[0]))
