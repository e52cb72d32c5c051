"""Compiled helpers for tcgen05.ld and st; cells are computed from the layouts of `ptxlab.layout`.

Section "Tensor Memory and Register Load/Store Instructions".
"""

from __future__ import annotations

from ptxlab.engine.context import Status, Word
from ptxlab.engine.faults import Fault
from ptxlab.engine.llvm.builder import Code, Unit, Value
from ptxlab.engine.support.accesses import FAILED, fail
from ptxlab.layout import tensor_fragment_layout
from ptxlab.tables import FRAGMENT_REGISTERS

__all__ = ["emit_tensor"]

_ROW = 512
"""Bytes of one column of all 128 lanes."""


def emit_tensor(unit: Unit, shape: str, write: bool, pack: bool) -> None:
    """``i32 tensor_ld_SHAPE(context, mask, addresses, offsets, offset, count, half, op)``; addresses null: ``offset`` alone."""
    name = f"tensor_{'st' if write else 'ld'}_{shape}{'_pack' if pack else ''}"
    params = [("ptr", "context"), ("i32", "mask"), ("ptr", "addresses"), ("ptr", "offsets")]
    params += [("i32", "offset"), ("i32", "count"), ("i32", "half"), ("i32", "op")]
    c = Code(unit, name, "i32", params, attributes="nounwind")
    context, mask, addresses, offsets, offset, count, half, op = c.params
    with c.if_(mask.eq(0), returns=True):
        c.ret(0)
    with c.if_((c.word(context, Word.LIVE).to("i32") & ~mask).ne(0), returns=True):
        c.set_word(context, Word.ACTIVE, mask)
        c.set_word(context, Word.INFO, op)
        c.set_word(context, Word.PC, op)
        c.ret(int(Status.CONVERGE))
    first = c.lowest(mask).to("i64")
    place = c.variable("i32", offset)
    with c.if_(addresses.ne(0)):
        base = c.load("i32", c.at(addresses, first << 2), 4)
        unequal = c.load("<32 x i32>", addresses, 4).ne(c.splat(base, 32)).cast("i32") & mask
        with c.if_(unequal.ne(0), returns=True):
            fail(c, context, Fault.TENSOR_UNEQUAL, c.lowest(unequal), base, op)
            c.ret(FAILED)
        c.store(base + offset, place, 8)
    address = c.load("i32", place, 8)
    _refuse(c, context, c.word(context, Word.TENSOR).eq(0), Fault.TENSOR_NONE, first, address, op)
    _refuse(c, context, c.word(context, Word.LIVE).to("i32").ne(0xFFFFFFFF), Fault.TENSOR_PARTIAL, first, address, op)
    lane, column = (address >> 16).to("i64"), (address & 0xFFFF).to("i64")
    quadrant = c.word(context, Word.QUADRANT)
    named, inner = lane >> 5, lane & 31
    wrong = named.ne(0) & named.ne(quadrant)
    wrong = wrong | (inner.ne(0) if shape == "32x32b" else (inner & 15).ne(0))
    _refuse(c, context, wrong, Fault.TENSOR_QUADRANT, first, address, op)
    groups = count.to("i64")
    if FRAGMENT_REGISTERS[shape] > 1:
        groups = groups >> (FRAGMENT_REGISTERS[shape].bit_length() - 1)
    columns = groups * (tensor_fragment_layout(shape).coefficients("C", n=1).cosize << int(pack))
    split = half.to("i64")
    starts = [column, column + split] if shape == "16x32bx2" else [column]
    for start in starts:
        _refuse(c, context, (start + columns).compare("ugt", 512), Fault.TENSOR_RANGE, first, address, op)
    owned = c.pointer(context, Word.TENSOR_OWNED)
    for start in starts:
        with c.repeat(columns) as i, c.if_(c.load("i8", c.at(owned, start + i)).eq(0), returns=True):
            fail(c, context, Fault.TENSOR_UNALLOCATED, first, start + i, op)
            c.ret(FAILED)
    cells = c.at(c.at(c.pointer(context, Word.TENSOR), column * _ROW), ((quadrant << 5) + inner) << 2)
    frame = c.pointer(context, Word.FRAME)
    if shape == "32x32b" and not pack:
        _whole_rows(c, write, frame, mask, cells, offsets, groups)
    else:
        with c.repeat(count.to("i64")) as r:
            row = c.at(frame, c.load("i32", c.at(offsets, r << 2), 4).to("i64"))
            with c.each_lane(mask) as t:
                _one(c, shape, write, pack, cells, row, t, r, split)
    c.ret(0)
    c.finish()


def _refuse(c: Code, context: Value, wrong: Value, fault: Fault, lane: Value, address: Value, op: Value) -> None:
    with c.if_(wrong, returns=True):
        fail(c, context, fault, lane, address, op)
        c.ret(FAILED)


def _whole_rows(c: Code, write: bool, frame: Value, mask: Value, cells: Value, offsets: Value, count: Value) -> None:
    """.32x32b: a register's row is 32 neighbouring cells of one column."""
    lanes = mask.cast("<32 x i1>")
    kind = "<32 x i32>"
    with c.repeat(count) as r:
        row = c.at(frame, c.load("i32", c.at(offsets, r << 2), 4).to("i64"))
        cell = c.at(cells, r * _ROW)
        source, target = (row, cell) if write else (cell, row)
        c.store(c.select(lanes, c.load(kind, source, 4), c.load(kind, target, 4)), target, 4)


def _one(c: Code, shape: str, write: bool, pack: bool, cells: Value, row: Value, t: Value, r: Value, split: Value) -> None:
    """One register of one thread."""
    layout = tensor_fragment_layout(shape)
    lane, column = layout.coefficients("L")(t, r), layout.coefficients("C")(t, r) << int(pack)
    if "H" in layout.symbols:
        column = column + layout.coefficients("H")(t, r) * split
    register = c.at(row, t << 2)
    # A register holds one cell, or the low halves of two.
    kind, count = ("i16", 2) if pack else ("i32", 1)
    for part in range(count):
        cell, held = c.at(cells, (column + part) * _ROW + (lane << 2)), c.at(register, 2 * part)
        source, target = (held, cell) if write else (cell, held)
        c.store(c.load(kind, source, 4 // count), target, 4 // count)
