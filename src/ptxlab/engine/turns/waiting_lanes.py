"""Compiled code lets the other lanes of a warp run where some wait for a phase of an mbarrier object.

It does what the scheduler does. The others run until they stand at an instruction that lanes execute together; then the turn of the warp
ends, and the lanes that wait are those that run next. Where the others stop elsewhere, the scheduler takes over both
(`Word.LANES_ACTIVE`), as it does where they have completed the phase themselves. They themselves wait for no phase.
"""

from __future__ import annotations

from ptxlab.engine.context import OTHERS_FIRST, Status, Word
from ptxlab.engine.turns.emission import end_slice, pass_turn
from ptxlab.engine.turns.lanes import run_lanes
from ptxlab.engine.turns.words import NO_LIMIT
from ptxlab.native.builder import Function, Value

__all__ = ["emit_begin_others", "emit_end_others", "others_can_run"]


def others_can_run(warp: Value) -> Value:
    """Whether a warp has other lanes that can run, and they get their turn if those that run now wait."""
    left = warp.word(Word.FUEL) + warp.word(Word.SLICE_REST)
    return warp.word(Word.OTHER_LANES).ne(0) & warp.word(Word.OTHER_OP).eq(0) & left.gt(0)


def emit_begin_others(c: Function, warp: Value, op: Value) -> None:
    """The other lanes run, since those that have run wait at an op for what the context says."""
    end_slice(c, warp)
    others, there, pc, mask = (warp.word(word) for word in (Word.OTHER_LANES, Word.OTHER_PC, Word.PC, Word.MASK))
    warp.set_words({Word.OTHER_LANES: mask | ~others & OTHERS_FIRST, Word.OTHER_PC: pc, Word.OTHER_OP: op + 1})
    warp.set_word(Word.LANES_ACTIVE, warp.word(Word.ACTIVE))
    _change_permission(warp)
    limit = there.ult(pc).select(pc, c.const("i64", NO_LIMIT))
    run_lanes(warp, others & (OTHERS_FIRST - 1), there, limit, warp.word(Word.FUEL) + warp.word(Word.SLICE_REST))


def emit_end_others(c: Function, warp: Value, words: Value, status: Value) -> None:
    """The others have stopped with a status: the turn of the warp ends, or the function returns to the scheduler."""
    stand = status.eq(Status.CONVERGE) & warp.word(Word.ACTIVE).eq(warp.word(Word.MASK))
    left = warp.word(Word.FUEL) + warp.word(Word.SLICE_REST)
    for_scheduler = (warp.word(Word.EXITED) | warp.word(Word.EVENT_COUNT) | warp.word(Word.QUEUED)).ne(0)
    with c.when(~stand | for_scheduler | left.le(0)):
        c.ret(status)
    waiting, op, there = warp.word(Word.OTHER_LANES), warp.word(Word.OTHER_OP), warp.word(Word.OTHER_PC)
    others, standing, pc = warp.word(Word.MASK), warp.word(Word.INFO), warp.word(Word.PC)
    warp.set_words({Word.OTHER_LANES: others | ~waiting & OTHERS_FIRST, Word.OTHER_PC: pc, Word.OTHER_OP: standing + 1})
    warp.set_words({Word.MASK: waiting & (OTHERS_FIRST - 1), Word.PC: there, Word.INFO: op - 1})
    warp.set_words({Word.ACTIVE: warp.word(Word.LANES_ACTIVE), Word.LANES_ACTIVE: 0})
    _change_permission(warp)
    pass_turn(warp, words)


def _change_permission(warp: Value) -> None:
    permitted, beside = warp.word(Word.PERMITTED), warp.word(Word.PERMITTED_BESIDE)
    warp.set_words({Word.PERMITTED: beside, Word.PERMITTED_BESIDE: permitted})
