"""The compiled functions that record an operation on tensor memory or of a warpgroup when compiled code issues it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.race.shadow._clocks_ir import DONE, PYTHON, complete_read_loads
from ptxlab.check.race.shadow._warpgroups_ir import joined_rows
from ptxlab.check.race.shadow.shadow_words import AgentWord, BulkWord, PipeWord, StateWord
from ptxlab.engine.context import Word
from ptxlab.isa.operations import MemoryAccess
from ptxlab.native.builder import Function, Module, Value

__all__ = ["as_running", "emit_issue", "emit_issue_of_group", "ready_agent", "words_of_issue"]

_HEADER = range(StateWord.ROWS, StateWord.AGENT + 1)
"""The words that say which agent runs."""


class _IssueWord(IntEnum):
    """The words of an operation, and after them those of each access (`_AccessWord`)."""

    COUNT = 0
    KIND = 1
    OP = 2
    END = 3


class _AccessWord(IntEnum):
    """The words of an access to one memory: `MemoryAccess.where`, the second word of an entry, and its name.

    The name is that of the ranges if it writes to tensor memory, else 0; `_CONTINUES` if the access goes on with those in another memory.
    ``MEMORY`` is the number of the base that is added to the starts.
    """

    WHERE = 0
    WHAT = 4
    NAME = 5
    MEMORY = 6
    END = 7


_CONTINUES = 1
"""No array is at this address."""


def words_of_issue(kind: int, op: int, accesses: Sequence[tuple[MemoryAccess, int, bool]]) -> NDArray[np.int64]:
    """The words of an operation; of each access the second word of an entry, and if it writes to tensor memory."""
    rows: list[tuple[int, ...]] = []
    for access, what, accumulates in accesses:
        parts = [(0, *access.where)] if access.placed is None else access.placed.where
        for part, (memory, *where) in enumerate(parts):
            rows.append((*where, what, _CONTINUES if part else access.name * accumulates, memory))
    return np.array([len(rows), kind, op, *(word for row in rows for word in row)], np.uint64).view(np.int64)


def ready_agent(c: Function, context: Value, op: Value) -> tuple[Value, Value]:
    """The words of the warp that executes an op (`AgentWord`), and the state; the function returns PYTHON unless nothing is left to judge.

    Rows that the warp has recorded before are processed first.
    """
    agent = context.pointer(Word.EVENT_REPLAY)
    with c.when(agent.eq(0)):
        c.ret(PYTHON)
    state = agent.pointer(AgentWord.STATE)
    with c.when(context.word(Word.EVENT_COUNT).ne(0)):
        c.call("replay", "void", context, agent)
    left = context.word(Word.EVENT_COUNT) | state.word(StateWord.SUSPECT_COUNT)
    with c.when(left.ne(0) | state.word(StateWord.READY).eq(0)):
        c.ret(PYTHON)
    complete_read_loads(c, agent.at(8 * AgentWord.HEADER), agent.pointer(AgentWord.TRANSFERS), op, PYTHON)
    return agent, state


@contextmanager
def as_running(state: Value, agent: Value) -> Iterator[None]:
    """Emit code in which an agent is the running one."""
    running = [state.word(word) for word in _HEADER]
    for word in _HEADER:
        state.set_word(word, agent.word(AgentWord.HEADER - StateWord.ROWS + word))
    yield
    for word, value in zip(_HEADER, running, strict=True):
        state.set_word(word, value)


def emit_issue(module: Module) -> None:
    """``i64 issue(context, words, lane)``: record an operation of a lane (`_IssueWord`), as `Operations` does.

    Rows that the warp has recorded before are processed first. The result is PYTHON if nothing has been recorded, or if something is
    to be judged: that is noted (`StateWord.ISSUED`).
    """
    c = Function(module, "issue", "i64", "ptr context, ptr words, i64 lane")
    context, words, lane = c.parameters
    agent, state = ready_agent(c, context, words.word(_IssueWord.OP))
    pipes = agent.pointer(AgentWord.PIPES)
    with c.when(pipes.eq(0)):
        c.ret(PYTHON)
    pipe = pipes.at(lane * (8 * PipeWord.END))
    with c.when(pipe.word(PipeWord.NAME).eq(0)):
        c.ret(PYTHON)
    count, kind = words.word(_IssueWord.COUNT), words.word(_IssueWord.KIND)
    who = (pipe.word(PipeWord.NAME) << 32) | pipe.word(PipeWord.CLOCK)
    bases, recorded = context.pointer(Word.REPEATED_IN).pointer(1), c.variable("i1", 1)
    with as_running(state, agent):
        with c.when(state.word(StateWord.TRANSFERRED).ne(0)):
            state.set_words({StateWord.TRANSFERRED: 0, StateWord.ACCUMULATOR: 0})
        with c.loop(count) as i:
            access = words.at(i * (8 * _AccessWord.END) + 8 * _IssueWord.END)
            name = access.word(_AccessWord.NAME)
            with c.when(name.ne(_CONTINUES)):
                again = {StateWord.ACCUMULATOR: name, StateWord.ACCUMULATOR + 1: who, StateWord.ACCUMULATOR + 2: kind}
                other = c.const("i64", 0)
                for word, value in again.items():
                    other = other | (state.word(word) ^ value)
                recorded.set(name.eq(0) | other.ne(0))
                with c.when(name.ne(0) & other.ne(0)):
                    state.set_words(again)
            with c.when(recorded.get()):
                _record(c, state, access, who, bases.load("i64", access.word(_AccessWord.MEMORY)))
    _return_issued(c, state)


def emit_issue_of_group(module: Module) -> None:
    """``i64 issued(context, words, lane)``: the same for the last share in an operation of a warpgroup; the lane means nothing."""
    c = Function(module, "issued", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = c.parameters
    agent, state = ready_agent(c, context, words.word(_IssueWord.OP))
    group, outcome = agent.pointer(AgentWord.WARPGROUP), c.variable("i64", PYTHON)
    with as_running(state, agent):
        outcome.set(c.call("group_issue", "i64", state, words.word(_IssueWord.OP)))
        with c.when(outcome.get().eq(DONE)):
            number = group.word(BulkWord.CLOCK)
            state.set_word(StateWord.ROWS, joined_rows(state, group, number).convert("ptrtoint", "i64"))
            with c.loop(words.word(_IssueWord.COUNT)) as i:
                access = words.at(i * (8 * _AccessWord.END) + 8 * _IssueWord.END)
                _record(c, state, access, (group.word(BulkWord.NAME) << 32) | number, c.const("i64", 0))
    with c.when(outcome.get().ne(DONE)):
        c.ret(PYTHON)
    _return_issued(c, state)


def _record(c: Function, state: Value, access: Value, who: Value, base: Value) -> None:
    """Record an access (`_AccessWord`); ``who`` is the first word of an entry, ``base`` is added to the starts."""
    for at in range(_AccessWord.WHAT):
        state.set_word(StateWord.ACCESSED + at, access.word(_AccessWord.WHERE + at))
    state.set_word(StateWord.ACCESSED + _AccessWord.WHAT, who)
    state.set_word(StateWord.ACCESSED + _AccessWord.WHAT + 1, access.word(_AccessWord.WHAT))
    c.call("ranges_from", "void", state, base)


def _return_issued(c: Function, state: Value) -> None:
    """Return whether Python must judge what has been recorded."""
    with c.when(state.word(StateWord.SUSPECT_COUNT).ne(0)):
        state.set_word(StateWord.ISSUED, 1)
        c.ret(PYTHON)
    c.ret(DONE)
