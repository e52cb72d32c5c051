"""What compiled code does with warps that wait: it ends their turns, and lets them run when what they wait for is over."""

from __future__ import annotations

from collections.abc import Callable

from ptxlab.engine.context import Word
from ptxlab.engine.turns.words import SLICE, QueueWord, TurnWord
from ptxlab.native.builder import Function, Value

__all__ = ["count_service", "end_slice", "end_turn", "end_turn_in", "link_waiter", "pass_turn", "resume", "resume_waiters"]


def count_service(words: Value, op: Value) -> None:
    """Count an execution of a service."""
    counts = words.pointer(TurnWord.COUNTS)
    counts.store(counts.load("i64", op) + 1, op)


def end_turn_in(c: Function, waiters: Value, warp: Value, words: Value) -> None:
    """A warp becomes the last one of those who wait for the same, and its turn ends; ``waiters`` is where the first one is named."""
    link_waiter(c, waiters, warp)
    end_turn(c, warp, words)


def link_waiter(c: Function, waiters: Value, warp: Value) -> None:
    """A warp becomes the last one of those who wait for the same; ``waiters`` is where the first one is named."""
    link = waiters.variable()
    with c.loop_while(lambda: link.get().word(0).ne(0)):
        link.set(link.get().pointer(0).at(8 * Word.NEXT_WAITER))
    link.get().store(warp)
    warp.set_word(Word.NEXT_WAITER, 0)


def resume(warp: Value) -> None:
    """A warp that compiled code has blocked can run."""
    queue = warp.pointer(Word.QUEUE)
    tail = queue.word(QueueWord.TAIL)
    warp.set_word(Word.QUEUED, 1)
    queue.pointer(QueueWord.RING).store(warp, tail & queue.word(QueueWord.RING_MASK))
    queue.set_word(QueueWord.TAIL, tail + 1)


def resume_waiters(c: Function, waiters: Value, is_over: Callable[[Value], Value]) -> None:
    """Those of the linked warps can run whose wait is over, by their contexts; ``waiters`` is where the first one is named."""
    link = waiters.variable()
    with c.loop_while(lambda: link.get().word(0).ne(0)):
        waiter = link.get().pointer(0)
        with c.when(is_over(waiter)) as otherwise:
            link.get().store(waiter.pointer(Word.NEXT_WAITER))
            resume(waiter)
            otherwise()
            link.set(waiter.at(8 * Word.NEXT_WAITER))


def end_turn(c: Function, warp: Value, words: Value) -> None:
    """The turn of a warp ends since its lanes wait."""
    end_slice(c, warp)
    pass_turn(warp, words)


def end_slice(c: Function, warp: Value) -> None:
    """Lanes of a warp wait. It begins a new slice with its next turn if the launch has made progress since it did so last."""
    counts = warp.pointer(Word.BLOCKED_COUNTS)
    with c.when(counts.ne(0)):
        count = counts.at(warp.word(Word.INFO) * warp.word(Word.BLOCKED_STRIDE))
        count.set_word(0, count.word(0) + 1)
    fuel, progress = warp.word(Word.FUEL), warp.pointer(Word.PROGRESS).load("i64")
    fresh, whole = warp.word(Word.SEEN_PROGRESS).ne(progress), c.const("i64", SLICE)
    warp.set_words(
        {
            Word.SEEN_PROGRESS: progress,
            Word.FUEL_LEFT: fresh.select(whole, (fuel + warp.word(Word.SLICE_REST)).max(1)),
            Word.LAST_SLICE: fresh.select(whole, warp.word(Word.LAST_SLICE)),
        }
    )


def pass_turn(warp: Value, words: Value) -> None:
    """The turn of a warp ends: what it has executed is counted."""
    fuel = warp.word(Word.FUEL)
    used = words.word(TurnWord.USED) + warp.word(Word.USED_BEFORE) + (warp.word(Word.GRANTED) - fuel)
    warp.set_words({Word.AHEAD: 1, Word.USED_BEFORE: 0})
    words.set_words({TurnWord.USED: used, TurnWord.ENDED: words.word(TurnWord.ENDED) + 1})
