"""Operations of a queue that have not performed: their rows, which the machine and compiled code share.

Compiled code issues operations that repeat others (`ptxlab.engine.repetitions`), and performs them. The machine issues and performs all
others, and performs those of compiled code that this leaves to it (`ptxlab.machine.schedule.shared_operations`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from ptxlab.engine.context import Word
from ptxlab.engine.repetitions import EXECUTION
from ptxlab.engine.turns.words import QueueWord
from ptxlab.native.builder import Function, Value

__all__ = ["PendingRow", "emit_free_row", "emit_issue_row", "emit_perform_any", "row_at"]


class PendingRow(IntEnum):
    """The words of an operation."""

    ORDER = 0
    """operations with the same number perform in the order of issue; 0: it performs in any order"""
    IS_TOLD = 1
    """1 if the machine has issued it, or waits for it"""
    PERFORM = 2
    """address of ``i64 perform(row)``, which performs it; -1, and nothing is done, if the machine must. 0 if the machine has issued it"""
    CONTEXT = 3
    """address of the context of the warp that has issued it"""
    LANE = 4
    EXECUTION = 5
    """the number of its execution (`ptxlab.engine.repetitions.Repetitions.executions`)"""
    ARRIVES = 6
    """1 if it arrives on mbarrier objects, or completes bytes, when it performs"""
    DATA = 7
    """from here on what it does"""
    END = 21


def row_at(queue: Value, number: Value) -> Value:
    """The row with a number."""
    return queue.pointer(QueueWord.ROWS).at(number * (8 * PendingRow.END))


def emit_free_row(c: Function, context: Value, known: Value, failed: int) -> Value:
    """The row for an operation that repeats a known execution; the function returns ``failed`` where the handler must be called."""
    queue = context.pointer(Word.QUEUE)
    count = queue.word(QueueWord.PENDING)
    with c.when(known.word(EXECUTION).eq(0) | count.uge(queue.word(QueueWord.CAPACITY))):
        c.ret(failed)
    return row_at(queue, queue.pointer(QueueWord.ORDER).load("i64", count))


def emit_issue_row(row: Value, context: Value, known: Value, lane: Value, perform: Value, words: dict[int, Value | int]) -> None:
    """Issue the operation of a row that is free: it repeats a known execution."""
    queue = context.pointer(Word.QUEUE)
    row.store(perform, PendingRow.PERFORM)
    row.store(context, PendingRow.CONTEXT)
    row.set_words({PendingRow.IS_TOLD: 0, PendingRow.LANE: lane, PendingRow.EXECUTION: known.word(EXECUTION), **words})
    queue.set_word(QueueWord.PENDING, queue.word(QueueWord.PENDING) + 1)


def emit_perform_any(c: Function, queue: Value, position: Value, leave_if: Callable[[Function, Value], None]) -> None:
    """Emit what performs the operation at a position of a queue, or if it is in order with others the oldest of these.

    Nothing has been done where ``leave_if`` leaves the function since the machine must perform it.
    """
    order, place = queue.pointer(QueueWord.ORDER), position.variable()
    leave_if(c, order.eq(0))

    def row() -> Value:
        return row_at(queue, order.load("i64", place.get()))

    group = row().word(PendingRow.ORDER)
    with c.when(group.ne(0)):
        place.set(c.const("i64", 0))
        with c.loop_while(lambda: row().word(PendingRow.ORDER).ne(group)):
            place.set(place.get() + 1)
    leave_if(c, row().word(PendingRow.IS_TOLD).ne(0))
    leave_if(c, c.call(row().pointer(PendingRow.PERFORM), "i64", row()).ne(0))
    number, left = order.load("i64", place.get()), queue.word(QueueWord.PENDING) - 1
    with c.loop(left, start=place.get()) as i:
        order.store(order.load("i64", i + 1), i)
    order.store(number, left)
    queue.set_word(QueueWord.PENDING, left)
