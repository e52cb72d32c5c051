"""LLVM code that expands a sparse A: which elements of each chunk the 4-bit codes of the metadata select.

The codes are given as bytes with a shift each, for each chunk those of all rows. Sections "Sparse Matrices" and "Sparsity selector".
"""

from __future__ import annotations

from collections.abc import Collection

from ptxlab.formats import Format
from ptxlab.native.builder import Module, Value, vector
from ptxlab.numerics.ir.prepare import EXPONENTS, SMALL_EXPONENTS, absent_exponent

__all__ = ["LANES", "expand_ir", "forget_ir"]

LANES = 16
"""Rows that are marked at once."""
_ANY = 4
"""The code that counts where a chunk stores only zeros and its code is 0."""


def _positions(code: Value, stored: int) -> list[Value]:
    """Where the first and the second stored part of a chunk are; one of them if it stores one of two elements."""
    return [(code >> 1) & 1] if stored == 1 else [code & 3, code >> 2]


def expand_ir(row: Format, stored: int, whole: int, legal: Collection[int]) -> str:
    """``i64 expand(codes, metadata, to, shifts, rows, chunks, over_rows, over_k)``: 1 if a code is not legal.

    Elements that are not stored become 0. A code of 0 is legal for a chunk that stores only zeros. The codes are left in the place of the
    metadata. Strides are in bytes; chunks that store more than two elements take them in pairs, which must be next to each other.
    """
    parameters = "ptr codes, ptr metadata, ptr to, ptr shifts, i64 rows, i64 chunks, i64 over_rows, i64 over_k"
    module = Module()
    code, (codes, metadata, target, shifts, rows, chunks, over_rows, over_k) = module.define(f"i64 expand({parameters})")
    parts = min(stored, 2)
    together, size = stored // parts, row.dtype.itemsize
    places, element = whole // together, f"i{8 * size * together}"
    ones = (1 << row.bits) - 1 if row.is_integer else row.magnitude_mask
    magnitude = sum(ones << 8 * size * index for index in range(together))
    mask = sum(1 << each for each in legal)
    wrong = code.variable("i64", 0)
    with code.loop(chunks) as chunk, code.loop(rows) as line:
        place = chunk * rows + line
        found = (metadata.load("i8", place).to("i32") >> shifts.load("i8", place).to("i32")) & 15
        source = codes.at(line * over_rows + chunk * (over_k * stored))
        values = [source.at(over_k * (together * index)).load(element, align=1) for index in range(parts)]
        stores = values[0] if parts == 1 else values[0] | values[1]
        chosen = (found.eq(0) & (stores & magnitude).eq(0)).select(_ANY, found)
        wrong.set(wrong.get() | (((chosen.constant(mask) >> chosen) & 1) ^ 1).to("i64"))
        metadata.store(chosen.to("i8"), place)
        positions = _positions(chosen, stored)
        here = target.at((line * chunks + chunk) * (whole * size))
        for position in range(places):
            value = values[0].constant(0)
            for at, each in zip(positions, values, strict=True):
                value = at.eq(position).select(each, value)
            here.store(value, position, align=1)
    code.ret(wrong.get())
    return module.finish()


def forget_ir(wide: bool, stored: int, whole: int) -> str:
    """``void forget(metadata, prepared, rows, chunks, padded)``: mark the elements of a prepared A that are not stored.

    Chunks store one of two elements, or two of four; there are a multiple of LANES rows.
    """
    module = Module()
    code, (metadata, prepared, rows, chunks, padded) = module.define(
        "void forget(ptr metadata, ptr prepared, i64 rows, i64 chunks, i64 padded)"
    )
    arrays = [(prepared.pointer(EXPONENTS), "i16" if wide else "i8", absent_exponent(wide))]
    if wide:
        arrays.append((prepared.pointer(SMALL_EXPONENTS), "i8", absent_exponent(False)))
    with code.loop(chunks) as chunk, code.loop(rows, LANES) as first:
        positions = _positions(metadata.load(vector("i8", LANES), chunk * rows + first, align=1), stored)
        for position in range(whole):
            absent = positions[0].ne(position)
            for each in positions[1:]:
                absent = absent & each.ne(position)
            place = (chunk * whole + position) * padded + first
            for array, element, exponent in arrays:
                kept = array.load(vector(element, LANES), place, align=1)
                array.store(absent.select(exponent, kept), place, align=1)
    return module.finish()
