"""Operations of a queue that have not performed: their rows, which the machine and compiled code share.

Compiled code issues operations that repeat others (`ptxlab.engine.repetitions`), and performs them. The machine issues and performs all
others, and those of compiled code where this leaves them to it (`ptxlab.machine.schedule.pending`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from ptxlab.engine.arrivals import emit_progress
from ptxlab.engine.context import Word
from ptxlab.engine.repetitions import ASK, CALLS, EXECUTION, FUNCTION, ISSUED, WORDS_GIVEN, emit_calls
from ptxlab.engine.turns.words import QueueWord
from ptxlab.isa.repeating import ORDER_BASE
from ptxlab.native.builder import Function, Module, Value

__all__ = ["PendingRow", "emit_issue", "emit_perform", "emit_perform_any", "row_at"]

_MOST_GIVEN = 5


class PendingRow(IntEnum):
    """The words of an operation."""

    ORDER = 0
    """operations with the same number perform in the order of issue; 0: it performs in any order"""
    IS_TOLD = 1
    """1 if the machine has issued it, or waits for it"""
    FUNCTION = 2
    """address of the function of its execution; 0 if the machine has issued it"""
    BASES = 3
    GIVEN = 4
    """address of the bases, and the words that are given to the function"""
    ASK = GIVEN + _MOST_GIVEN
    CALLS = ASK + 1
    """the same words as of its execution"""
    CONTEXT = CALLS + 1
    """address of the context of the warp that has issued it"""
    LANE = CONTEXT + 1
    EXECUTION = LANE + 1
    """the number of its execution (`ptxlab.engine.repetitions.Repetitions.executions`)"""
    SIGNAL = EXECUTION + 1
    """address of ``i64 arrive(context, address, ctas)``, which performs a commit before; -1, and nothing is done, if the machine must; or 0"""
    SIGNAL_ADDRESS = SIGNAL + 1
    SIGNAL_CTAS = SIGNAL + 2
    """its operands"""
    SIGNAL_OP = SIGNAL + 3
    """the index of the commit"""
    END = SIGNAL + 4


def row_at(queue: Value, number: Value) -> Value:
    """The row with a number."""
    return queue.pointer(QueueWord.ROWS).at(number * (8 * PendingRow.END))


def emit_issue(module: Module) -> None:
    """``i32 issuepending(context, known, bases, lane)``: issue an operation that repeats a known execution.

    The result is 0, and nothing is done, where the handler must be called.
    """
    c, (context, known, bases, lane) = module.define("i32 issuepending(ptr context, ptr known, ptr bases, i64 lane)")
    queue, execution = context.pointer(Word.QUEUE), known.word(EXECUTION)
    count = queue.word(QueueWord.PENDING)
    with c.when(execution.eq(0) | count.uge(queue.word(QueueWord.CAPACITY))):
        c.ret(0)
    emit_calls(c, context, known.pointer(ISSUED), lane, 0)
    row = row_at(queue, queue.pointer(QueueWord.ORDER).load("i64", count))
    row.store(context, PendingRow.CONTEXT)
    row.store(bases, PendingRow.BASES)
    row.set_words({PendingRow.GIVEN + index: known.word(WORDS_GIVEN + index) for index in range(_MOST_GIVEN)})
    row.set_words({PendingRow.ORDER: bases.word(ORDER_BASE), PendingRow.IS_TOLD: 0, PendingRow.LANE: lane, PendingRow.SIGNAL: 0})
    row.set_words({PendingRow.FUNCTION: known.word(FUNCTION), PendingRow.EXECUTION: execution})
    row.set_words({PendingRow.ASK: known.word(ASK), PendingRow.CALLS: known.word(CALLS)})
    queue.set_word(QueueWord.PENDING, count + 1)
    c.ret(1)


def emit_perform(module: Module) -> None:
    """``i64 performpending(row)``: perform an operation that compiled code has issued; -1, and nothing is done, if the machine must."""
    c, (row,) = module.define("i64 performpending(ptr row)")
    context, arguments = row.pointer(PendingRow.CONTEXT), (row.pointer(PendingRow.BASES), row.at(8 * PendingRow.GIVEN))
    ask = row.pointer(PendingRow.ASK)
    with c.when(ask.ne(0)), c.when(c.call(ask, "i64", *arguments).ne(0)):
        c.ret(-1)
    signal = row.pointer(PendingRow.SIGNAL)
    with c.when(signal.ne(0)):
        operands = row.word(PendingRow.SIGNAL_ADDRESS), row.word(PendingRow.SIGNAL_CTAS)
        with c.when(c.call(signal, "i64", context, *operands).ne(0)):
            c.ret(-1)
    emit_calls(c, context, row.pointer(PendingRow.CALLS), row.word(PendingRow.LANE), -1)
    c.call(row.pointer(PendingRow.FUNCTION), "void", *arguments)
    emit_progress(context, 1)
    c.ret(0)


def emit_perform_any(c: Function, queue: Value, position: Value, leave_if: Callable[[Function, Value], None]) -> None:
    """Emit what performs the operation at a position of a queue, or if it is in order with others the oldest of these.

    Nothing has been done where ``leave_if`` leaves the function since the machine must perform it.
    """
    order, place = queue.pointer(QueueWord.ORDER), position.variable()

    def row() -> Value:
        return row_at(queue, order.load("i64", place.get()))

    group = row().word(PendingRow.ORDER)
    with c.when(group.ne(0)):
        place.set(c.const("i64", 0))
        with c.loop_while(lambda: row().word(PendingRow.ORDER).ne(group)):
            place.set(place.get() + 1)
    leave_if(c, row().word(PendingRow.IS_TOLD).ne(0))
    leave_if(c, c.call(queue.pointer(QueueWord.PERFORM), "i64", row()).ne(0))
    number, left = order.load("i64", place.get()), queue.word(QueueWord.PENDING) - 1
    with c.loop(left, start=place.get()) as i:
        order.store(order.load("i64", i + 1), i)
    order.store(number, left)
    queue.set_word(QueueWord.PENDING, left)
