"""Compiled helpers for ldmatrix and stmatrix: sections "ldmatrix" and "stmatrix"."""

from __future__ import annotations

from ptxlab.engine.support.accesses import frame_row
from ptxlab.isa.native_ops import matrix_layout
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
    values = matrix_layout(write, element, transposed)
    rows, columns = values.coefficients("R"), values.coefficients("C")
    with c.loop(count.to("i64")) as index:
        register = frame_row(frame, offsets, index)
        with c.each_bit(mask) as lane:
            for part in range(4 // size):
                value = index * (4 // size) + part
                row, column = rows(lane, value), columns(lane, value)
                host = hosts.load("ptr", row)
                held = register.at((lane << 2) + size * part)
                if write:
                    host.at(column * size).store(held.load(f"i{8 * size}", align=size), align=1)
                else:
                    held.store(_element(host, element, column), align=size)


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
