"""The compiled function that records a bulk copy to shared memory when compiled code copies again, and lets its completion arrive."""

from __future__ import annotations

from collections.abc import Iterator
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
from ptxlab.descriptors import TENSOR_MAP_BYTES
from ptxlab.engine.repetitions import CopyWord, each_receiver
from ptxlab.isa.native_ops import BoxWord
from ptxlab.native.builder import Function, Module, Value

__all__ = ["emit_copied", "words_of_copy"]

_RANGES = BoxWord.END - BoxWord.RANGES


class _InstructionWord(IntEnum):
    """Of an instruction its index, the second words of entries for what it writes and reads, and whether to watch what it reads."""

    OP = 0
    WRITES = 1
    READS = 2
    WATCHED = 3


def words_of_copy(op: int, writes: int, reads: int, watched: bool) -> NDArray[np.int64]:
    """The words of an instruction: the second words of entries for what it writes and reads, and whether the latter is ``watched``."""
    return np.array([op, writes, reads, watched], np.uint64).view(np.int64)


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
    with c.when(reads.word(BulkWord.NAME).eq(0)):
        c.ret(PYTHON)
    for each, about, uses in _objects(c, state, copy):
        with c.when(uses.word(WarpWord.COPY_SLOT).eq(0)):
            c.ret(PYTHON)
        unless_initialised(c, state, about)
        unless_may_arrive(c, state, about, each.word(CopyWord.COMPLETES))
    op, watched = words.word(_InstructionWord.OP), words.word(_InstructionWord.WATCHED).ne(0)
    read, reader = _number(reads), _entry(reads)
    with c.when(watched):
        reads.set_word(BulkWord.OP, op)
        ranges = copy.pointer(CopyWord.BOX).at(8 * BoxWord.RANGES)
        for at in range(_RANGES):
            state.set_word(StateWord.ACCESSED + at, ranges.word(at))
        state.set_word(StateWord.ACCESSED + _RANGES, reader)
        state.set_word(StateWord.ACCESSED + _RANGES + 1, words.word(_InstructionWord.READS))
        c.call("ranges_from", "void", state, copy.word(CopyWord.SOURCE))
    for each, _, uses in _objects(c, state, copy):
        writes = uses.pointer(WarpWord.COPY_SLOT)
        with c.when(each.word(CopyWord.SHARES).eq(0)):
            _number(writes)
            writes.set_word(BulkWord.OP, op)
        writer = _entry(writes)
        where = each.word(CopyWord.HOST), each.word(CopyWord.SIZE)
        c.call("span", "void", state, *where, writer, words.word(_InstructionWord.WRITES))
    with c.when(watched & copy.word(CopyWord.MAP).ne(0)):
        where = copy.word(CopyWord.MAP), c.const("i64", TENSOR_MAP_BYTES)
        c.call("span", "void", state, *where, reader, words.word(_InstructionWord.READS))
    with c.when(state.word(StateWord.SUSPECT_COUNT).ne(0)):
        state.set_word(StateWord.ISSUED, 1)
        c.ret(PYTHON)
    for each, about, uses in _objects(c, state, copy):
        writes = uses.pointer(WarpWord.COPY_SLOT)
        own, written = writes.word(BulkWord.NAME) & SLOT, writes.word(BulkWord.CLOCK)
        emit_completion(c, state, about, [(reads.word(BulkWord.NAME) & SLOT, read), (own, written)])
        with c.when(uses.word(WarpWord.COPY_HEAD).eq(0)):
            uses.set_word(WarpWord.COPY_ORDER, first_arrival(about))
        uses.set_words({WarpWord.COPY_CLOCK: written, WarpWord.COPY_HEAD: (own << 32) | op})
        with c.when(each.word(CopyWord.COMPLETES).ne(0)):
            c.call("complete", "void", about)
    c.ret(DONE)


def _objects(c: Function, state: Value, copy: Value) -> Iterator[tuple[Value, Value, Value]]:
    """Emit code for each receiver of a copy; yields its `CopyWord`, the words of its object, and those of the running agent there."""
    for each in each_receiver(c, copy):
        about = object_of(c, state, each.word(CopyWord.BARRIER_RANK), each.word(CopyWord.BARRIER_OFFSET))
        yield each, about, words_of_warp(state, about)


def _number(slot: Value) -> Value:
    """Number a copy in a slot."""
    number = slot.word(BulkWord.CLOCK) + 1
    slot.set_word(BulkWord.CLOCK, number)
    return number


def _entry(slot: Value) -> Value:
    """The first word of an entry for the newest copy in a slot."""
    return (slot.word(BulkWord.NAME) << 32) | slot.word(BulkWord.CLOCK)
