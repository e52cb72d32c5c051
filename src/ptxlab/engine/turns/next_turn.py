"""Compiled code begins the turn of the next warp: the first of the one queue, or any of any queue under ``random``.

It draws the random numbers that `ptxlab.machine.schedule.queues` would draw, in the same order. Operations perform before a warp runs, and
where none can. Where the machine must do the next of these, nothing is drawn for that, and the scheduler goes on; after an operation that
has performed before a warp runs, it goes on with the queue that has been chosen (`TurnWord.CHOSEN`).
"""

from __future__ import annotations

from collections.abc import Callable

from ptxlab.engine.context import Word
from ptxlab.engine.turns.pending import emit_perform_any
from ptxlab.engine.turns.words import (
    GROUP_SLICE,
    MACHINE_ONLY,
    NO_LIMIT,
    NUMBERS,
    PERFORMS,
    POLL_TURNS,
    SLICE,
    BarrierCell,
    ClusterCell,
    QueueWord,
    TurnWord,
)
from ptxlab.native.builder import Function, Module, Value

__all__ = ["emit_next_turn"]


def emit_next_turn(module: Module) -> None:
    """``ptr nextturn(context, words)``: a warp has ended its turn; the context of the warp whose turn begins.

    It is null if the scheduler must go on. Nothing has been done then, but for operations that have performed.
    """
    c, (context, words) = module.define("ptr nextturn(ptr context, ptr words)", internal=True)
    used = words.word(TurnWord.USED)
    turns = context.pointer(Word.BARRIERS).pointer(BarrierCell.CLUSTER).at(8 * ClusterCell.TURNS)
    ended = turns.load("i64") + 1
    _leave_if(c, used.ugt(words.word(TurnWord.ALLOWED)) | (ended & (POLL_TURNS - 1)).eq(0))
    queue = context.pointer(Word.QUEUE).variable()
    with c.when(words.pointer(TurnWord.CHOICES).ne(0)) as in_order:
        queue.set(_choose(c, words))
        in_order()
        first = queue.get().word(QueueWord.HEAD)
        with c.loop_while(lambda: first.eq(queue.get().word(QueueWord.TAIL))):
            _perform_one(c, queue.get(), lambda pending: pending.constant(0))
        _leave_if(c, (_entry(queue.get(), first).load("i64") & MACHINE_ONLY).ne(0))
    chosen = queue.get()
    first = chosen.word(QueueWord.HEAD)
    following = _entry(chosen, first).load("ptr")
    turns.store(ended)
    chosen.set_word(QueueWord.HEAD, first + 1)
    left, there = following.word(Word.FUEL_LEFT), following.word(Word.OTHER_PC)
    fuel = left.ne(0).select(left, c.const("i64", SLICE))
    are_parted, no_limit = following.word(Word.OTHER_LANES).ne(0), c.const("i64", NO_LIMIT)
    granted = are_parted.select(fuel.min(GROUP_SLICE), fuel)
    limit = (are_parted & following.word(Word.PC).ult(there)).select(there, no_limit)
    clock = words.word(TurnWord.CLOCK) + used
    following.set_words({Word.FUEL: granted, Word.GRANTED: granted, Word.SLICE_REST: fuel - granted})
    following.set_words({Word.LIMIT: limit, Word.CLOCK: clock, Word.QUEUED: 0})
    c.ret(following)


def _leave_if(c: Function, condition: Value) -> None:
    """The scheduler goes on if a condition holds."""
    with c.when(condition):
        c.ret(0)


def _entry(queue: Value, at: Value) -> Value:
    """Where a queue holds the context of the warp at a position."""
    return queue.pointer(QueueWord.RING).at((at & queue.word(QueueWord.RING_MASK)) * 8)


def _perform_one(c: Function, queue: Value, position: Callable[[Value], Value]) -> None:
    """No warp of a queue can run: perform the operation at a position, by how many there are; the scheduler goes on if it must."""
    pending = queue.word(QueueWord.PENDING)
    _leave_if(c, pending.eq(0) | queue.word(QueueWord.POLLED).ne(0))
    emit_perform_any(c, queue, position(pending), _leave_if)


def _choose(c: Function, words: Value) -> Value:
    """The queue whose turn it is; the warp whose turn begins becomes its first one."""
    head = c.label("choose")
    c.jump(head)
    c.begin(head)
    choices = _Draws(c, words.pointer(TurnWord.CHOICES))
    count = words.word(TurnWord.QUEUE_COUNT)
    _leave_if(c, count.eq(0))
    queue = words.pointer(TurnWord.QUEUES).load("ptr", choices.below(count))
    draws = _Draws(c, queue)
    pending = queue.word(QueueWord.PENDING)
    with c.when(pending.ne(0)):
        high, low = draws.number() >> 5, draws.number() >> 6
        with c.when(((high << 26) | low).ult(PERFORMS)):
            emit_perform_any(c, queue, draws.below(pending), _leave_if)
            choices.keep()
            draws.keep()
            words.store(queue, TurnWord.CHOSEN)
    first, end = queue.word(QueueWord.HEAD), queue.word(QueueWord.TAIL)
    with c.when(first.eq(end)):
        _perform_one(c, queue, draws.below)
        choices.keep()
        draws.keep()
        words.set_word(TurnWord.CHOSEN, 0)
        c.jump(head)
    before = draws.below(end - first)
    _leave_if(c, (_entry(queue, first + before).load("i64") & MACHINE_ONLY).ne(0))
    with c.loop(before) as i:
        _entry(queue, end + i).store(_entry(queue, first + i).load("i64"))
    words.set_word(TurnWord.CHOSEN, 0)
    queue.set_words({QueueWord.HEAD: first + before, QueueWord.TAIL: end + before})
    choices.keep()
    draws.keep()
    return queue


class _Draws:
    """The random numbers of a queue, which are not used up before `keep`."""

    def __init__(self, c: Function, queue: Value) -> None:
        self._c, self._queue = c, queue
        self._drawn = queue.word(QueueWord.DRAWN).variable()

    def number(self) -> Value:
        """A number of 32 bits; the scheduler goes on if there is none."""
        at = self._drawn.get()
        _leave_if(self._c, at.eq(NUMBERS))
        self._drawn.set(at + 1)
        return self._queue.pointer(QueueWord.NUMBERS).load("i32", at).to("i64")

    def below(self, count: Value) -> Value:
        """A number below a count, which is less than 2^32."""
        unused, found = count.intrinsic("ctlz", immediate="i1 true") - 32, count.variable()
        with self._c.loop_while(lambda: found.get().uge(count)):
            found.set(self.number() >> unused)
        return found.get()

    def keep(self) -> None:
        """The numbers that were drawn are used up."""
        self._queue.set_word(QueueWord.DRAWN, self._drawn.get())
