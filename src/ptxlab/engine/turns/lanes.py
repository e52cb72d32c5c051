"""Compiled code lets the lanes of a warp that has diverged take turns, where they go two ways.

It does what the scheduler does (`ptxlab.machine.warp.convergence`): the lanes at the smaller op run up to where the others stand; lanes at
one op join, also where both wait for each other at an instruction that lanes execute together. In all other cases the scheduler takes over
both (`Word.OTHER_LANES`). It hands over lanes that only wait for those that run; these begin a slice when they have used one up. Of lanes
that wait for a phase `ptxlab.engine.turns.waiting_lanes` knows.
"""

from __future__ import annotations

from ptxlab.engine.context import OTHERS_FIRST, OTHERS_TURN_SHIFT, Status, Word
from ptxlab.engine.turns.words import GROUP_SLICE, NO_LIMIT
from ptxlab.native.builder import Module, Value

__all__ = ["emit_switch_lanes", "run_lanes"]


def emit_switch_lanes(module: Module) -> None:
    """``i1 switchlanes(context, status)``: whether lanes of the warp go on that has stopped with a status; nothing is done if not."""
    c, (context, status) = module.define("i1 switchlanes(ptr context, i32 status)", internal=True)
    other_lanes, mask, pc = context.word(Word.OTHER_LANES), context.word(Word.MASK), context.word(Word.PC)
    left = context.word(Word.FUEL) + context.word(Word.SLICE_REST)
    for_scheduler = (context.word(Word.EXITED) | context.word(Word.EVENT_COUNT)).ne(0)
    with c.when(context.word(Word.LANE_TURNS).eq(0) | for_scheduler | left.le(0)):
        c.ret(0)
    with c.when(status.eq(Status.DIVERGE)):
        taken, other = context.word(Word.TAKEN), context.word(Word.NEXT)
        with c.when(mask.ne(context.word(Word.LIVE)) | other_lanes.ne(0) | taken.eq(other)):
            c.ret(0)
        branching = context.word(Word.ACTIVE)
        first, others = taken.lt(other), mask & ~branching
        _set_others(context, first.select(others, branching | OTHERS_FIRST), first.select(other, taken), c.const("i64", 0))
        run_lanes(context, first.select(branching, others), taken.min(other), taken.max(other), left)
        c.ret(1)
    there, op = context.word(Word.OTHER_PC), context.word(Word.OTHER_OP)
    lanes, both, swapped = other_lanes & (OTHERS_FIRST - 1), mask | other_lanes & (OTHERS_FIRST - 1), mask | ~other_lanes & OTHERS_FIRST
    no_limit = c.const("i64", NO_LIMIT)
    with c.when(other_lanes.ne(0) & status.eq(Status.YIELD)):
        with c.when(op.ne(0)):
            run_lanes(context, mask, pc, no_limit, left)
            c.ret(1)
        with c.when(pc.eq(there)) as otherwise:
            context.set_word(Word.OTHER_LANES, 0)
            run_lanes(context, both, pc, no_limit, left)
            otherwise()
            _set_others(context, swapped, pc, c.const("i64", 0))
            run_lanes(context, lanes, there, pc, left)
        c.ret(1)
    with c.when(status.eq(Status.FUEL) & op.ne(0) & context.word(Word.LANES_ACTIVE).eq(0) & other_lanes.ne(0)):
        context.set_word(Word.OTHER_LANES, other_lanes - (1 << OTHERS_TURN_SHIFT))
        run_lanes(context, mask, pc, pc.lt(there).select(there, no_limit), left)
        c.ret(1)
    with c.when(other_lanes.ne(0) & status.eq(Status.CONVERGE) & context.word(Word.ACTIVE).eq(mask)):
        standing = context.word(Word.INFO) + 1
        with c.when(op.eq(standing)):
            context.set_word(Word.OTHER_LANES, 0)
            run_lanes(context, both, pc, no_limit, left)
            c.ret(1)
        with c.when(op.eq(0)):
            _set_others(context, swapped, pc, standing)
            run_lanes(context, lanes, there, pc.gt(there).select(pc, no_limit), left)
            c.ret(1)
    c.ret(0)


def _set_others(context: Value, lanes: Value, pc: Value, op: Value) -> None:
    """These lanes do not run."""
    context.set_words({Word.OTHER_LANES: lanes, Word.OTHER_PC: pc, Word.OTHER_OP: op})


def run_lanes(context: Value, lanes: Value, pc: Value, limit: Value, left: Value) -> None:
    """These lanes run; so many warp-instructions are left of the slice of the warp."""
    granted = left.min(GROUP_SLICE)
    earlier = context.word(Word.USED_BEFORE) + (context.word(Word.GRANTED) - context.word(Word.FUEL))
    context.set_words({Word.MASK: lanes, Word.PC: pc, Word.LIMIT: limit, Word.USED_BEFORE: earlier})
    context.set_words({Word.FUEL: granted, Word.GRANTED: granted, Word.SLICE_REST: left - granted})
