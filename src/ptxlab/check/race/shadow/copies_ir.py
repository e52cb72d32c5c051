"""The compiled functions that record a bulk copy when compiled code copies again; of one to shared memory the completion arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from ptxlab.check.race.shadow.shadow_words import CONCURRENT, DIGESTS, HOW_SHIFT, SUSPECT_WORDS, AgentWord, BulkWord, StateWord
from ptxlab.descriptors import TENSOR_MAP_BYTES
from ptxlab.engine.repetitions import FACTOR, CopyWord, each_receiver
from ptxlab.isa.native_ops import BoxWord
from ptxlab.native.builder import Function, Module, Value

__all__ = ["emit_copied", "emit_digest", "emit_stored", "note_equal_writes", "words_of_copy"]

_RANGES = BoxWord.END - BoxWord.RANGES


class _InstructionWord(IntEnum):
    """Of an instruction its index, the second words of entries for what it writes and reads, and whether to watch what it reads.

    ``EQUAL_WRITES``: 1 if equal writes of lanes, which nothing orders, have been noted, or need not be.
    """

    OP = 0
    WRITES = 1
    READS = 2
    WATCHED = 3
    EQUAL_WRITES = 4


def words_of_copy(op: int, writes: int, reads: int, watched: bool) -> NDArray[np.int64]:
    """The words of an instruction: the second words of entries for what it writes and reads, and whether the latter is ``watched``."""
    return np.array([op, writes, reads, watched, 0], np.uint64).view(np.int64)


def note_equal_writes(words: NDArray[np.int64], are_noted: Callable[[int], bool]) -> None:
    """Say in the words of an instruction whether equal writes are noted; that is asked for the second word of their entries."""
    words[_InstructionWord.EQUAL_WRITES] = are_noted(words.item(_InstructionWord.WRITES))


def emit_copied(module: Module) -> None:
    """``i64 copied(context, words, copy)``: record a copy of an instruction, as `Operations` and `Barriers` do when it has performed.

    Rows that the warp has recorded before are processed first. The result is PYTHON if nothing has been recorded, or if something is
    to be judged: that is noted (`StateWord.ISSUED`), and the completion has not arrived.
    """
    _record(module)
    c = Function(module, "copied", "i64", "ptr context, ptr words, ptr copy")
    context, words, copy = c.parameters
    agent, state = ready_agent(c, context, words.word(_InstructionWord.OP))
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
        _access_outside(c, state, copy, reader, words.word(_InstructionWord.READS))
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


def emit_stored(module: Module) -> None:
    """``i64 stored(context, words, copy)``: the same for copies from shared memory by all lanes of a mask, which copy the same.

    Nothing orders the writes of these lanes, which are equal: `Findings` must know that.
    """
    _drop_equal_writes(module)
    _record_stores(module)
    c = Function(module, "stored", "i64", "ptr context, ptr words, ptr copy")
    context, words, copy = c.parameters
    agent, state = ready_agent(c, context, words.word(_InstructionWord.OP))
    groups, lanes = agent.pointer(AgentWord.BULK_GROUPS), copy.word(CopyWord.LANE)
    with c.when(groups.eq(0) | ((lanes & (lanes - 1)).ne(0) & words.word(_InstructionWord.EQUAL_WRITES).eq(0))):
        c.ret(PYTHON)
    with c.each_bit(lanes) as lane, c.when(groups.at(lane * (8 * BulkWord.END)).word(BulkWord.NAME).eq(0)):
        c.ret(PYTHON)
    with as_running(state, agent):
        result = c.call("record_stores", "i64", state, words, copy)
    c.ret(result)


def _record_stores(module: Module) -> None:
    """``i64 record_stores(state, words, copy)``: the same for the running agent."""
    c = Function(module, "record_stores", "i64", "ptr state, ptr words, ptr copy", internal=True)
    state, words, copy = c.parameters
    groups, lanes = state.pointer(StateWord.AGENT).pointer(AgentWord.BULK_GROUPS), copy.word(CopyWord.LANE)
    watched, in_memory = words.word(_InstructionWord.WATCHED).ne(0), copy.word(CopyWord.MAP).ne(0)
    digest, previous = _digest_of(c, copy, in_memory), c.variable("i64", 0)
    with c.each_bit(lanes) as lane:
        slot = groups.at(lane * (8 * BulkWord.END))
        number = _number(slot)
        slot.set_word(BulkWord.OP, words.word(_InstructionWord.OP))
        kept = slot.pointer(BulkWord.STORES).at((number & (DIGESTS - 1)) << 4)
        kept.set_words({0: number, 1: digest})
        entry, reads = _entry(slot), words.word(_InstructionWord.READS)
        with c.when(watched):
            c.call("span", "void", state, copy.word(CopyWord.HOST), copy.word(CopyWord.SIZE), entry, reads)
        before = state.word(StateWord.SUSPECT_COUNT)
        _access_outside(c, state, copy, entry, words.word(_InstructionWord.WRITES))
        c.call("drop_equal_writes", "void", state, before, previous.get())
        previous.set(entry)
        with c.when(watched & in_memory):
            c.call("span", "void", state, copy.word(CopyWord.MAP), c.const("i64", TENSOR_MAP_BYTES), entry, reads)
    with c.when(state.word(StateWord.SUSPECT_COUNT).ne(0)):
        state.set_word(StateWord.ISSUED, lanes.intrinsic("ctpop"))
        c.ret(PYTHON)
    c.ret(DONE)


def _drop_equal_writes(module: Module) -> None:
    """``void drop_equal_writes(state, first, earlier)``: leave out the suspects from a number on that are writes of an entry."""
    c, (state, first, earlier) = module.define("void drop_equal_writes(ptr state, i64 first, i64 earlier)", internal=True)
    suspects, kept = state.pointer(StateWord.SUSPECTS), first.variable()
    with c.loop(state.word(StateWord.SUSPECT_COUNT) - first) as i:
        suspect = suspects.at((first + i) * (8 * SUSPECT_WORDS))
        wrote = ((suspect.word(1) >> HOW_SHIFT) & 1).ne(0)
        with c.when(~(suspect.word(0).eq(earlier) & wrote & suspect.word(SUSPECT_WORDS - 1).eq(CONCURRENT))):
            place = suspects.at(kept.get() * (8 * SUSPECT_WORDS))
            place.set_words({word: suspect.word(word) for word in range(SUSPECT_WORDS)})
            kept.set(kept.get() + 1)
    state.set_word(StateWord.SUSPECT_COUNT, kept.get())
    c.ret()


def emit_digest(module: Module) -> None:
    """``i64 digest(before, words, count, added)``: the digest of some words, to each of which something is added, and of those before."""
    c, (before, words, count, added) = module.define("i64 digest(i64 before, ptr words, i64 count, i64 added)")
    digest = before.variable()
    with c.loop(count) as i:
        mixed = (digest.get() ^ (words.load("i64", i, align=1) + added)) * FACTOR
        digest.set(mixed ^ (mixed >> 32))
    c.ret(digest.get())


def _digest_of(c: Function, copy: Value, in_memory: Value) -> Value:
    """What `Operations` keeps of a copy from shared memory."""
    box, nothing = copy.pointer(CopyWord.BOX), c.const("i64", 0)
    starts, count = box.pointer(BoxWord.RANGES), box.word(BoxWord.RANGES + 3)
    found = c.call("digest", "i64", nothing, copy.pointer(CopyWord.HOST), copy.word(CopyWord.SIZE) >> 3, nothing)
    digest = c.call("digest", "i64", found, starts, count, copy.word(CopyWord.SOURCE)).variable()
    with c.when(in_memory):
        digest.set(c.call("digest", "i64", digest.get(), copy.pointer(CopyWord.MAP), c.const("i64", TENSOR_MAP_BYTES // 8), nothing))
    return digest.get()


def _access_outside(c: Function, state: Value, copy: Value, who: Value, what: Value) -> None:
    """Record the access to a box in global memory; ``who`` and ``what`` are the words of its entry."""
    ranges = copy.pointer(CopyWord.BOX).at(8 * BoxWord.RANGES)
    for at in range(_RANGES):
        state.set_word(StateWord.ACCESSED + at, ranges.word(at))
    state.set_word(StateWord.ACCESSED + _RANGES, who)
    state.set_word(StateWord.ACCESSED + _RANGES + 1, what)
    c.call("ranges_from", "void", state, copy.word(CopyWord.SOURCE))


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
