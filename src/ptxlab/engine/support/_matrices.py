"""Compiled helpers for ldmatrix and stmatrix: sections "ldmatrix" and "stmatrix"."""

from __future__ import annotations

from ptxlab.engine.llvm.builder import Code, Unit, Value
from ptxlab.isa.native_ops import matrix_layout

__all__ = ["emit_matrix"]


def emit_matrix(unit: Unit, write: bool, element: str, transposed: bool) -> None:
    """``void ...(frame, mask, hosts, registers, offsets)``.

    ``hosts`` has the rows, one for each lane that gives an address, eight for each register.
    """
    c = Code(
        unit,
        f"{'st' if write else 'ld'}matrix_{element}{'t' if transposed else ''}",
        "void",
        [("ptr", "frame"), ("i32", "mask"), ("ptr", "hosts"), ("i32", "count"), ("ptr", "offsets")],
        attributes="nounwind",
    )
    frame, mask, hosts, count, offsets = c.params
    size = 2 if element == "b16" else 1
    values = matrix_layout(write, element, transposed)
    rows, columns = values.coefficients("R"), values.coefficients("C")
    with c.repeat(count.to("i64")) as index:
        register = c.at(frame, c.load("i32", c.at(offsets, index << 2), 4).to("i64"))
        with c.each_lane(mask) as lane:
            for part in range(4 // size):
                value = index * (4 // size) + part
                row, column = rows(lane, value), columns(lane, value)
                host = c.load("ptr", c.at(hosts, row << 3), 8)
                held = c.at(register, (lane << 2) + size * part)
                if write:
                    c.store(c.load(f"i{8 * size}", held, size), c.at(host, column * size), 1)
                else:
                    c.store(_element(c, host, element, column), held, size)
    c.ret()
    c.finish()


def _element(c: Code, host: Value, element: str, column: Value) -> Value:
    """One element of a row; those of fewer than 8 bits are packed, low bits first."""
    if element == "b16":
        return c.load("i16", c.at(host, column << 1), 1)
    if element == "b8":
        return c.load("i8", c.at(host, column), 1)
    width = int(element[1:])
    bit = column * width
    # Two bytes hold the element wherever it begins; of the last ones, one.
    low = c.load("i8", c.at(host, bit >> 3), 1).to("i16")
    high = c.load("i8", c.at(host, (bit + (width - 1)) >> 3), 1).to("i16")
    word = ((high << 8) | low) >> (bit & 7).to("i16") & ((1 << width) - 1)
    if element == "s4":
        word = (word ^ 8) - 8
    return word.to("i8")
