"""Compiled helpers for ldmatrix and stmatrix: sections "ldmatrix" and "stmatrix"."""

from __future__ import annotations

from ptxlab.engine.support.accesses import frame_row
from ptxlab.native.builder import Function, Module, Value

__all__ = ["emit_matrix"]


def emit_matrix(module: Module, write: bool, element: str, transposed: bool) -> None:
    """``void ...(frame, mask, hosts, registers, offsets)``.

    ``hosts`` has the rows, one for each lane that gives an address, eight for each register.
    """
    name = f"{'st' if write else 'ld'}matrix_{element}{'t' if transposed else ''}"
    c = Function(module, name, "void", "ptr frame, i32 mask, ptr hosts, i32 count, ptr offsets")
    frame, mask, hosts, count, offsets = c.parameters
    size = 2 if element == "b16" else 1
    with c.loop(count.to("i64")) as index:
        register = frame_row(frame, offsets, index)
        with c.each_bit(mask) as lane:
            for part in range(4 // size):
                row, column = (_half if size == 2 else _byte)(write, transposed, index, lane, part)
                host = hosts.load("ptr", row)
                held = register.at((lane << 2) + size * part)
                if write:
                    host.at(column * size).store(held.load(f"i{8 * size}", align=size), align=1)
                else:
                    held.store(_element(host, element, column), align=size)


def _half(write: bool, transposed: bool, index: Value, lane: Value, part: int) -> tuple[Value, Value]:
    """Row and element of 16 bits: thread t holds row t/4, columns 2(t%4) and the next; transposed: of the transpose."""
    row, column = lane >> 2, ((lane & 3) << 1) + part
    row, column = (column, row) if transposed else (row, column)
    return (index << 3) + row, column


def _byte(write: bool, transposed: bool, index: Value, lane: Value, part: int) -> tuple[Value, Value]:
    """Row and element of 8 bits.

    Thread t holds row t/4, columns 4(t%4) to 4(t%4) + 3. Of a transposed 16x16 matrix two registers hold rows t/4 and t/4 + 8; of a
    transposed 16x8 one, one register holds columns 2(t%4) and the next of both rows.
    """
    group, quarter = lane >> 2, lane & 3
    if write:
        return (index << 3) + (quarter << 1) + (part & 1), group + 8 * (part >> 1)
    if transposed:
        return ((index >> 1) << 4) + (quarter << 2) + part, group + ((index & 1) << 3)
    return (index << 3) + group, (quarter << 2) + part


def _element(host: Value, element: str, column: Value) -> Value:
    """One element of a row; those of fewer than 8 bits are packed, low bits first."""
    if element == "b16":
        return host.at(column << 1).load("i16", align=1)
    if element == "b8":
        return host.load("i8", column)
    width = int(element[1:])
    bit = column * width
    # Two bytes hold the element wherever it begins; of the last ones, one.
    low = host.load("i8", bit >> 3).to("i16")
    high = host.load("i8", (bit + (width - 1)) >> 3).to("i16")
    word = ((high << 8) | low) >> (bit & 7).to("i16") & ((1 << width) - 1)
    if element == "s4":
        word = (word ^ 8) - 8
    return word.to("i8")
