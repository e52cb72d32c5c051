"""Compiled code lets the other lanes of a warp run where some wait for a phase of an mbarrier object.

It does what the scheduler does. The others run until they stand at an instruction that lanes execute together; then the warp is blocked,
and the lanes that wait are those that run next. While the others run compiled code completes no services for them: at a service, and
wherever else they stop, the scheduler takes over both (`Word.LANES_AWAIT`). So the phase cannot become complete meanwhile.
"""

from __future__ import annotations

from ptxlab.engine.context import BY_PARITY, OTHERS_FIRST, Status, Word
from ptxlab.engine.mbarrier_rows import Cell, row_address
from ptxlab.engine.turns.emission import end_slice, link_waiter, pass_turn
from ptxlab.engine.turns.lanes import run_lanes
from ptxlab.engine.turns.words import NO_LIMIT
from ptxlab.native.builder import Function, Value

__all__ = ["emit_begin_others", "emit_block_waiting", "others_can_run"]

_WAITS = ((Word.LANES_ACTIVE, Word.ACTIVE), (Word.LANES_PHASE, Word.AWAITED_PHASE), (Word.LANES_RESULT, Word.AWAITED_RESULT))
_SERVICES = ((Word.KEPT_PERMITTED, Word.PERMITTED), (Word.KEPT_REPETITIONS, Word.REPETITIONS))


def others_can_run(warp: Value) -> Value:
    """Whether a warp has other lanes that can run, and they get their turn if those that run now wait."""
    left = warp.word(Word.FUEL) + warp.word(Word.SLICE_REST)
    return warp.word(Word.OTHER_LANES).ne(0) & warp.word(Word.OTHER_OP).eq(0) & left.gt(0)


def emit_begin_others(c: Function, warp: Value, op: Value, awaits: Value) -> None:
    """The other lanes run, since those that have run wait at an op for what ``awaits`` says."""
    end_slice(c, warp)
    others, there, pc, mask = (warp.word(word) for word in (Word.OTHER_LANES, Word.OTHER_PC, Word.PC, Word.MASK))
    _copy(warp, (*_WAITS, *_SERVICES))
    warp.set_words({Word.LANES_AWAIT: awaits, Word.PERMITTED: warp.word(Word.NOT_PERMITTED), Word.REPETITIONS: 0})
    warp.set_words({Word.OTHER_LANES: mask | ~others & OTHERS_FIRST, Word.OTHER_PC: pc, Word.OTHER_OP: op + 1})
    limit = there.ult(pc).select(pc, c.const("i64", NO_LIMIT))
    run_lanes(warp, others & (OTHERS_FIRST - 1), there, limit, warp.word(Word.FUEL) + warp.word(Word.SLICE_REST))


def emit_block_waiting(c: Function, warp: Value, words: Value, status: Value) -> None:
    """The others have stopped with a status: the warp is blocked and its turn ends, or the function returns to the scheduler."""
    stands = status.eq(Status.CONVERGE) & warp.word(Word.ACTIVE).eq(warp.word(Word.MASK))
    left = warp.word(Word.FUEL) + warp.word(Word.SLICE_REST)
    with c.when(~stands | (warp.word(Word.EXITED) | warp.word(Word.EVENT_COUNT)).ne(0) | left.le(0)):
        c.ret(status)
    waiting, op, awaits = warp.word(Word.OTHER_LANES), warp.word(Word.OTHER_OP), warp.word(Word.LANES_AWAIT)
    standing, others, pc = warp.word(Word.INFO), warp.word(Word.MASK), warp.word(Word.PC)
    warp.set_words({Word.MASK: waiting & (OTHERS_FIRST - 1), Word.PC: warp.word(Word.OTHER_PC), Word.INFO: op - 1})
    warp.set_words({Word.OTHER_LANES: others | ~waiting & OTHERS_FIRST, Word.OTHER_PC: pc, Word.OTHER_OP: standing + 1})
    _copy(warp, tuple((to, kept) for kept, to in (*_WAITS, *_SERVICES)))
    warp.set_words({Word.AWAITS: awaits, Word.LANES_AWAIT: 0})
    place = row_address(warp.pointer(Word.SHARED), warp.word(Word.SHARED_SIZE), awaits & (BY_PARITY - 1))
    link_waiter(c, place.at(4 * Cell.WAITERS), warp)
    pass_turn(warp, words)


def _copy(warp: Value, pairs: tuple[tuple[Word, Word], ...]) -> None:
    for to, source in pairs:
        warp.set_word(to, warp.word(source))
