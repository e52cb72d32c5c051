"""Compiled helpers for tcgen05.ld and st; cells are computed from the layouts of `ptxlab.layout`.

Section "Tensor Memory and Register Load/Store Instructions".
"""

from __future__ import annotations

from ptxlab.engine.context import Word
from ptxlab.engine.faults import Fault
from ptxlab.engine.support.accesses import converge, fail, frame_row
from ptxlab.layout import tensor_fragment_layout
from ptxlab.native.builder import Function, Module, Value
from ptxlab.tables import FRAGMENT_REGISTERS

__all__ = ["emit_tensor"]

_ROW = 512
"""Bytes of one column of all 128 lanes."""


def emit_tensor(module: Module, shape: str, write: bool, pack: bool) -> None:
    """``i32 tensor_ld_SHAPE(context, mask, addresses, offsets, offset, count, half, op)``; addresses null: ``offset`` alone."""
    name = f"tensor_{'st' if write else 'ld'}_{shape}{'_pack' if pack else ''}"
    c, (context, mask, addresses, offsets, offset, count, half, op) = module.define(
        f"i32 {name}(ptr context, i32 mask, ptr addresses, ptr offsets, i32 offset, i32 count, i32 half, i32 op)"
    )
    with c.when(mask.eq(0)):
        c.ret(0)
    with c.when((context.word(Word.LIVE).to("i32") & ~mask).ne(0)):
        converge(context, mask, op)
    first = mask.lowest_bit().to("i64")
    place = c.variable("i32", offset)
    with c.when(addresses.ne(0)):
        base = addresses.load("i32", first)
        unequal = addresses.load("<32 x i32>").ne(base).cast("i32") & mask
        with c.when(unequal.ne(0)):
            fail(context, Fault.TENSOR_UNEQUAL, unequal.lowest_bit(), base, op)
        place.set(base + offset)
    address = place.get()
    _refuse(context, context.word(Word.TENSOR).eq(0), Fault.TENSOR_NONE, first, address, op)
    _refuse(context, context.word(Word.LIVE).to("i32").ne(0xFFFFFFFF), Fault.TENSOR_PARTIAL, first, address, op)
    lane, column = (address >> 16).to("i64"), (address & 0xFFFF).to("i64")
    quadrant = context.word(Word.QUADRANT)
    named, inner = lane >> 5, lane & 31
    wrong = named.ne(quadrant) & (named.ne(0) | context.word(Word.OWN_LANES).ne(0))
    wrong = wrong | (inner.ne(0) if shape == "32x32b" else (inner & 15).ne(0))
    _refuse(context, wrong, Fault.TENSOR_QUADRANT, first, address, op)
    groups = count.to("i64")
    if FRAGMENT_REGISTERS[shape] > 1:
        groups = groups >> (FRAGMENT_REGISTERS[shape].bit_length() - 1)
    columns = groups * (tensor_fragment_layout(shape).coefficients("C", n=1).cosize << int(pack))
    split = half.to("i64")
    starts = [column, column + split] if shape == "16x32bx2" else [column]
    for start in starts:
        _refuse(context, (start + columns).ugt(512), Fault.TENSOR_RANGE, first, address, op)
    owned = context.pointer(Word.TENSOR_OWNED)
    for start in starts:
        with c.loop(columns) as i, c.when(owned.load("i8", start + i).eq(0)):
            fail(context, Fault.TENSOR_UNALLOCATED, first, start + i, op)
    cells = context.pointer(Word.TENSOR).at(column * _ROW).at(((quadrant << 5) + inner) << 2)
    frame = context.pointer(Word.FRAME)
    if shape == "32x32b" and not pack:
        _whole_rows(c, write, frame, mask, cells, offsets, groups)
    else:
        with c.loop(count.to("i64")) as r:
            row = frame_row(frame, offsets, r)
            with c.each_bit(mask) as t:
                _one(shape, write, pack, cells, row, t, r, split)
    c.ret(0)


def _refuse(context: Value, wrong: Value, fault: Fault, lane: Value, address: Value, op: Value) -> None:
    with context.function.when(wrong):
        fail(context, fault, lane, address, op)


def _whole_rows(c: Function, write: bool, frame: Value, mask: Value, cells: Value, offsets: Value, count: Value) -> None:
    """.32x32b: a register's row is 32 neighbouring cells of one column."""
    lanes = mask.cast("<32 x i1>")
    kind = "<32 x i32>"
    with c.loop(count) as r:
        row = frame_row(frame, offsets, r)
        cell = cells.at(r * _ROW)
        source, target = (row, cell) if write else (cell, row)
        target.store(lanes.select(source.load(kind), target.load(kind)))


def _one(shape: str, write: bool, pack: bool, cells: Value, row: Value, t: Value, r: Value, split: Value) -> None:
    """One register of one thread."""
    layout = tensor_fragment_layout(shape)
    lane, column = layout.coefficients("L")(t, r), layout.coefficients("C")(t, r) << int(pack)
    if "H" in layout.symbols:
        column = column + layout.coefficients("H")(t, r) * split
    register = row.at(t << 2)
    # A register holds one cell, or the low halves of two.
    kind, count = ("i16", 2) if pack else ("i32", 1)
    for part in range(count):
        cell, held = cells.at((column + part) * _ROW + (lane << 2)), register.at(2 * part)
        source, target = (held, cell) if write else (cell, held)
        target.store(source.load(kind))
