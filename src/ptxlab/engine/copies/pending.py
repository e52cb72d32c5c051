"""Copies of boxes of tensor maps that compiled code issues, and performs later."""

from __future__ import annotations

from enum import IntEnum

from ptxlab.engine.arrivals import emit_progress, find_object, unless_awaited, window_place
from ptxlab.engine.repetitions import CopyWord
from ptxlab.engine.turns.pending import PendingRow, emit_free_row, emit_issue_row
from ptxlab.isa.native_ops import BoxWord
from ptxlab.isa.repeating import PendingCopy
from ptxlab.native.builder import Function, Module, Value

__all__ = ["CopyRow", "emit_issue_copy", "emit_perform_copy"]


class CopyRow(IntEnum):
    """What a row says of a copy to the shared memory of a CTA (`PendingRow.DATA`)."""

    NOTED = PendingRow.DATA
    """`PendingCopy`"""
    BOX = NOTED + PendingCopy.END
    """address of the `BoxWord` of the tensor map"""
    SOURCE = BOX + 1
    TARGET = BOX + 2
    """the host addresses of the box in global and in shared memory"""
    INSIDE = BOX + 3
    """address of the order of its chunks in shared memory"""
    END = BOX + 4


assert CopyRow.END <= PendingRow.END


def emit_issue_copy(
    c: Function, context: Value, known: Value, copy: Value, words: Value, ends: tuple[Value, Value, Value], places: tuple[Value, Value]
) -> None:
    """Issue a copy (`CopyWord`) with the words of a box; the function returns -1 where the handler must be called.

    ``ends`` are the addresses that the row has from `CopyRow.SOURCE` on, ``places`` those of the box and of the mbarrier object.
    """
    row = emit_free_row(c, context, known, -1)
    row.store(words, CopyRow.BOX)
    for index, end in enumerate(ends, CopyRow.SOURCE):
        row.store(end, index)
    with c.loop(words.word(BoxWord.RANK), entered=True) as i:
        row.store(copy.load("i64", i + CopyWord.COORDINATES), i + (CopyRow.NOTED + PendingCopy.COORDINATES))
    noted: dict[int, Value | int] = {CopyRow.NOTED + PendingCopy.PLACE: places[0], CopyRow.NOTED + PendingCopy.BARRIER: places[1]}
    noted |= {PendingRow.ORDER: 0, PendingRow.ARRIVES: 1}
    emit_issue_row(row, context, known, copy.word(CopyWord.LANE), Value(c, "ptr", "@perform"), noted)


def emit_perform_copy(module: Module) -> None:
    """``i64 perform(row)``: see `PendingRow.PERFORM`."""
    c, (row,) = module.define("i64 perform(ptr row)", internal=True)
    context, words = row.pointer(PendingRow.CONTEXT), row.pointer(CopyRow.BOX)
    home, at = window_place(row.word(CopyRow.NOTED + PendingCopy.BARRIER))
    counted = find_object(c, context, home, at, c.const("i64", -1) * words.word(BoxWord.TRANSACTION))
    unless_awaited(c, counted, counted.transactions.ne(0))
    source, target = (
        (row.pointer(CopyRow.SOURCE), words.pointer(BoxWord.OUTSIDE)),
        (row.pointer(CopyRow.TARGET), row.pointer(CopyRow.INSIDE)),
    )
    c.call(words.pointer(BoxWord.MOVE), "void", *source, *target, words.word(BoxWord.COUNT))
    counted.perform(c.const("i64", 0))
    emit_progress(context, 2)
    c.ret(0)
