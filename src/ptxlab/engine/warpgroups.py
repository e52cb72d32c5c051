"""What handlers and compiled code share of a warpgroup that executes wgmma: the words, and the functions that work on them.

The four warps issue the same instructions, which are numbered in order. The last warp that issues one performs it. Compiled code issues
one that it may repeat (`ptxlab.engine.repetitions`) for a warp if all warps that have issued it already have done so by compiled code, for
the same execution. It leaves to the handler what continues somebody whom the scheduler has blocked, and what first has to write back
another accumulator. A warp that waits for groups is blocked by compiled code (`ptxlab.engine.turns`).

An accumulator is a matrix D in flight. Consecutive instructions work on one copy of it, which is written to the registers when a warp has
waited for the last of them.
"""

from __future__ import annotations

from ptxlab.engine.arrivals import emit_progress, unless
from ptxlab.engine.context import OF_GROUPS, Word
from ptxlab.engine.repetitions import CALLS, FUNCTION, KEY, WORDS_GIVEN, emit_calls
from ptxlab.engine.turns.emission import resume_waiters
from ptxlab.isa.warpgroup_words import (
    A_BYTES,
    HELD_BYTES,
    NAME_WORDS,
    RECORD_WORDS,
    RING,
    SLOT_WORDS,
    WARPS,
    Base,
    Given,
    GroupWord,
    More,
    Record,
    Slot,
)
from ptxlab.native.builder import Function, Module, Value

__all__ = ["emit_commit_group", "emit_issue", "emit_wait_group"]

assert WORDS_GIVEN - KEY >= NAME_WORDS


def _record(group: Value, number: Value) -> Value:
    return group.pointer(GroupWord.RECORDS).at(number * (8 * RECORD_WORDS))


def emit_issue(module: Module) -> None:
    """``i64 groupissue(context, known)``: issue an instruction whose execution is known; -1 where the handler must be called."""
    c, (context, known) = module.define("i64 groupissue(ptr context, ptr known)")
    group, member = context.pointer(Word.WARPGROUP), context.word(Word.QUADRANT)
    issued = group.at(8 * GroupWord.ISSUED)
    number, performed = issued.load("i64", member), group.word(GroupWord.PERFORMED)
    at = number & RING - 1
    slot = group.pointer(GroupWord.SLOTS).at(at * (8 * SLOT_WORDS))
    more = known.pointer(WORDS_GIVEN + Given.MORE)
    record = _record(group, known.word(WORDS_GIVEN + Given.RECORD))
    _check_metadata(c, context, more)
    with c.when(number.eq(group.word(GroupWord.BEGUN))) as otherwise:
        unless(c, (number - performed).ult(RING))
        slot.set_word(Slot.NUMBER, number)
        slot.set_words({Slot.KEY + index: known.word(KEY + index) for index in range(NAME_WORDS)})
        slot.set_words({Slot.A + index: more.word(More.OPERANDS + index) for index in range(SLOT_WORDS - Slot.A)})
        record.set_word(Record.LATEST, number)
        group.set_word(GroupWord.BEGUN, number + 1)
        otherwise()
        same = slot.word(Slot.NUMBER).eq(number)
        for word in range(NAME_WORDS):
            same = same & slot.word(Slot.KEY + word).eq(known.word(KEY + word))
        unless(c, same)
    a_place = group.pointer(GroupWord.A).at(at * HELD_BYTES)
    last = c.const("i1", 1)
    for warp in range(WARPS):
        last = last & (issued.word(warp).gt(number) | member.eq(warp))
    with c.when(last):
        unless(c, (number + 1).lt(group.word(GroupWord.AWAITED)))
        with c.loop(more.word(More.OVERLAPS)) as index:
            unless(c, _record(group, more.load("i64", index + (More.OVERLAPS + 1))).word(Record.IN_FLIGHT).eq(0))
        bases = group.at(8 * GroupWord.BASES)
        unless(c, bases.load("i64", known.word(WORDS_GIVEN + Given.RECORD) + Base.CELLS).ne(0))
        emit_calls(c, context, known.pointer(CALLS), c.const("i64", 0), -1)
    _copy_a(c, context, more, a_place.at(member * (A_BYTES // WARPS)))
    with c.when(more.word(More.USED).ne(0)):
        a_place.at(member * ((HELD_BYTES - A_BYTES) // WARPS) + A_BYTES).store(_metadata(context, more), align=4)
    issued.store(number + 1, member)
    with c.when(last):
        bases, function = group.at(8 * GroupWord.BASES), known.pointer(FUNCTION)
        with c.when(record.word(Record.IN_FLIGHT).eq(0)):
            with c.when(more.word(More.OPERANDS + 2).ne(0)):
                c.call(function, "void", bases, more.at(8 * More.LOAD))
            record.set_word(Record.IN_FLIGHT, 1)
        bases.set_word(Base.A, a_place.convert("ptrtoint", "i64"))
        c.call(function, "void", bases, known.at(8 * WORDS_GIVEN))
        group.set_word(GroupWord.PERFORMED, number + 1)
        _wake(c, group, number + 1)
        emit_progress(context, 1)
    c.ret(0)


def _wake(c: Function, group: Value, performed: Value) -> None:
    """The warps that compiled code has blocked for no further instructions can run."""
    resume_waiters(c, group.at(8 * GroupWord.WAITERS), lambda waiter: waiter.word(Word.AWAITED_PHASE).le(performed))


def _copy_a(c: Function, context: Value, more: Value, place: Value) -> None:
    """Copy the registers of A of the warp to their place, if A is in registers."""
    with c.when(more.word(More.A_ROWS).ge(0)):
        for register in range(4):
            row = context.pointer(Word.FRAME).at(more.word(More.A_ROWS + register))
            place.at(128 * register).store(row.load("<32 x i32>", align=64), align=4)


def _metadata(context: Value, more: Value) -> Value:
    """The metadata of a sparse A, in a register of the warp or constant."""
    offset = more.word(More.METADATA)
    place = offset.lt(0).select(more.pointer(More.CONSTANT), context.pointer(Word.FRAME).at(offset))
    return place.load("<32 x i32>", align=4)


def _check_metadata(c: Function, context: Value, more: Value) -> None:
    """Leave an instruction to the handler if one of the warp's metadata codes is not legal."""
    with c.when(more.word(More.USED).ne(0)):
        codes, used = _metadata(context, more), more.pointer(More.USED).load("<32 x i32>", align=4)
        legal, wrong = more.word(More.LEGAL).to("i32").splat(32), codes.constant(0)
        for bit in range(0, 32, 4):
            wrong = wrong | (~(legal.operation("lshr", (codes >> bit) & 15)) & (used >> bit))
        unless(c, (wrong & 1).reduce("or").eq(0))


def _ring(group: Value, member: Value) -> tuple[Value, Value]:
    """The ring of a warp's groups, and the mask of the places in it."""
    size = group.word(GroupWord.ENDS_SIZE)
    return group.pointer(GroupWord.ENDS).at(member * size << 3), size - 1


def emit_commit_group(module: Module) -> None:
    """``i64 groupcommit(context, count)``: commit what the warp has issued since the last commit; ``count`` means nothing.

    Where the ring is full, the oldest group leaves it: no wait of the program is for as many groups.
    """
    c, (context, _) = module.define("i64 groupcommit(ptr context, i64 count)")
    group, member = context.pointer(Word.WARPGROUP), context.word(Word.QUADRANT)
    ring, places = _ring(group, member)
    counts, completed = group.at(8 * GroupWord.COMMITTED), group.at(8 * GroupWord.COMPLETED)
    committed = counts.load("i64", member)
    ring.store(group.at(8 * GroupWord.ISSUED).load("i64", member), committed & places)
    counts.store(committed + 1, member)
    oldest = completed.load("i64", member)
    completed.store(oldest + (committed - oldest).ugt(places).to("i64"), member)
    c.ret(0)


def emit_wait_group(module: Module, internal: bool = False) -> None:
    """``i64 groupwait(context, count)``: pass a wait for all groups but the newest ``count``, and write back their accumulators.

    -1 if they have not performed: the context says for what the warp waits (`Word.AWAITS`), and nothing else is done.
    """
    c, (context, count) = module.define("i64 groupwait(ptr context, i64 count)", internal=internal)
    group, member = context.pointer(Word.WARPGROUP), context.word(Word.QUADRANT)
    ring, places = _ring(group, member)
    completed = group.at(8 * GroupWord.COMPLETED)
    stop = group.at(8 * GroupWord.COMMITTED).load("i64", member) - count
    with c.when(stop.le(completed.load("i64", member))):
        c.ret(0)
    end = ring.load("i64", (stop - 1) & places)
    with c.when(end.gt(group.word(GroupWord.PERFORMED))):
        context.set_words({Word.AWAITS: OF_GROUPS, Word.AWAITED_PHASE: end, Word.AWAITED_RESULT: count})
        c.ret(-1)
    completed.store(stop, member)
    with c.loop(group.word(GroupWord.RECORD_COUNT)) as number:
        record = _record(group, number)
        with c.when(record.word(Record.IN_FLIGHT).ne(0) & record.word(Record.LATEST).lt(end)):
            store = record.pointer(Record.STORE)
            c.call(store.pointer(0), "void", group.at(8 * GroupWord.BASES), store.at(8))
            record.set_word(Record.IN_FLIGHT, 0)
    c.ret(0)
