"""Support function that issues an operation whose execution is known, and performs it later; and what follows it: a commit."""

from __future__ import annotations

from enum import IntEnum

from ptxlab.engine.arrivals import emit_progress
from ptxlab.engine.repetitions import ASK, CALLS, FUNCTION, ISSUED, WORDS_GIVEN, emit_calls
from ptxlab.engine.turns.pending import PendingRow, emit_free_row, emit_issue_row
from ptxlab.isa.repeating import ORDER_BASE
from ptxlab.native.builder import Module, Value

__all__ = ["ProductRow", "emit_issue"]

_MOST_GIVEN = 5


class ProductRow(IntEnum):
    """What a row says of an operation with bases (`PendingRow.DATA`)."""

    FUNCTION = PendingRow.DATA
    ASK = FUNCTION + 1
    CALLS = FUNCTION + 2
    """the same words as of its execution"""
    BASES = FUNCTION + 3
    GIVEN = FUNCTION + 4
    """address of the bases, and the words that are given to the function"""
    SIGNAL = GIVEN + _MOST_GIVEN
    """address of ``i64 arrive(context, address, ctas)``, which performs a commit; -1, and nothing is done, if the machine must; or 0"""
    SIGNAL_PLACE = SIGNAL + 1
    SIGNAL_CTAS = SIGNAL + 2
    """its operands"""
    SIGNAL_OP = SIGNAL + 3
    """the index of the commit"""
    END = SIGNAL + 4


assert ProductRow.END <= PendingRow.END


def emit_issue(module: Module) -> None:
    """``i32 issuepending(context, known, bases, lane)``: issue an operation that repeats a known execution.

    The result is 0, and nothing is done, where the handler must be called.
    """
    _emit_perform(module)
    c, (context, known, bases, lane) = module.define("i32 issuepending(ptr context, ptr known, ptr bases, i64 lane)")
    row = emit_free_row(c, context, known, 0)
    emit_calls(c, context, known.pointer(ISSUED), lane, 0)
    row.store(bases, ProductRow.BASES)
    words: dict[int, Value | int] = {
        PendingRow.ORDER: bases.word(ORDER_BASE),
        PendingRow.ARRIVES: 0,
        ProductRow.FUNCTION: known.word(FUNCTION),
        ProductRow.ASK: known.word(ASK),
        ProductRow.CALLS: known.word(CALLS),
        ProductRow.SIGNAL: 0,
    }
    words |= {ProductRow.GIVEN + index: known.word(WORDS_GIVEN + index) for index in range(_MOST_GIVEN)}
    emit_issue_row(row, context, known, lane, Value(c, "ptr", "@perform"), words)
    c.ret(1)


def _emit_perform(module: Module) -> None:
    """``i64 perform(row)``: see `PendingRow.PERFORM`."""
    c, (row,) = module.define("i64 perform(ptr row)", internal=True)
    context, arguments = row.pointer(PendingRow.CONTEXT), (row.pointer(ProductRow.BASES), row.at(8 * ProductRow.GIVEN))
    ask, signal = row.pointer(ProductRow.ASK), row.pointer(ProductRow.SIGNAL)
    with c.when(ask.ne(0)), c.when(c.call(ask, "i64", *arguments).ne(0)):
        c.ret(-1)
    with c.when(signal.ne(0)):
        operands = row.word(ProductRow.SIGNAL_PLACE), row.word(ProductRow.SIGNAL_CTAS)
        with c.when(c.call(signal, "i64", context, *operands).ne(0)):
            c.ret(-1)
    emit_calls(c, context, row.pointer(ProductRow.CALLS), row.word(PendingRow.LANE), -1)
    c.call(row.pointer(ProductRow.FUNCTION), "void", *arguments)
    emit_progress(context, 1)
    c.ret(0)
