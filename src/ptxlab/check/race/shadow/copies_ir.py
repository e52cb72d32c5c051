"""The compiled function that records a bulk copy to shared memory when compiled code copies again, and lets its completion arrive."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.race.clocks.mbarrier_clock import WarpWord
from ptxlab.check.race.shadow._clocks_ir import DONE, PYTHON, SLOT
from ptxlab.check.race.shadow._mbarriers_ir import (
    emit_completion,
    first_arrival,
    object_of,
    unless_initialised,
    unless_may_arrive,
    words_of_warp,
)
from ptxlab.check.race.shadow.issue_ir import as_running, ready_agent
from ptxlab.check.race.shadow.shadow_ir import AgentWord, BulkWord, StateWord
from ptxlab.engine.repetitions import CopyWord
from ptxlab.native.builder import Function, Module

__all__ = ["emit_copied", "words_of_copy"]


class _InstructionWord(IntEnum):
    """The words of an instruction: its index, and the second word of an entry for what it writes."""

    OP = 0
    WHAT = 1


def words_of_copy(op: int, what: int) -> NDArray[np.int64]:
    """The words of an instruction; ``what`` is the second word of an entry for what it writes."""
    return np.array([op, what], np.uint64).view(np.int64)


def emit_copied(module: Module) -> None:
    """``i64 copied(context, words, copy)``: record a copy of an instruction, as `Operations` and `Barriers` do when it has performed.

    Rows that the warp has recorded before are processed first. The result is PYTHON if nothing has been recorded, or if something is
    to be judged: that is noted (`StateWord.ISSUED`), and the completion has not arrived.
    """
    _record(module)
    c = Function(module, "copied", "i64", "ptr context, ptr words, ptr copy")
    context, words, copy = c.parameters
    agent, state = ready_agent(c, context)
    with as_running(state, agent):
        result = c.call("record_copy", "i64", state, words, copy)
    c.ret(result)


def _record(module: Module) -> None:
    """``i64 record_copy(state, words, copy)``: the same for the running agent."""
    c = Function(module, "record_copy", "i64", "ptr state, ptr words, ptr copy", internal=True)
    state, words, copy = c.parameters
    agent = state.pointer(StateWord.AGENT)
    all_reads = agent.pointer(AgentWord.BULK_READS)
    with c.when(all_reads.eq(0) | agent.word(AgentWord.CLUSTER_MBARRIERS).eq(0)):
        c.ret(PYTHON)
    reads = all_reads.at(copy.word(CopyWord.LANE) * (8 * BulkWord.END))
    about = object_of(c, state, copy.word(CopyWord.BARRIER_RANK), copy.word(CopyWord.BARRIER_OFFSET))
    uses, completes = words_of_warp(state, about), copy.word(CopyWord.COMPLETES)
    writes = uses.pointer(WarpWord.COPY_SLOT)
    with c.when(reads.word(BulkWord.NAME).eq(0) | writes.eq(0)):
        c.ret(PYTHON)
    unless_initialised(c, state, about)
    unless_may_arrive(c, state, about, completes)
    op = words.word(_InstructionWord.OP)
    numbers = [slot.word(BulkWord.CLOCK) + 1 for slot in (reads, writes)]
    for slot, number in zip((reads, writes), numbers, strict=True):
        slot.set_word(BulkWord.CLOCK, number)
    writes.set_word(BulkWord.OP, op)
    who = (writes.word(BulkWord.NAME) << 32) | numbers[1]
    where = copy.word(CopyWord.HOST), copy.word(CopyWord.SIZE)
    c.call("span", "void", state, *where, who, words.word(_InstructionWord.WHAT))
    with c.when(state.word(StateWord.SUSPECT_COUNT).ne(0)):
        state.set_word(StateWord.ISSUED, 1)
        c.ret(PYTHON)
    own = [slot.word(BulkWord.NAME) & SLOT for slot in (reads, writes)]
    emit_completion(c, state, about, list(zip(own, numbers, strict=True)))
    with c.when(uses.word(WarpWord.COPY_HEAD).eq(0)):
        uses.set_word(WarpWord.COPY_ORDER, first_arrival(about))
    uses.set_words({WarpWord.COPY_CLOCK: numbers[1], WarpWord.COPY_HEAD: (own[1] << 32) | op})
    with c.when(completes.ne(0)):
        c.call("complete", "void", about)
    c.ret(DONE)
